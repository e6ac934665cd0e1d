//! Local times in the texts of logs, converted to timestamps.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use lacuna_model::{Span, Timestamp};

use crate::fields::{signed, thousandths};

/// Reads local times of one zone. An offset is cached until the next change of the clocks, so few
/// times need a look-up.
#[derive(Debug)]
pub struct LocalTimes {
    zone: TimeZone,
    /// Local seconds, counted as UTC, in `from..until` are `offset` ahead of UTC, and neither
    /// skipped nor repeated.
    from: i64,
    until: i64,
    offset: i64,
}

impl LocalTimes {
    /// A reader for this zone.
    #[must_use]
    pub const fn new(zone: TimeZone) -> Self {
        Self {
            zone,
            from: 0,
            until: 0,
            offset: 0,
        }
    }

    /// A time in ISO 8601: `2016-12-21T21:43:34`, also with a space instead of the `T`, decimals,
    /// and a zone (`Z`, `+01:00`, `+0100`). A local time that a change of the clocks skips keeps
    /// the offset before the change. A repeated local time means the first of the two.
    #[inline]
    pub fn iso(&mut self, text: &[u8]) -> Option<Timestamp> {
        let (day, rest) = text.split_first_chunk::<19>()?;
        let local = civil_seconds(day)?;
        if rest.is_empty() {
            return Some(Timestamp::from_unix(self.unix_seconds(local)?));
        }
        self.with_more(local, rest)
    }

    /// As [`LocalTimes::iso`], but a repeated local time means the second of the two if the first
    /// lies before `earliest`.
    #[inline]
    pub fn iso_after(&mut self, text: &[u8], earliest: Option<Timestamp>) -> Option<Timestamp> {
        let time = self.iso(text)?;
        match earliest {
            Some(earliest) if time < earliest => Some(self.second(text).unwrap_or(time)),
            _ => Some(time),
        }
    }

    /// The UTC second of a local second by [`civil`], for formats with another notation than ISO
    /// 8601.
    #[inline]
    pub fn unix_seconds(&mut self, local: i64) -> Option<i64> {
        if (self.from..self.until).contains(&local) {
            return Some(local.saturating_sub(self.offset));
        }
        self.look_up(local)
    }

    /// Decimals and a zone behind the seconds.
    fn with_more(&mut self, local: i64, rest: &[u8]) -> Option<Timestamp> {
        let (ms, rest) = match rest.split_first() {
            Some((b'.' | b',', more)) => {
                let digits = more.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (decimals, rest) = more.split_at_checked(digits)?;
                (thousandths(decimals).filter(|_| digits > 0)?, rest)
            }
            _ => (0, rest),
        };
        // `%F %T %z` has a blank in front of the zone.
        let rest = match rest {
            [b' ', zone @ ..] if !zone.is_empty() => zone,
            rest => rest,
        };
        let seconds = match rest {
            [] => self.unix_seconds(local)?,
            [b'Z' | b'z'] => local,
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]
            | [sign @ (b'+' | b'-'), h1, h2, m1, m2] => {
                let hours = signed(&[*h1, *h2]).filter(|&hours| hours < 24)?;
                let minutes = signed(&[*m1, *m2]).filter(|&minutes| minutes < 60)?;
                let ahead = hours * 3600 + minutes * 60;
                if *sign == b'+' {
                    local - ahead
                } else {
                    local + ahead
                }
            }
            _ => return None,
        };
        let whole = Timestamp::from_unix(seconds);
        Some(whole + Span::from_ms(ms))
    }

    /// The second of the two times that a repeated local time may mean.
    #[cold]
    fn second(&self, text: &[u8]) -> Option<Timestamp> {
        let text: &[u8; 19] = text.try_into().ok()?;
        let local = date_time(civil_seconds(text)?)?;
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { after, .. } => {
                let time = after.to_timestamp(local).ok()?;
                Some(Timestamp::from_unix(time.as_second()))
            }
            _ => None,
        }
    }

    #[cold]
    fn look_up(&mut self, local: i64) -> Option<i64> {
        let time = self
            .zone
            .to_ambiguous_timestamp(date_time(local)?)
            .compatible()
            .ok()?;
        let ahead = |time| i64::from(self.zone.to_offset(time).seconds());
        let offset = ahead(time);
        // A change of the clocks at a moment from one offset to another skips or repeats the
        // local times between the moment plus the one and the moment plus the other. The last
        // change may be at this very second.
        let second = jiff::SignedDuration::from_secs(1);
        let after = time.checked_add(second).ok()?;
        let from = match self.zone.preceding(after).next() {
            Some(change) => {
                let before = change.timestamp().checked_sub(second).ok()?;
                change.timestamp().as_second() + ahead(before).max(offset)
            }
            None => i64::MIN,
        };
        let until = self.zone.following(time).next().map_or(i64::MAX, |change| {
            change.timestamp().as_second() + ahead(change.timestamp()).min(offset)
        });
        if (from..until).contains(&local) {
            (self.from, self.until, self.offset) = (from, until, offset);
        }
        Some(time.as_second())
    }
}

/// The local time of local seconds, counted as UTC.
fn date_time(local: i64) -> Option<DateTime> {
    let time = jiff::Timestamp::from_second(local).ok()?;
    Some(jiff::tz::Offset::UTC.to_datetime(time))
}

