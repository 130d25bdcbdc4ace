//! Reads, summarises and writes numbers.

/// Returns the middle value, or the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    let lower = (sorted.len() - 1) / 2;
    f64::midpoint(sorted[lower], sorted[upper])
}

/// Returns the smallest value that `share` of all values do not exceed.
pub(crate) fn quantile(sorted: &[i64], share: f64) -> i64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.max(1) - 1]
}

/// Writes a count: 1M, 250k, 999.
pub(crate) fn count(count: usize) -> String {
    match count {
        n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// Writes a value with its significant digits.
pub(crate) fn figure_text(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Writes how many times one value is another.
pub(crate) fn ratio_text(ratio: f64) -> String {
    if ratio < 0.995 {
        format!("{ratio:.2}x")
    } else if ratio < 9.95 {
        format!("{ratio:.1}x")
    } else {
        format!("{ratio:.0}x")
    }
}

/// Parses a number from 1 to `most`, such as 500k, 1m or 2000000.
pub(super) fn parse_count(text: &str, things: &str, most: usize) -> Result<usize, String> {
    let (digits, unit) = match text.to_ascii_lowercase() {
        text if text.ends_with('k') => (text[..text.len() - 1].to_owned(), 1_000),
        text if text.ends_with('m') => (text[..text.len() - 1].to_owned(), 1_000_000),
        text => (text, 1),
    };
    let count: usize = digits
        .parse()
        .map_err(|_| String::from("give a whole number, as in 500k, 1m or 2000000"))?;
    match count.checked_mul(unit) {
        Some(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(format!("give a number of {things} from 1 to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, middle) in
            [(&[3.0][..], 3.0), (&[9.0, 1.0, 2.0], 2.0), (&[4.0, 1.0, 2.0, 9.0], 3.0)]
        {
            assert!((median(values) - middle).abs() < f64::EPSILON);
        }
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let sorted: Vec<i64> = (1..=1_000).collect();
        let quantiles = [0.5, 0.99, 0.999, 1.0].map(|share| quantile(&sorted, share));
        assert_eq!(quantiles, [500, 990, 999, 1_000]);
        assert_eq!(quantile(&[2], 0.5), 2);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(["1M", "250k", "999"], [1_000_000, 250_000, 999].map(count)[..]);
        assert_eq!(["1.5", "10", "1234"], [1.5, 9.96, 1234.4].map(figure_text)[..]);
        assert_eq!(["0.04x", "1.5x", "16x"], [0.04, 1.5, 16.4].map(ratio_text)[..]);
    }

    #[test]
    fn counts_are_read_as_people_write_them() {
        let parse_count = |text| parse_count(text, "keys", 1 << 24);
        assert_eq!(parse_count("1m"), Ok(1_000_000));
        assert_eq!(parse_count("500K"), Ok(500_000));
        assert_eq!(parse_count("7"), Ok(7));
        for wrong in ["", "m", "0", "1.5m", "17m", "-1", "99999999999999999999m"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
    }
}
