//! How many dead letters are kept and logged: who says the same nonsense without a pause must
//! neither push out other evidence nor fill the log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// So many of one subject, and of all subjects, within [`WINDOW`].
const EACH: u32 = 50;
const ALL: u32 = 500;
const WINDOW: Duration = Duration::from_secs(10);

/// What becomes of one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Burial {
    /// It is kept and logged.
    Kept,
    /// It is counted alone, and it is the first of these: that is logged.
    FirstUnkept,
    /// It is counted alone.
    Unkept,
}

/// Those of the present window.
#[derive(Debug, Default)]
pub(super) struct Graves {
    since: Option<Instant>,
    all: u32,
    of: HashMap<String, u32>,
}

impl Graves {
    /// One more, of this subject.
    pub(super) fn one(&mut self, subject: &str, now: Instant) -> Burial {
        if self
            .since
            .is_none_or(|since| now.saturating_duration_since(since) >= WINDOW)
        {
            *self = Self {
                since: Some(now),
                ..Self::default()
            };
        }
        if self.all >= ALL {
            let first = self.all == ALL;
            self.all = ALL + 1;
            return if first {
                Burial::FirstUnkept
            } else {
                Burial::Unkept
            };
        }
        let of = self.of.entry(subject.to_owned()).or_default();
        *of = of.saturating_add(1);
        if *of > EACH {
            return if *of == EACH + 1 {
                Burial::FirstUnkept
            } else {
                Burial::Unkept
            };
        }
        self.all += 1;
        Burial::Kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stopwatch;

    #[test]
    fn one_subject_leaves_room_for_others_and_time_for_all() {
        let (mut graves, now) = (Graves::default(), Stopwatch::start().instant());
        let mut bury = |subject: &str, at| graves.one(subject, at);
        assert!((0..EACH).all(|_| bury("a", now) == Burial::Kept));
        assert_eq!(bury("a", now), Burial::FirstUnkept);
        assert_eq!(bury("a", now), Burial::Unkept);
        assert_eq!(bury("b", now), Burial::Kept);
        let kept = (EACH + 1..ALL).all(|n| bury(&format!("s{n}"), now) == Burial::Kept);
        assert!(kept);
        assert_eq!(bury("c", now), Burial::FirstUnkept);
        assert_eq!(bury("d", now), Burial::Unkept);
        assert_eq!(bury("a", now + WINDOW), Burial::Kept);
    }
}
