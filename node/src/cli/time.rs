//! Times as people read and write them.

use std::time::{SystemTime, UNIX_EPOCH};

use workflow::expression::text::parse_duration_ms;

/// A moment of the command line: how long ago, or what a node reads.
#[allow(clippy::unnecessary_wraps, reason = "the form of a parser of arguments; the node says what is no time")]
pub(crate) fn moment(text: &str) -> Result<String, String> {
    Ok(ago(text, now_ms()).map_or_else(|| text.to_owned(), |ms| ms.to_string()))
}

fn ago(text: &str, now_ms: u64) -> Option<u64> {
    parse_duration_ms(text).map(|ms| now_ms.saturating_sub(ms))
}

#[allow(clippy::disallowed_methods, reason = "what somebody means by an hour ago is told by the clock on their wall")]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A moment in UTC: `2026-01-31 12:00:00Z`.
pub(crate) fn seconds(ms: u64) -> String {
    let (year, month, day) = date(ms / 86_400_000);
    format!("{year:04}-{month:02}-{day:02} {}Z", clock(ms / 1_000 % 86_400))
}

/// The same with its milliseconds: `2026-01-31 12:00:00.123Z`.
pub(crate) fn milliseconds(ms: u64) -> String {
    let text = seconds(ms);
    format!("{}.{:03}Z", text.trim_end_matches('Z'), ms % 1_000)
}

fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Year, month and day of a day since 1970. Years are counted from March, so that a leap day ends one.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const ERA: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::{ago, milliseconds, moment, seconds};

    #[test]
    fn what_is_no_duration_is_left_to_the_node() {
        assert_eq!(ago("1h30m", 5_400_001), Some(1));
        assert_eq!(ago("1d", 5), Some(0));
        for text in ["1769860800123", "0", "2026-01-31T12:00:00Z", "yesterday", ""] {
            assert_eq!(moment(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn moments_read_as_on_a_calendar() {
        assert_eq!(seconds(0), "1970-01-01 00:00:00Z");
        assert_eq!(seconds(951_782_400_000), "2000-02-29 00:00:00Z");
        assert_eq!(seconds(1_735_689_599_999), "2024-12-31 23:59:59Z");
        assert_eq!(seconds(4_107_542_400_000), "2100-03-01 00:00:00Z");
        assert_eq!(milliseconds(1_769_860_800_123), "2026-01-31 12:00:00.123Z");
    }
}
