//! Descriptions of schedules in Chinese.
//!
//! Chinese names the larger unit first, so the phrases are months, days and time of day. They are
//! written without blanks; [`spaced`] puts one between a Chinese character and a number.

use std::borrow::ToOwned;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::explain::{LISTED_STRETCHES, Repeat, clock, listed_times, numbers};
use super::field::{Item, Values};
use super::schedule::Fields;

const WEEKDAYS: [&str; 7] = ["周日", "周一", "周二", "周三", "周四", "周五", "周六"];

pub(super) fn explain(fields: &Fields) -> String {
    let text = match listed_times(fields) {
        Some(times) => {
            let days = dates(fields).unwrap_or_else(|| "每天".to_owned());
            format!("{days} {}", times.join("、"))
        }
        None => match dates(fields) {
            Some(days) => format!("{days},{}", time_of_day(fields)),
            None => time_of_day(fields),
        },
    };
    spaced(&text)
}

/// Describes the days and months; `None` for every day.
fn dates(fields: &Fields) -> Option<String> {
    let (month_days, weekdays) = (&fields.day_of_month, &fields.day_of_week);
    let months = (!fields.month.star)
        .then(|| format!("每年{}", items(&fields.month, |month| format!("{month}月"))));
    let of_month = |days: String| match &months {
        Some(months) => format!("{months}的{days}"),
        None => format!("每月{days}"),
    };
    let on_month_days = || of_month(items(month_days, |day| format!("{day}日")));
    let names = items(weekdays, |day| WEEKDAYS[usize::from(day) % 7].to_owned());
    let counted = |item: &Item| matches!(item, Item::Nth { .. } | Item::LastOf { .. });
    let is_counted = weekdays.items.iter().any(counted);
    match (month_days.star, weekdays.star) {
        (true, true) => months.map(|months| format!("{months}每天")),
        (false, true) => Some(on_month_days()),
        (true, false) if is_counted => Some(of_month(names)),
        (true, false) => match months {
            Some(months) => Some(format!("{months}的每{names}")),
            None => Some(format!("每{names}")),
        },
        (false, false) if weekdays.and => Some(format!("{}且为{names}", on_month_days())),
        (false, false) if is_counted => Some(format!("{}或{names}", on_month_days())),
        (false, false) => Some(format!("{}或每{names}", on_month_days())),
    }
}

/// Describes the items of a day or month field.
fn items(values: &Values, name: impl Fn(u8) -> String) -> String {
    let words = values.items.iter().map(|item| match *item {
        Item::Span { from, to, .. } if from == to => name(from),
        Item::Span { from, to, step: 1 } => format!("{}至{}", name(from), name(to)),
        Item::Span { from, to, step } => {
            let names: Vec<String> = (from..=to).step_by(usize::from(step)).map(&name).collect();
            names.join("、")
        }
        Item::Last => "最后一天".to_owned(),
        Item::LastWorkday => "最后一个工作日(周一至周五)".to_owned(),
        Item::Workday(day) => format!("最接近{}的工作日(周一至周五)", name(day)),
        Item::Nth { weekday, nth } => format!("第{nth}个{}", WEEKDAYS[usize::from(weekday) % 7]),
        Item::LastOf { weekday } => format!("最后一个{}", WEEKDAYS[usize::from(weekday) % 7]),
    });
    words.collect::<Vec<_>>().join("、")
}

fn time_of_day(fields: &Fields) -> String {
    let seconds = numbers(&fields.second);
    if seconds == [0] {
        return minutes_and_hours(fields);
    }
    let every_minute = Repeat::of(&fields.minute, 60).is_some_and(Repeat::is_each);
    match Repeat::of(&fields.second, 60) {
        Some(repeat) if every_minute && repeat.is_whole => {
            format!("{}{}", hours(&fields.hour).unwrap_or_default(), period(repeat, "秒"))
        }
        Some(repeat) => format!("{},{}", minutes_and_hours(fields), repeated(repeat, "秒")),
        None => format!("{},{}", minutes_and_hours(fields), at_numbers(&seconds, "秒")),
    }
}

fn minutes_and_hours(fields: &Fields) -> String {
    if let Some(times) = listed_times(&Fields { second: Values::one(0), ..fields.clone() }) {
        return times.join("、");
    }
    let minutes = numbers(&fields.minute);
    match (minutes.as_slice(), Repeat::of(&fields.hour, 24)) {
        ([0], Some(repeat)) if repeat.is_whole => return period(repeat, "小时"),
        (&[minute], Some(repeat)) if !repeat.is_each() => {
            let (from, to) = (clock(repeat.from, minute), clock(repeat.to, minute));
            return format!("{from}至{to}{}", period(repeat, "小时"));
        }
        _ => {}
    }
    let hours = hours(&fields.hour).unwrap_or_default();
    match Repeat::of(&fields.minute, 60) {
        Some(repeat) if repeat.is_whole => format!("{hours}{}", period(repeat, "分钟")),
        Some(repeat) => format!("{hours}每小时{}", repeated(repeat, "分钟")),
        None => format!("{hours}每小时{}", at_numbers(&minutes, "分钟")),
    }
}