/// Seconds since 1970 of `2016-12-21T21:43:34`, counted as UTC.
#[inline]
fn civil_seconds(text: &[u8; 19]) -> Option<i64> {
    let &[
        y1,
        y2,
        y3,
        y4,
        b'-',
        o1,
        o2,
        b'-',
        d1,
        d2,
        b'T' | b' ' | b't',
        h1,
        h2,
        b':',
        m1,
        m2,
        b':',
        s1,
        s2,
    ] = text
    else {
        return None;
    };
    let mut wrong = false;
    let mut digit = |byte: u8| {
        let digit = byte.wrapping_sub(b'0');
        wrong |= digit > 9;
        i64::from(digit)
    };
    let year = digit(y1) * 1000 + digit(y2) * 100 + digit(y3) * 10 + digit(y4);
    let month = digit(o1) * 10 + digit(o2);
    let day = digit(d1) * 10 + digit(d2);
    let hour = digit(h1) * 10 + digit(h2);
    let minute = digit(m1) * 10 + digit(m2);
    let second = digit(s1) * 10 + digit(s2);
    if wrong {
        return None;
    }
    civil(year, month, day, hour, minute, second)
}

/// Seconds since 1970 of a date and time of day, counted as UTC, for years 1 to 9999. `None` if
/// the date or the time of day does not exist.
#[inline]
pub fn civil(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let fits = (1..=9999).contains(&year)
        && (1..=last).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        // A leap second ends a quarter of an hour in any zone.
        && ((0..60).contains(&second) || second == 60 && minute % 15 == 14);
    if !fits {
        return None;
    }
    // Days since 1970 by years that begin in March, so that the leap day is the last day
    // (H. Hinnant, "chrono-compatible low-level date algorithms").
    let (shifted, from_march) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (shifted / 400, shifted % 400);
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> LocalTimes {
        LocalTimes::new(TimeZone::get(name).unwrap())
    }

    #[test]
    fn days_and_times_of_day_must_exist() {
        let mut utc = LocalTimes::new(TimeZone::UTC);
        for (text, seconds) in [
            ("1970-01-01T00:00:00", 0),
            ("2016-12-21T21:43:34", 1_482_356_614),
            ("2016-12-21 21:43:34", 1_482_356_614),
            ("2016-12-21T21:43:34Z", 1_482_356_614),
            ("2016-12-21T22:43:34+01:00", 1_482_356_614),
            ("2016-12-21T16:13:34-0530", 1_482_356_614),
            ("2016-12-21 16:13:34 -0530", 1_482_356_614),
            ("2016-12-31T23:59:60", 1_483_228_800),
            ("2000-02-29T23:59:59", 951_868_799),
            ("0001-01-01T00:00:00", -62_135_596_800),
        ] {
            let expected = Some(Timestamp::from_unix(seconds));
            assert_eq!(utc.iso(text.as_bytes()), expected, "{text}");
        }
        let decimals = utc.iso(b"2016-12-21T21:43:34.0625Z");
        assert_eq!(decimals, Some(Timestamp::from_unix_ms(1_482_356_614_062)));
        for text in [
            "2015-02-29T00:00:00",
            "1900-02-29T00:00:00",
            "2016-00-01T00:00:00",
            "2016-13-01T00:00:00",
            "2016-04-31T00:00:00",
            "2016-01-01T24:00:00",
            "2016-01-01T00:60:00",
            "2016-01-01T00:00:60",
            "2016-01-01T00:00:0",
            "2016-01-01",
            "2016-01-01T00:00:00X",
            "2016-01-01T00:00:00.",
            "0000-01-01T00:00:00",
            "2016-01-0/T00:00:00",
            "Unknown",
        ] {
            assert_eq!(utc.iso(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn local_times_agree_with_the_time_zone_library_through_a_year() {
        for name in [
            "Europe/Warsaw",
            "America/Chicago",
            "Australia/Lord_Howe",
            "Asia/Kolkata",
        ] {
            let mut times = zone(name);
            let plain = TimeZone::get(name).unwrap();
            let begin = civil(2022, 1, 1, 0, 0, 0).unwrap();
            for local in (begin..begin + 366 * 86_400).step_by(900) {
                let shown = date_time(local).unwrap();
                let text = shown.strftime("%Y-%m-%dT%H:%M:%S").to_string();
                let expected = plain.to_timestamp(shown).unwrap().as_second();
                let found = times.iso(text.as_bytes());
                assert_eq!(found, Some(Timestamp::from_unix(expected)), "{name} {text}");
            }
        }
    }

    #[test]
    fn an_hour_that_comes_twice_is_told_by_what_was_before() {
        let mut times = zone("Europe/Warsaw");
        let end = b"2022-10-30T02:10:00";
        let first = times.iso(end).unwrap();
        assert_eq!(first, Timestamp::from_unix(1_667_088_600));
        let start = times.iso(b"2022-10-30T02:50:00");
        assert_eq!(
            times.iso_after(end, start),
            Some(first + Span::from_secs(3600))
        );
        assert_eq!(times.iso_after(end, Some(first)), Some(first));
        let noon = times.iso(b"2022-10-30T12:00:00");
        let eleven = times.iso(b"2022-10-30T11:00:00");
        assert_eq!(times.iso_after(b"2022-10-30T11:00:00", noon), eleven);
    }
}
