//! Schedules in words: the description of each kind of expression.

use tickwheel::cron::Schedule;

fn assert_explained(table: &[(&str, &str)]) {
    for (expression, words) in table {
        let schedule = Schedule::new(expression, "Europe/Berlin").unwrap();
        assert_eq!(schedule.explain(), format!("{words}, Europe/Berlin"), "{expression}");
    }
}

#[test]
fn nicknames_are_explained_as_what_they_mean() {
    assert_explained(&[
        ("@hourly", "Every hour"),
        ("@daily", "At 00:00 every day"),
        ("@weekly", "At 00:00 on Sunday"),
        ("@monthly", "At 00:00 on the 1st of the month"),
        ("@yearly", "At 00:00 on the 1st of January"),
    ]);
}

#[test]
fn seconds_are_named_where_they_matter() {
    assert_explained(&[
        ("*/10 * * * * *", "Every 10 seconds"),
        ("* * * * * *", "Every second"),
        ("30 * * * * *", "At second 30, every minute"),
        ("30 0 9 * * *", "At 09:00:30 every day"),
        ("0,30 0 9 * * *", "At 09:00:00 and 09:00:30 every day"),
        ("*/10 5 * * * *", "Every 10 seconds, at minute 5 of every hour"),
        ("*/10 */5 * * * *", "Every 10 seconds, every 5 minutes"),
        ("* 0 9 * * *", "Every second, at 09:00"),
        ("*/10 * 9-17 * * *", "Every 10 seconds from 09:00 through 17:59"),
        ("15 */15 9-17 * * *", "At second 15, every 15 minutes from 09:00 through 17:59"),
        ("5-20 * * * * *", "Every second from second 5 through 20"),
        ("* * 9 * * *", "Every second from 09:00 through 09:59"),
        ("5,6,7 1 * * * *", "At seconds 5, 6 and 7, at minute 1 of every hour"),
    ]);
}

#[test]
fn dates_are_days_of_a_month_or_of_a_week() {
    assert_explained(&[
        ("0 9 * * MON-FRI", "At 09:00 on Monday through Friday"),
        ("0 0 1 * *", "At 00:00 on the 1st of the month"),
        ("0 0 1,15 * *", "At 00:00 on the 1st and the 15th of the month"),
        ("0 0 1-7 * *", "At 00:00 on the 1st through the 7th of the month"),
        ("0 0 */2 * *", "At 00:00 on every 2nd day of the month"),
        ("0 0 3-20/4 * *", "At 00:00 on every 4th day from the 3rd through the 20th of the month"),
        ("0 0 L * *", "At 00:00 on the last day of the month"),
        ("0 0 LW * *", "At 00:00 on the last workday (Monday to Friday) of the month"),
        (
            "0 0 15W * *",
            "At 00:00 on the workday (Monday to Friday) nearest to the 15th of the month",
        ),
        ("0 0 1,L * *", "At 00:00 on the 1st and the last day of the month"),
        ("0 0 31 * *", "At 00:00 on the 31st of the month"),
        ("0 0 * * 7", "At 00:00 on Sunday"),
        ("0 0 * * FRI-SUN", "At 00:00 on Friday through Sunday"),
        ("0 0 * * */2", "At 00:00 on Sunday, Tuesday, Thursday and Saturday"),
        ("0 0 * * MON,WED,FRI", "At 00:00 on Monday, Wednesday and Friday"),
        ("0 0 * * FRI#2", "At 00:00 on the second Friday of the month"),
        ("0 0 * * FRIL", "At 00:00 on the last Friday of the month"),
        ("0 0 * * MON#1,MON#3", "At 00:00 on the first Monday and the third Monday of the month"),
        ("0 0 13 * FRI", "At 00:00 on the 13th of the month or on Friday"),
        ("0 0 13 * +FRI", "At 00:00 on the 13th of the month if it is Friday"),
        (
            "0 0 1-7 * +MON,TUE",
            "At 00:00 on the 1st through the 7th of the month if it is Monday or Tuesday",
        ),
        ("0 0 ? * MON", "At 00:00 on Monday"),
        ("0 0 29 2 *", "At 00:00 on the 29th of February"),
        ("0 0 * JAN-MAR *", "At 00:00 every day in January through March"),
        ("0 0 1 */3 *", "At 00:00 on the 1st of January, April, July and October"),
        ("*/5 * * 6,7 *", "Every 5 minutes in June and July"),
        ("0 0 * 12 SUN", "At 00:00 on Sunday in December"),
        ("59 23 31 12 *", "At 23:59 on the 31st of December"),
        ("0 0 22 3 *", "At 00:00 on the 22nd of March"),
    ]);
}

