//! Points in time and lengths of time. Nothing here reads a clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since the Unix epoch, UTC, leap seconds ignored.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// A length of time in milliseconds; negative lengths are possible as differences.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(i64);

impl Timestamp {
    /// From whole seconds since the Unix epoch (saturating).
    #[must_use]
    pub const fn from_unix(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// From milliseconds since the Unix epoch.
    #[must_use]
    pub const fn from_unix_ms(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// Seconds since the Unix epoch.
    #[must_use]
    pub fn unix_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// The time from `earlier` to here; negative if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    /// Writes ISO 8601 in UTC, with fractions of seconds only if there are any.
    ///
    /// Days are counted from 0000-03-01, in eras of 400 years: a year that begins in March has its
    /// leap day last (H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.div_euclid(86_400_000) + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let ms = self.0.rem_euclid(86_400_000);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        let fraction = match ms % 1000 {
            0 => String::new(),
            ms => format!(".{ms:03}").trim_end_matches('0').to_owned(),
        };
        let text =
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z");
        f.pad(&text)
    }
}

impl Span {
    /// The empty length of time.
    pub const ZERO: Self = Self(0);

    /// From whole seconds (saturating).
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// From milliseconds.
    #[must_use]
    pub const fn from_ms(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// From seconds, rounded to the millisecond; not-a-number becomes zero.
    #[must_use]
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * 1000.0).round() as i64)
    }

    /// In milliseconds.
    #[must_use]
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// In seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// As a standard duration; negative spans become zero.
    #[must_use]
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.max(0).unsigned_abs())
    }
}

impl Add<Span> for Timestamp {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Timestamp {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Longest length of time that is read from a text, days: a hundred years. Sums of such lengths, and
/// clocks behind them, do not overflow.
const MOST_DAYS: u32 = 36_525;

/// Why a length of time could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a length of time: expected a number with a unit, as in 10s, 1.5m, 2h, 250ms, 1d, \
     and at most {most}d",
    most = MOST_DAYS
)]
pub struct SpanError {
    /// The text as it was given.
    pub text: String,
}

impl FromStr for Span {
    type Err = SpanError;

    /// Reads `250ms`, `120s`, `15m`, `1.5h`, `2d`, or several in a row (`1h30m`). A bare number is
    /// refused, since its unit would be a guess.
    fn from_str(text: &str) -> Result<Self, SpanError> {
        let refuse = || SpanError {
            text: text.to_owned(),
        };
        let mut rest = text.trim();
        let mut total = 0.0;
        if rest.is_empty() {
            return Err(refuse());
        }
        while !rest.is_empty() {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .filter(|&at| at > 0)
                .ok_or_else(refuse)?;
            let (number, after) = rest.split_at(digits);
            let letters = after
                .find(|c: char| !c.is_ascii_alphabetic())
                .unwrap_or(after.len());
            let (unit, tail) = after.split_at(letters);
            let number: f64 = number.parse().map_err(|_| refuse())?;
            let seconds = match unit {
                "ms" => 0.001,
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(refuse()),
            };
            total += number * seconds;
            rest = tail.trim_start();
        }
        match total <= f64::from(MOST_DAYS) * 86_400.0 {
            true => Ok(Self::from_secs_f64(total)),
            false => Err(refuse()),
        }
    }
}

impl fmt::Display for Span {
    /// Writes two units at most: `350ms`, `12.5s`, `3m20s`, `2h05m`, `4d03h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ms = self.0.unsigned_abs();
        let s = ms / 1000;
        let text = if ms < 1000 {
            format!("{sign}{ms}ms")
        } else if s < 60 {
            format!("{sign}{}s", (ms as f64 / 100.0).round() / 10.0)
        } else if s < 3600 {
            format!("{sign}{}m{:02}s", s / 60, s % 60)
        } else if s < 86_400 {
            format!("{sign}{}h{:02}m", s / 3600, s % 3600 / 60)
        } else {
            format!("{sign}{}d{:02}h", s / 86_400, s % 86_400 / 3600)
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_in_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_000, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (1_612_915_680_250, "2021-02-10T00:08:00.25Z"),
            (1_672_531_199_007, "2022-12-31T23:59:59.007Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_unix_ms(ms).to_string(), text);
        }
        // Damaged moments have a text, too.
        for ms in [i64::MIN, i64::MAX] {
            assert!(!Timestamp::from_unix_ms(ms).to_string().is_empty());
        }
    }

    #[test]
    fn spans_read_and_write() {
        for (text, ms) in [
            ("250ms", 250),
            ("120s", 120_000),
            ("15m", 900_000),
            ("1h30m", 5_400_000),
        ] {
            assert_eq!(text.parse::<Span>().unwrap(), Span::from_ms(ms), "{text}");
        }
        for bad in [
            "",
            "12",
            "s",
            "1w",
            "-3s",
            "1.2.3s",
            "36526d",
            "99999999999999999999h",
        ] {
            assert!(bad.parse::<Span>().is_err(), "{bad:?} was accepted");
        }
        assert_eq!(Span::from_secs(7_500).to_string(), "2h05m");
        assert_eq!(Span::from_ms(12_500).to_string(), "12.5s");
    }
}
