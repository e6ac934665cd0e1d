//! Times in the form of people and CloudEvents: ISO 8601, or seconds since the Unix epoch.

use lacuna_model::Timestamp;

/// Why a time was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a time: expected ISO 8601 with an offset as in 2021-02-10T00:08:00Z, \
     or seconds since 1970"
)]
pub struct TimeError {
    /// The text as it was given.
    pub text: String,
}

/// Reads ISO 8601 with an offset, or a number of seconds since the Unix epoch.
///
/// # Errors
/// [`TimeError`] with the text as it was given.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    let trimmed = text.trim();
    if let Ok(seconds) = trimmed.parse::<f64>() {
        return from_seconds(seconds).ok_or_else(|| TimeError {
            text: text.to_owned(),
        });
    }
    trimmed
        .parse::<jiff::Timestamp>()
        .map(|t| Timestamp::from_unix_ms(t.as_millisecond()))
        .map_err(|_| TimeError {
            text: text.to_owned(),
        })
}

/// The last second of the year 9999, the end of ISO 8601's four digits.
pub const LAST_SECOND: f64 = 253_402_300_799.0;

/// From seconds since the Unix epoch; nothing for an implausible time.
#[must_use]
pub fn from_seconds(seconds: f64) -> Option<Timestamp> {
    (seconds.is_finite() && (0.0..=LAST_SECOND).contains(&seconds))
        .then(|| Timestamp::from_unix_ms((seconds * 1000.0).round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_and_write() {
        let at = Timestamp::from_unix_ms(1_612_915_680_250);
        assert_eq!(at.to_string(), "2021-02-10T00:08:00.25Z");
        assert_eq!(parse("2021-02-10T00:08:00.25Z").unwrap(), at);
        assert_eq!(parse("2021-02-10T01:08:00.250+01:00").unwrap(), at);
        assert_eq!(parse("1612915680.25").unwrap(), at);
        for bad in ["", "yesterday", "2021-02-10", "NaN", "1e30", "-5"] {
            assert!(parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
