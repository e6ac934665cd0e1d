//! Local times in front of records, which increase.

use lacuna_model::{Span, Timestamp};
use lacuna_records::excerpt;

use crate::FieldError;

/// Largest allowed step back: an hour for the end of summer time, and a margin for set clocks.
const BACK: Span = Span::from_secs(2 * 3600);

/// Longest delay between an event and its record from which the time zone is derived.
const LATE_S: i64 = 120;

/// Offsets of time zones are whole quarters of an hour.
const QUARTER_S: i64 = 900;

/// Largest offset of a time zone from UTC.
const FURTHEST_S: i64 = 15 * 3600;

/// Detects a log that goes back in time, as logs that were joined in the wrong order. There, ends
/// precede their starts, and jobs seem to run forever.
#[derive(Debug, Default)]
pub(super) struct Order {
    newest: Option<Timestamp>,
}

impl Order {
    /// Takes the next time.
    ///
    /// # Errors
    /// [`FieldError`] once for each step back. Later times are compared with the new time.
    pub(super) fn check(&mut self, at: Timestamp, text: &[u8]) -> Result<(), FieldError> {
        let newest = self.newest.replace(at);
        match newest {
            Some(newest) if newest.since(at) > BACK => Err(FieldError::new(
                "time",
                "a time after those before: files belong one behind the other from old to new",
                excerpt(&String::from_utf8_lossy(text)),
            )),
            Some(newest) => {
                self.newest = Some(newest.max(at));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Seconds by which a local time, counted as UTC, is ahead of the Unix time of its event. `None`
/// if the two cannot be of one moment.
pub(super) fn ahead_s(local_s: i64, unix_s: i64) -> Option<i64> {
    let apart = local_s.checked_sub(unix_s)?;
    let ahead = apart.div_euclid(QUARTER_S).checked_mul(QUARTER_S)?;
    (apart - ahead <= LATE_S && ahead.abs() <= FURTHEST_S).then_some(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_told_by_two_times_of_one_thing() {
        for (local, unix, expected) in [
            (3600, 0, Some(3600)),
            (3610, 0, Some(3600)),
            (19_800, 0, Some(19_800)),
            (100_000 - 18_000, 100_000, Some(-18_000)),
            (100_001 - 18_000, 100_000, Some(-18_000)),
            (0, 0, Some(0)),
            // Written before it happened, long after it, and on another day.
            (-1, 0, None),
            (3600 + 121, 0, None),
            (86_400, 0, None),
            (i64::MIN, 1, None),
        ] {
            assert_eq!(ahead_s(local, unix), expected, "{local} {unix}");
        }
    }

    #[test]
    fn going_back_is_told_once() {
        let mut order = Order::default();
        let mut check = |hours: i64| {
            order
                .check(Timestamp::from_unix(hours * 3600), b"x")
                .is_ok()
        };
        let found = [5, 8, 7, 6, 9, 6, 7, 2, 3].map(&mut check);
        assert_eq!(
            found,
            [true, true, true, true, true, false, true, false, true]
        );
    }
}