/// Describes the hours; `None` for all hours.
fn hours(hours: &Values) -> Option<String> {
    if Repeat::of(hours, 24).is_some_and(Repeat::is_each) {
        return None;
    }
    let numbers = numbers(hours);
    let runs: Vec<&[u8]> = numbers.chunk_by(|one, next| one + 1 == *next).collect();
    if runs.len() > LISTED_STRETCHES {
        let hours: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        return Some(format!("{}时,", hours.join("、")));
    }
    let stretch = |run: &&[u8]| format!("{}至{}", clock(run[0], 0), clock(run[run.len() - 1], 59));
    Some(runs.iter().map(stretch).collect::<Vec<_>>().join("、"))
}

/// `每 15 分钟`, or `每分钟` for each.
fn period(repeat: Repeat, unit: &str) -> String {
    match repeat.step {
        1 => format!("每{unit}"),
        step => format!("每{step}{unit}"),
    }
}

fn repeated(repeat: Repeat, unit: &str) -> String {
    if repeat.is_whole {
        return period(repeat, unit);
    }
    format!("第{}至{}{unit}{}", repeat.from, repeat.to, period(repeat, unit))
}

fn at_numbers(numbers: &[u8], unit: &str) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("第{}{unit}", numbers.join("、"))
}

/// Puts a blank between each Chinese character and a number beside it, as Chinese typography does.
fn spaced(text: &str) -> String {
    let is_chinese = |letter: char| ('\u{4e00}'..='\u{9fff}').contains(&letter);
    let mut spaced = String::with_capacity(text.len() * 2);
    for letter in text.chars() {
        let last = spaced.chars().next_back().unwrap_or(' ');
        if (is_chinese(last) && letter.is_ascii_digit())
            || (last.is_ascii_digit() && is_chinese(letter))
        {
            spaced.push(' ');
        }
        spaced.push(letter);
    }
    spaced
}

#[cfg(test)]
mod tests {
    use std::format;

    use crate::cron::Schedule;

    #[test]
    fn every_part_of_an_expression_is_in_the_words() {
        for (expression, words) in [
            ("* * * * *", "每分钟"),
            ("*/15 * * * *", "每 15 分钟"),
            ("0 * * * *", "每小时"),
            ("30 * * * *", "每小时第 30 分钟"),
            ("0 */2 * * *", "每 2 小时"),
            ("*/10 * * * * *", "每 10 秒"),
            ("0 9 * * *", "每天 09:00"),
            ("0 9,18 * * *", "每天 09:00、18:00"),
            ("0 9 * * MON-FRI", "每周一至周五 09:00"),
            ("0 9 * * MON,WED", "每周一、周三 09:00"),
            ("*/15 9-17 * * *", "09:00 至 17:59 每 15 分钟"),
            ("30 9-17 * * *", "09:30 至 17:30 每小时"),
            ("10-40/10 * * * *", "每小时第 10 至 40 分钟每 10 分钟"),
            ("*/20 * 1 * *", "每月 1 日,每 20 分钟"),
            ("0 8 L * *", "每月最后一天 08:00"),
            ("0 8 LW * *", "每月最后一个工作日(周一至周五) 08:00"),
            ("0 0 13 * FRI", "每月 13 日或每周五 00:00"),
            ("0 0 13 * +FRI", "每月 13 日且为周五 00:00"),
            ("0 0 * * MON#2", "每月第 2 个周一 00:00"),
            ("0 0 * * FRIL", "每月最后一个周五 00:00"),
            ("0 0 1 1,7 *", "每年 1 月、7 月的 1 日 00:00"),
            ("0 0 * 3-5 MON", "每年 3 月至 5 月的每周一 00:00"),
            ("0 0 * 6 *", "每年 6 月每天 00:00"),
            ("0 0 */10 * *", "每月 1 日、11 日、21 日、31 日 00:00"),
            ("*/15 */6 * * *", "0、6、12、18 时,每 15 分钟"),
        ] {
            let schedule = Schedule::new(expression, "UTC").unwrap();
            assert_eq!(schedule.explain_in_chinese(), format!("{words},UTC"), "{expression}");
        }
    }
}
