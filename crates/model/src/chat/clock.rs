//! The function `strftime_now`, which some templates call to put a date into the system turn.
//! The time is UTC: the local zone is not known to the standard library.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const SECONDS_PER_DAY: u64 = 86_400;

/// The time now, by a format of Python's `strftime`.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    strftime(format, since.as_secs())
}

/// A calendar date.
struct Date {
    year: u64,
    /// 0..12.
    month: usize,
    /// 1..=31.
    day: u64,
    /// 1..=366.
    day_of_year: u64,
}

impl Date {
    /// The date so many days after 1 January 1970.
    fn after_epoch(days: u64) -> Date {
        let (mut year, mut rest) = (1970, days);
        while rest >= year_days(year) {
            rest -= year_days(year);
            year += 1;
        }
        let day_of_year = rest + 1;
        let mut month = 0;
        while rest >= month_days(year, month) {
            rest -= month_days(year, month);
            month += 1;
        }
        Date { year, month, day: rest + 1, day_of_year }
    }
}

fn year_days(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    365 + u64::from(leap)
}

fn month_days(year: u64, month: usize) -> u64 {
    match month {
        1 => year_days(year) - 337,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

fn strftime(format: &str, seconds: u64) -> Result<String, Error> {
    let date = Date::after_epoch(seconds / SECONDS_PER_DAY);
    let mut text = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c == '%' {
            text += &field(chars.next(), &date, seconds)?;
        } else {
            text.push(c);
        }
    }
    Ok(text)
}

fn field(letter: Option<char>, date: &Date, seconds: u64) -> Result<String, Error> {
    // 1 January 1970 was a Thursday.
    let weekday = DAYS[((seconds / SECONDS_PER_DAY + 4) % 7) as usize];
    let month = MONTHS[date.month];
    let of_day = seconds % SECONDS_PER_DAY;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let mut text = String::new();
    let written = match letter {
        Some('Y') => write!(text, "{}", date.year),
        Some('y') => write!(text, "{:02}", date.year % 100),
        Some('m') => write!(text, "{:02}", date.month + 1),
        Some('d') => write!(text, "{:02}", date.day),
        Some('e') => write!(text, "{:2}", date.day),
        Some('j') => write!(text, "{:03}", date.day_of_year),
        Some('H') => write!(text, "{hour:02}"),
        Some('I') => write!(text, "{:02}", (hour + 11) % 12 + 1),
        Some('M') => write!(text, "{minute:02}"),
        Some('S') => write!(text, "{second:02}"),
        Some('p') => write!(text, "{}", if hour < 12 { "AM" } else { "PM" }),
        Some('A') => write!(text, "{weekday}"),
        Some('a') => write!(text, "{}", &weekday[..3]),
        Some('B') => write!(text, "{month}"),
        Some('b' | 'h') => write!(text, "{}", &month[..3]),
        Some('F') => write!(text, "{}-{:02}-{:02}", date.year, date.month + 1, date.day),
        Some('T') => write!(text, "{hour:02}:{minute:02}:{second:02}"),
        Some('Z') => write!(text, "UTC"),
        Some('z') => write!(text, "+0000"),
        Some('%') => write!(text, "%"),
        other => {
            let message = format!("strftime_now does not know the field %{}", other.unwrap_or(' '));
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
    };
    written.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        let cases = [
            (0, "1970-01-01 Thu 001"),
            (951_782_400, "2000-02-29 Tue 060"),
            (951_868_800, "2000-03-01 Wed 061"),
            (1_735_603_200, "2024-12-31 Tue 366"),
            (1_767_225_599, "2025-12-31 Wed 365"),
            (4_107_542_400, "2100-03-01 Mon 060"),
        ];
        for (seconds, text) in cases {
            assert_eq!(strftime("%F %a %j", seconds).unwrap(), text);
        }
    }

    #[test]
    fn fields_are_as_python_writes_them() {
        let text = strftime("%d %B %Y, %b %e %y %H:%M:%S %I %p %A %m %%", 1_750_000_004).unwrap();
        assert_eq!(text, "15 June 2025, Jun 15 25 15:06:44 03 PM Sunday 06 %");
        assert!(strftime("%Q", 0).unwrap_err().to_string().contains("%Q"));
        assert!(strftime("%", 0).is_err());
    }
}
