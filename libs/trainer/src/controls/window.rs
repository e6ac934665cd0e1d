//! Windows of time: when each begins and ends, by the wall clock of its time zone.
//!
//! A window belongs to the day on which it begins. Where summer time makes an edge ambiguous, the
//! longer window counts.

use jiff::ToSpan as _;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use lacuna_model::{Timestamp, UseWindow};

/// Names of the days in a window.
const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// A parsed window.
#[derive(Debug, Clone)]
pub(super) struct Window {
    days: Vec<Weekday>,
    from: Time,
    to: Time,
    zone: TimeZone,
}

impl Window {
    /// Reads a window. `local` is the zone of a window without a zone.
    ///
    /// # Errors
    /// A text that names the wrong value and the expected form.
    pub(super) fn read(window: &UseWindow, local: &TimeZone) -> Result<Self, String> {
        let days: Result<Vec<Weekday>, String> = window.days.iter().map(|d| day(d)).collect();
        let zone = match &window.zone {
            None => local.clone(),
            Some(name) => TimeZone::get(name).map_err(|_| {
                format!(
                    "there is no time zone {name:?} where control runs: expected one as in \
                     Europe/Berlin"
                )
            })?,
        };
        Ok(Self {
            days: days?,
            from: time(&window.from)?,
            to: time(&window.to)?,
            zone,
        })
    }

    /// When it began and ends, if it is open at this moment.
    pub(super) fn open_at(&self, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let mut open = self.around(now, -2, 1);
        open.retain(|(from, to)| *from <= now && now < *to);
        // Windows of consecutive days may touch or overlap: the last end counts.
        open.into_iter().max_by_key(|(_, to)| *to)
    }

    /// The next moment at which it begins or ends.
    pub(super) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let edges = self.around(now, -2, 8);
        let edges = edges.into_iter().flat_map(|(from, to)| [from, to]);
        edges.filter(|at| *at > now).min()
    }

    /// The windows that begin on days `before..=after` from today, as first and last moment.
    fn around(&self, now: Timestamp, before: i64, after: i64) -> Vec<(Timestamp, Timestamp)> {
        let Ok(instant) = jiff::Timestamp::from_millisecond(now.unix_ms()) else {
            return Vec::new();
        };
        let today = instant.to_zoned(self.zone.clone()).date();
        let dates = (before..=after).filter_map(|days| today.checked_add(days.days()).ok());
        dates
            .filter(|date| self.days.is_empty() || self.days.contains(&date.weekday()))
            .filter_map(|date| {
                let last = if self.to > self.from {
                    date
                } else {
                    date.tomorrow().ok()?
                };
                Some((self.first(date, self.from)?, self.last(last, self.to)?))
            })
            .collect()
    }

    /// The first moment at which the clock shows this time, or would without its leap.
    fn first(&self, date: Date, time: Time) -> Option<Timestamp> {
        self.moment(date, time, |offset| match offset {
            // The clock leaps over this time: the offset after the leap gives the earlier moment.
            AmbiguousOffset::Gap { after, .. } => after,
            AmbiguousOffset::Fold { before, .. } => before,
            AmbiguousOffset::Unambiguous { offset } => offset,
        })
    }

    /// The last moment at which the clock shows this time, or would without its leap.
    fn last(&self, date: Date, time: Time) -> Option<Timestamp> {
        self.moment(date, time, |offset| match offset {
            AmbiguousOffset::Gap { before, .. } => before,
            AmbiguousOffset::Fold { after, .. } => after,
            AmbiguousOffset::Unambiguous { offset } => offset,
        })
    }

    fn moment(
        &self,
        date: Date,
        time: Time,
        offset: impl Fn(AmbiguousOffset) -> jiff::tz::Offset,
    ) -> Option<Timestamp> {
        let shown = date.to_datetime(time);
        let chosen = offset(self.zone.to_ambiguous_timestamp(shown).offset());
        let at = chosen.to_timestamp(shown).ok()?;
        Some(Timestamp::from_unix_ms(at.as_millisecond()))
    }
}

fn day(text: &str) -> Result<Weekday, String> {
    DAYS.iter()
        .find(|(name, _)| *name == text)
        .map(|(_, day)| *day)
        .ok_or_else(|| format!("{text:?} is no day: expected mon, tue, wed, thu, fri, sat or sun"))
}

