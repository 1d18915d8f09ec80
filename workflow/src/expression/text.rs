//! Durations and times as texts: shared by expressions and documents.

/// The milliseconds of a duration like `250ms`, `30s`, `1.5s`, `1h30m`, `7d`: one or more numbers, each with its unit
/// (`ms`, `s`, `m`, `h`, `d`), added up exactly and rounded down. None for anything else, or beyond u64.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    // In billionths of a millisecond; further digits are cut off.
    let mut total: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() || total == 0 && rest.len() == text.len() {
        let (whole, after) = digits(rest)?;
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after)?,
            None => ("", after),
        };
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
        let (after, unit_ms) = units.iter().find_map(|(unit, ms)| Some((after.strip_prefix(unit)?, *ms)))?;
        let billionths: u128 = format!("{whole}{:0<9.9}", fraction).parse().ok()?;
        total = total.checked_add(billionths.checked_mul(unit_ms)?)?;
        rest = after;
    }
    u64::try_from(total / 1_000_000_000).ok()
}

fn digits(text: &str) -> Option<(&str, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    (length > 0).then(|| text.split_at(length))
}

/// The milliseconds since 1970 of an RFC 3339 time like `2026-01-31T12:00:00.5Z` or `…+02:00`, rounded to the nearest
/// (half to even). None for anything else: there is always a zone, and no second 60.
pub fn parse_timestamp_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, length: usize| -> Option<i64> {
        let digits = bytes.get(from..from + length)?;
        digits.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let is = |at: usize, allowed: &[u8]| bytes.get(at).is_some_and(|byte| allowed.contains(byte));
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let separated = is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":");
    let within = year > 0 && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !separated || !within || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut at = 19;
    let mut micros = 0;
    if is(at, b".") {
        let (fraction, _) = digits(text.get(at + 1..)?)?;
        micros = format!("{fraction:0<6.6}").parse::<i64>().ok()?;
        at += 1 + fraction.len();
    }
    let offset_minutes = match bytes.get(at..)? {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (number(at + 1, 2)?, number(at + 4, 2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'+' { 1 } else { -1 }
        }
        _ => return None,
    };
    let minutes = (days_since_1970(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
    let (ms, rest) = (micros / 1_000, micros % 1_000);
    let up = rest > 500 || rest == 500 && ms % 2 == 1;
    Some((minutes * 60 + second) * 1_000 + ms + i64::from(up))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar. Years are counted from March, so that the leap
/// day is their last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("250ms", Some(250)),
            ("30s", Some(30_000)),
            ("1.5s", Some(1_500)),
            ("1.001s", Some(1_001)),
            ("1h30m", Some(5_400_000)),
            ("7d", Some(604_800_000)),
            ("0s", Some(0)),
            ("0s1s", Some(1_000)),
            ("0.5ms", Some(0)),
            ("0.5ms0.5ms", Some(1)),
            ("0.0000000001d", Some(0)),
            ("", None),
            ("5", None),
            ("s", None),
            ("1.s", None),
            (".5s", None),
            ("-1s", None),
            ("1 s", None),
            ("1w", None),
            ("1s ", None),
            ("99999999999999999999d", None),
            ("99999999999999999999999999999999999999999d", None),
        ] {
            assert_eq!(parse_duration_ms(text), ms, "{text}");
        }
    }

    #[test]
    fn timestamps() {
        for (text, ms) in [
            ("1970-01-01T00:00:01Z", Some(1_000)),
            ("1969-12-31T23:59:59.999Z", Some(-1)),
            ("2000-02-29T12:00:00+02:00", Some(951_818_400_000)),
            ("2026-11-30T06:00:00-05:30", Some(1_796_038_200_000)),
            ("2026-11-30t06:00:00.1234567z", Some(1_796_018_400_123)),
            ("1970-01-01T00:00:00.0005Z", Some(0)),
            ("1970-01-01T00:00:00.0015Z", Some(2)),
            ("0001-01-01T00:00:00Z", Some(-62_135_596_800_000)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000)),
            ("2026-11-30T06:00:00", None),
            ("2026-11-30", None),
            ("2025-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-11-30T24:00:00Z", None),
            ("2026-11-30T06:00:60Z", None),
            ("2026-11-30T06:00:00.Z", None),
            ("2026-11-30T06:00:00Zz", None),
            ("2026-11-30T06:00:00+2:00", None),
            ("ä026-11-30T06:00:00Z", None),
            ("", None),
        ] {
            assert_eq!(parse_timestamp_ms(text), ms, "{text}");
        }
    }
}
