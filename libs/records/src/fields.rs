//! Numbers, times and lengths of time in the texts of logs. Reading is fast and strict.

use lacuna_model::{Span, Timestamp};

use crate::FieldError;

/// Latest valid second, the end of the year 9999. A greater number is an error, as milliseconds
/// taken for seconds.
pub const LATEST_S: i64 = 253_402_300_799;

/// An error about a text, which is quoted and cut after 60 characters.
#[cold]
pub fn unexpected(place: impl Into<String>, expected: &str, found: &[u8]) -> FieldError {
    // The excerpt shows at most 60 characters.
    let found = found.get(..256).unwrap_or(found);
    let found = format!("{:?}", String::from_utf8_lossy(found));
    FieldError::new(place, expected, found)
}

/// Appends a text to a field of a record. Bytes that are not UTF-8 become `U+FFFD`.
pub fn copy(field: &mut String, text: &[u8]) {
    match std::str::from_utf8(text) {
        Ok(text) => field.push_str(text),
        Err(_) => field.push_str(&String::from_utf8_lossy(text)),
    }
}

/// A whole number, zero or more: digits only.
#[inline]
pub fn unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    if text.len() > 18 {
        return std::str::from_utf8(text)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
            .parse()
            .ok();
    }
    // Eighteen digits fit into u64, so the hot path needs no checked arithmetic.
    let mut number = 0_u64;
    let mut wrong = false;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        wrong |= digit > 9;
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    (!wrong).then_some(number)
}

/// A whole number with or without a minus sign.
#[inline]
pub fn signed(text: &[u8]) -> Option<i64> {
    match text.split_first() {
        Some((b'-', digits)) => i64::try_from(unsigned(digits)?).ok().map(i64::wrapping_neg),
        _ => i64::try_from(unsigned(text)?).ok(),
    }
}

/// A point in time in Unix seconds, whole or with decimals, from 1970 to 9999.
#[inline]
pub fn unix(text: &[u8]) -> Option<Timestamp> {
    if let Some(seconds) = unsigned(text) {
        let seconds = i64::try_from(seconds).ok()?;
        return (seconds <= LATEST_S).then(|| Timestamp::from_unix(seconds));
    }
    milliseconds(text)
        .filter(|ms| (0..=LATEST_S.saturating_mul(1000)).contains(ms))
        .map(Timestamp::from_unix_ms)
}

/// Seconds with decimals, as milliseconds, rounded; at most 10^15 of them.
pub fn milliseconds(text: &[u8]) -> Option<i64> {
    let plain = |&byte: &u8| byte.is_ascii_digit() || byte == b'.' || byte == b'-';
    let text = std::str::from_utf8(text).ok()?;
    let seconds: f64 = text
        .as_bytes()
        .iter()
        .all(plain)
        .then(|| text.parse().ok())??;
    let ms = (seconds * 1000.0).round();
    (ms.abs() <= 1e15).then_some(ms as i64)
}

/// A length of time as schedulers write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// A length.
    Of(Span),
    /// No limit.
    Unlimited,
}

impl Length {
    /// The length, if there is one.
    #[must_use]
    pub const fn span(self) -> Option<Span> {
        match self {
            Self::Of(span) => Some(span),
            Self::Unlimited => None,
        }
    }
}

/// A length of time in Slurm's notation (manual page of `sbatch`, option `--time`): `MM`,
/// `MM:SS`, `HH:MM:SS`, `DD-HH`, `DD-HH:MM`, `DD-HH:MM:SS`, with decimals of seconds allowed;
/// `UNLIMITED` and `INFINITE` in any case. A number alone is minutes.
pub fn length(text: &[u8]) -> Option<Length> {
    if text.eq_ignore_ascii_case(b"UNLIMITED") || text.eq_ignore_ascii_case(b"INFINITE") {
        return Some(Length::Unlimited);
    }
    let (days, clock) = match memchr::memchr(b'-', text) {
        Some(at) => {
            let (days, clock) = text.split_at_checked(at)?;
            (Some(small(days)?), clock.get(1..)?)
        }
        None => (None, text),
    };
    let mut parts = [0_i64; 3];
    let mut found = 0;
    let mut ms = 0;
    for part in clock.split(|&byte| byte == b':') {
        let whole = match memchr::memchr(b'.', part) {
            Some(at) => {
                let (whole, decimals) = part.split_at_checked(at)?;
                ms = thousandths(decimals.get(1..)?)?;
                whole
            }
            // Only the last part may have decimals.
            None if ms > 0 => return None,
            None => part,
        };
        *parts.get_mut(found)? = small(whole)?;
        found += 1;
    }
    let [first, second, third] = parts;
    let (hours, minutes, seconds) = match (days.is_some(), found) {
        (true, _) | (false, 3) => (first, second, third),
        (false, 2) => (0, first, second),
        (false, _) => (0, first, 0),
    };
    // Each part is at most 10^9, so nothing overflows.
    let total = ((days.unwrap_or(0) * 24 + hours) * 60 + minutes) * 60 + seconds;
    Some(Length::Of(Span::from_ms(total * 1000 + ms)))
}

/// A number of at most nine digits.
fn small(text: &[u8]) -> Option<i64> {
    (text.len() <= 9)
        .then(|| signed(text))
        .flatten()
        .filter(|&number| number >= 0)
}

/// Decimals as thousandths; finer digits are cut off.
pub fn thousandths(decimals: &[u8]) -> Option<i64> {
    let mut ms = 0;
    let mut unit = 100;
    for byte in decimals {
        if !byte.is_ascii_digit() {
            return None;
        }
        ms += i64::from(byte - b'0') * unit;
        unit /= 10;
    }
    Some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        for (text, expected) in [
            ("0", Some(0)),
            ("00017", Some(17)),
            ("-1", Some(-1)),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("99999999999999999999999", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1 ", None),
            ("1.0", None),
            ("/", None),
            (":", None),
        ] {
            assert_eq!(signed(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(
            unix(b"1641021254.5"),
            Some(Timestamp::from_unix_ms(1_641_021_254_500))
        );
        assert_eq!(unix(b"1641021254000"), None);
        assert_eq!(unix(b"-1"), None);
        assert_eq!(milliseconds(b"1e3"), None);
        assert_eq!(milliseconds(b"-0.25"), Some(-250));
    }

    #[test]
    fn lengths_are_read_as_slurm_writes_them() {
        for (text, seconds) in [
            ("10", 600.0),
            ("02:30", 150.0),
            ("00:02:40", 160.0),
            ("125-00:00:00", 10_800_000.0),
            ("7-20:39:39", 679_179.0),
            ("1-12", 129_600.0),
            ("1-12:30", 131_400.0),
            ("00:00.058", 0.058),
        ] {
            let expected = Length::Of(Span::from_secs_f64(seconds));
            assert_eq!(length(text.as_bytes()), Some(expected), "{text}");
        }
        assert_eq!(length(b"UNLIMITED").map(Length::span), Some(None));
        for text in [
            "",
            "-",
            "1-",
            "-1",
            "1:2:3:4",
            "1-2:3:4:5",
            "a",
            "1.5:20",
            "1:-2",
            "1:",
        ] {
            assert_eq!(length(text.as_bytes()), None, "{text}");
        }
        assert!(length(b"999999999-999999999:999999999:999999999").is_some());
    }
}