fn time(text: &str) -> Result<Time, String> {
    let wrong = || format!("{text:?} is no time of the day: expected as in 08:30");
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| {
        (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit()))
            .then(|| text.parse::<i8>().ok())
            .flatten()
            .ok_or_else(wrong)
    };
    let (hour, minute) = match (number(hour)?, number(minute)?) {
        // The end of a day is the beginning of the next.
        (24, 0) => (0, 0),
        other => other,
    };
    Time::new(hour, minute, 0, 0).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use lacuna_model::UseLimit;

    use super::*;

    fn at(text: &str) -> Timestamp {
        let at: jiff::Timestamp = text.parse().unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        Timestamp::from_unix_ms(at.as_millisecond())
    }

    fn window(days: &[&str], from: &str, to: &str, zone: &str) -> Option<Window> {
        let window = UseWindow {
            name: "w".to_owned(),
            days: days.iter().map(|d| (*d).to_owned()).collect(),
            from: from.to_owned(),
            to: to.to_owned(),
            zone: Some(zone.to_owned()),
            limit: UseLimit::Nothing,
        };
        Window::read(&window, &TimeZone::UTC).ok()
    }

    /// Checks when the window is open, given as pairs of a moment and whether it is.
    fn check(window: Option<Window>, moments: &[(&str, bool)]) {
        for (moment, open) in moments {
            let found = window.as_ref().map(|w| w.open_at(at(moment)).is_some());
            assert_eq!(found, Some(*open), "{moment}");
        }
    }

    #[test]
    fn working_hours_follow_the_zone_over_summer_time() {
        let days = ["mon", "tue", "wed", "thu", "fri"];
        check(
            window(&days, "08:00", "18:00", "Europe/Berlin"),
            &[
                // A Friday in winter: UTC+1.
                ("2026-03-27T06:59:59Z", false),
                ("2026-03-27T07:00:00Z", true),
                ("2026-03-27T16:59:59Z", true),
                ("2026-03-27T17:00:00Z", false),
                // The Saturday and the Sunday of the change.
                ("2026-03-28T10:00:00Z", false),
                ("2026-03-29T10:00:00Z", false),
                // The Monday after it: UTC+2.
                ("2026-03-30T05:59:59Z", false),
                ("2026-03-30T06:00:00Z", true),
                ("2026-03-30T15:59:59Z", true),
                ("2026-03-30T16:00:00Z", false),
            ],
        );
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_begins() {
        check(
            window(&["fri"], "22:00", "06:00", "UTC"),
            &[
                ("2026-03-27T21:59:59Z", false),
                ("2026-03-27T22:00:00Z", true),
                ("2026-03-28T05:59:59Z", true),
                ("2026-03-28T06:00:00Z", false),
                ("2026-03-28T22:00:00Z", false),
                ("2026-03-27T05:00:00Z", false),
            ],
        );
        // The whole day, and the next if it is every day.
        check(
            window(&[], "00:00", "24:00", "UTC"),
            &[
                ("2026-03-27T00:00:00Z", true),
                ("2026-03-27T23:59:59Z", true),
            ],
        );
        check(
            window(&["sat"], "09:00", "09:00", "UTC"),
            &[
                ("2026-03-28T09:00:00Z", true),
                ("2026-03-29T08:59:59Z", true),
                ("2026-03-29T09:00:00Z", false),
            ],
        );
    }

    #[test]
    fn where_the_clock_leaps_or_repeats_the_window_is_the_longer_one() {
        // On 29 March 2026 the clock leaps from 02:00 to 03:00 (01:00 UTC).
        check(
            window(&["sun"], "02:30", "04:00", "Europe/Berlin"),
            &[
                ("2026-03-29T00:29:59Z", false),
                ("2026-03-29T00:30:00Z", true),
                ("2026-03-29T01:59:59Z", true),
                ("2026-03-29T02:00:00Z", false),
            ],
        );
        check(
            window(&["sun"], "01:00", "02:30", "Europe/Berlin"),
            &[
                ("2026-03-29T00:00:00Z", true),
                ("2026-03-29T01:29:59Z", true),
                ("2026-03-29T01:30:00Z", false),
            ],
        );
        // On 25 October 2026 it goes from 03:00 back to 02:00 (01:00 UTC).
        check(
            window(&["sun"], "02:30", "02:45", "Europe/Berlin"),
            &[
                ("2026-10-25T00:29:59Z", false),
                ("2026-10-25T00:30:00Z", true),
                ("2026-10-25T01:44:59Z", true),
                ("2026-10-25T01:45:00Z", false),
            ],
        );
    }

    #[test]
    fn the_next_change_is_found_and_is_a_change() {
        let Some(window) = window(&["mon", "fri"], "22:15", "03:30", "America/New_York") else {
            unreachable!("the zone is known");
        };
        let mut now = at("2026-02-20T00:00:00Z");
        let mut edges = 0;
        let mut open = window.open_at(now).is_some();
        while now < at("2026-12-20T00:00:00Z") {
            let Some(next) = window.next_change(now) else {
                unreachable!("a window of every week has a next change");
            };
            assert!(next > now);
            let before = Timestamp::from_unix_ms(next.unix_ms() - 1);
            assert_eq!(window.open_at(before).is_some(), open, "{next:?}");
            open = !open;
            assert_eq!(window.open_at(next).is_some(), open, "{next:?}");
            now = next;
            edges += 1;
        }
        // Two windows a week, each with two edges, over 43 weeks.
        assert!((170..=178).contains(&edges), "{edges}");
    }

    #[test]
    fn unknown_days_times_and_zones_are_refused() {
        assert!(window(&["monday"], "08:00", "18:00", "UTC").is_none());
        assert!(window(&[], "8:00", "18:00", "UTC").is_none());
        assert!(window(&[], "08:00", "25:00", "UTC").is_none());
        assert!(window(&[], "08:00", "18:60", "UTC").is_none());
        assert!(window(&[], "08:00", "18:00", "Europe/Atlantis").is_none());
    }
}
