//! Priorities: 32 bits on the wire, 8 bits in a queue.
//!
//! A queue has 256 priorities, and a higher one goes first; on the wire, a smaller number goes first.
//! So the numbers fall into classes, and jobs of one class are delivered in order of due time.
//!
//! | `pri` | classes | priority in the queue |
//! |---|---|---|
//! | 0 to 63 | one for each number | 127 to 64 |
//! | 64 to 1,023 | 15 for each doubling | 63 to 4 |
//! | 1,024 and more | 5 for each doubling | 0 to -109 |
//!
//! 1,024 is the border of urgent jobs in beanstalkd, and 0 is the priority of a job that was put
//! over HTTP without one.

/// Numbers that have a class of their own.
const EXACT: u32 = 64;
/// Numbers below this are urgent.
const URGENT: u32 = 1_024;
/// The class of the first number that is not urgent.
const FIRST_NOT_URGENT: u32 = 127;
/// Classes of each doubling, below the border and above.
const FINE: u32 = 15;
const COARSE: u32 = 5;

/// The priority in a queue of a number on the wire.
pub(super) fn of_pri(pri: u32) -> i8 {
    let class = match pri {
        0..EXACT => pri,
        EXACT..URGENT => EXACT + steps(pri, EXACT, FINE),
        _ => FIRST_NOT_URGENT + steps(pri, URGENT, COARSE),
    };
    // The last class is 236.
    (127 - class.cast_signed()) as i8
}

/// Returns how many steps a number is above the start, with `per_doubling` steps in each doubling.
fn steps(pri: u32, start: u32, per_doubling: u32) -> u32 {
    let doublings = (pri / start).ilog2();
    let base = u64::from(start) << doublings;
    let above = (u64::from(pri) - base) * u64::from(per_doubling) / base;
    doublings * per_doubling + above as u32
}

/// The number on the wire of a job: the one that it was put with, unless its priority was changed
/// since. Then it is the smallest number of its class.
pub(super) fn to_pri(priority: i8, put_with: Option<u32>) -> u32 {
    if let Some(pri) = put_with.filter(|pri| of_pri(*pri) == priority) {
        return pri;
    }
    let class = (127 - i32::from(priority)).cast_unsigned();
    let start_of = |start: u32, step: u32, per_doubling: u32| {
        let base = u64::from(start) << (step / per_doubling).min(32);
        let above = base * u64::from(step % per_doubling);
        u32::try_from(base + above.div_ceil(u64::from(per_doubling))).unwrap_or(u32::MAX)
    };
    match class {
        0..EXACT => class,
        EXACT..FIRST_NOT_URGENT => start_of(EXACT, class - EXACT, FINE).min(URGENT - 1),
        _ => start_of(URGENT, class - FIRST_NOT_URGENT, COARSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_holds_and_each_class_begins_where_it_says() {
        let mut numbers: Vec<u32> = (0..5_000).collect();
        for bit in 12..32 {
            for more in [0, 1, 7, (1 << bit) / 3, (1 << bit) - 1] {
                numbers.push((1 << bit) + more);
            }
        }
        numbers.sort_unstable();
        for pair in numbers.windows(2) {
            assert!(of_pri(pair[0]) >= of_pri(pair[1]), "{pair:?}");
        }
        assert_eq!([0, 1, 63].map(of_pri), [127, 126, 64]);
        assert_eq!([1_023, 1_024, u32::MAX].map(of_pri), [4, 0, -109]);
        for priority in i8::MIN..=i8::MAX {
            let pri = to_pri(priority, None);
            if !(1..4).contains(&priority) && priority >= -109 {
                assert_eq!(of_pri(pri), priority, "{pri}");
                assert!(pri == 0 || of_pri(pri - 1) > priority, "{pri}");
            }
        }
        assert_eq!(to_pri(0, None), 1_024);
        assert_eq!(to_pri(i8::MIN, None), u32::MAX);
    }

    #[test]
    fn a_number_is_shown_as_it_was_put() {
        assert_eq!(to_pri(of_pri(65_536), Some(65_536)), 65_536);
        assert_eq!(to_pri(of_pri(65_537), Some(65_537)), 65_537);
        assert_eq!(to_pri(of_pri(7), Some(65_537)), 7);
    }
}