#[test]
fn times_of_day_are_listed_or_described() {
    assert_explained(&[
        ("* * * * *", "Every minute"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("*/7 * * * *", "Every 7 minutes from minute 0 through 56 of every hour"),
        ("0 * * * *", "Every hour"),
        ("5 * * * *", "At minute 5 of every hour"),
        ("5,35 * * * *", "At minutes 5 and 35 of every hour"),
        ("0-10 * * * *", "Every minute from minute 0 through 10 of every hour"),
        ("10-40/5 * * * *", "Every 5 minutes from minute 10 through 40 of every hour"),
        ("0 9,17 * * *", "At 09:00 and 17:00 every day"),
        ("0,30 9,17 * * *", "At 09:00, 09:30, 17:00 and 17:30 every day"),
        (
            "0,15,30,45 9,17 * * *",
            "At minutes 0, 15, 30 and 45 from 09:00 through 09:59 and from 17:00 through 17:59",
        ),
        ("*/15 9-17 * * *", "Every 15 minutes from 09:00 through 17:59"),
        ("*/15 9 * * *", "Every 15 minutes from 09:00 through 09:59"),
        (
            "*/15 9,17 * * *",
            "Every 15 minutes from 09:00 through 09:59 and from 17:00 through 17:59",
        ),
        ("*/10 1,3,5,7,9 * * *", "Every 10 minutes in the hours 1, 3, 5, 7 and 9"),
        ("0 9-17 * * *", "Every hour from 09:00 through 17:00"),
        ("30 9-17 * * *", "Every hour from 09:30 through 17:30"),
        ("0 */2 * * *", "Every 2 hours"),
        ("30 */2 * * *", "Every 2 hours from 00:30 through 22:30"),
        ("*/15 */2 * * *", "Every 15 minutes in every 2nd hour"),
        ("0 */5 * * *", "Every 5 hours from 00:00 through 20:00"),
        ("0 8-18/2 * * *", "Every 2 hours from 08:00 through 18:00"),
        ("*/20 8-18/2 * * *", "Every 20 minutes in every 2nd hour from 08:00 through 18:59"),
        ("5,35 */2 * * *", "At minutes 5 and 35 in every 2nd hour"),
        ("5,35 9-17 * * *", "At minutes 5 and 35 from 09:00 through 17:59"),
        ("0 0-5,12 * * *", "At minute 0 from 00:00 through 05:59 and from 12:00 through 12:59"),
        ("0 22-23,0-5 * * *", "At minute 0 from 00:00 through 05:59 and from 22:00 through 23:59"),
        ("0 0-23 * * *", "Every hour"),
        ("*/60 * * * *", "Every hour"),
        ("0 */24 * * *", "At 00:00 every day"),
        ("0 9-9 * * *", "At 09:00 every day"),
        ("0-59/30 * * * *", "Every 30 minutes"),
        ("0 0-10/20 * * *", "At 00:00 every day"),
        ("0 1,2,3,4,5,6,7 * * *", "At minute 0 from 01:00 through 07:59"),
        ("5 1,2,3,4,5,6,7 * * *", "At minute 5 from 01:00 through 07:59"),
    ]);
}
