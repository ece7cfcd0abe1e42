//! Times as people write them, RFC 3339, as milliseconds since the Unix epoch.

/// Reads a time such as `2024-05-01T12:00:00Z` or `2024-05-01t14:00:00.25+02:00`. Digits behind the third of a fraction
/// are cut off; a leap second counts as the second after it. `None` for anything else, also a time without an offset:
/// whose local time it is cannot be known.
pub(crate) fn parse_millis(text: &str) -> Option<i64> {
    let (date, time) = text.split_at_checked(10)?;
    let time = time.strip_prefix(['T', 't', ' '])?;
    let days = days(date)?;
    let (clock, rest) = time.split_at_checked(8)?;
    let seconds = seconds(clock)?;
    let (millis, zone) = fraction(rest)?;
    let offset = offset_minutes(zone)?;
    Some(((days * 24 * 60 - offset) * 60 + seconds) * 1000 + millis)
}

/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH: i64 = 719_468;

/// Days from the epoch to a date of the proleptic Gregorian calendar.
fn days(date: &str) -> Option<i64> {
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    // Years that begin in March, so that the leap day is a year's last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let in_year = (153 * month + 2) / 5 + day - 1;
    Some(year * 365 + leap_days + in_year - EPOCH)
}

fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn seconds(clock: &str) -> Option<i64> {
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    (hour < 24 && minute < 60 && second <= 60).then_some((hour * 60 + minute) * 60 + second)
}

/// The milliseconds of a fraction, if there is one, and what follows it.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, zone) = rest.split_at(end);
    let millis: String = digits.chars().chain("00".chars()).take(3).collect();
    if digits.is_empty() { None } else { Some((millis.parse().ok()?, zone)) }
}

fn offset_minutes(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, clock) = match zone.split_at_checked(1)? {
        ("+", clock) => (1, clock),
        ("-", clock) => (-1, clock),
        _ => return None,
    };
    let [hours, minutes] = numbers(clock, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Numbers of exactly these many digits, with one separator between each two.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut found = [0; N];
    for (number, digits) in found.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits)?;
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_milliseconds_since_the_epoch() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.5z", 500),
            ("1969-12-31T23:59:59Z", -1000),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("2024-05-01T12:00:00Z", 1_714_564_800_000),
            ("2024-05-01t14:00:00.0019+02:00", 1_714_564_800_001),
            ("2024-05-01 06:30:00-05:30", 1_714_564_800_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ] {
            assert_eq!(parse_millis(text), Some(millis), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_or_does_not_say_where_is_refused() {
        for text in [
            "",
            "2024-05-01",
            "2024-05-01T12:00:00",
            "2024-05-01T12:00Z",
            "2024-13-01T12:00:00Z",
            "2024-02-30T12:00:00Z",
            "2023-02-29T12:00:00Z",
            "2024-05-01T24:00:00Z",
            "2024-05-01T12:00:00.Z",
            "2024-05-01T12:00:00+0200",
            "2024-05-01T12:00:00Z ",
            "2024-5-01T12:00:00Z",
            "+024-05-01T12:00:00Z",
            "２０２４-05-01T12:00:00Z",
            "yesterday",
        ] {
            assert_eq!(parse_millis(text), None, "{text}");
        }
    }
}
