//! The limit on dead letters that are kept and logged. A flood of one bad message neither displaces
//! other evidence nor fills the log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Most dead letters of one subject, and of all subjects, within [`WINDOW`].
const EACH: u32 = 50;
const ALL: u32 = 500;
const WINDOW: Duration = Duration::from_secs(10);

/// Where a dead letter falls with respect to the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limited {
    /// Within both limits: it is kept and logged.
    Within,
    /// The first one over a limit: it is only counted, and that is logged.
    FirstOver,
    /// A further one over a limit: it is only counted.
    Over,
}

/// The dead letters of the present window.
#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    since: Option<Instant>,
    all: u32,
    of: HashMap<String, u32>,
}

impl DeadLetters {
    /// Counts a dead letter of this subject.
    pub(super) fn count(&mut self, subject: &str, now: Instant) -> Limited {
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
                Limited::FirstOver
            } else {
                Limited::Over
            };
        }
        let of = self.of.entry(subject.to_owned()).or_default();
        *of = of.saturating_add(1);
        if *of > EACH {
            return if *of == EACH + 1 {
                Limited::FirstOver
            } else {
                Limited::Over
            };
        }
        self.all += 1;
        Limited::Within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stopwatch;

    #[test]
    fn one_subject_leaves_room_for_others_until_a_new_window() {
        let (mut letters, now) = (DeadLetters::default(), Stopwatch::start().instant());
        let mut count = |subject: &str, at| letters.count(subject, at);
        assert!((0..EACH).all(|_| count("a", now) == Limited::Within));
        assert_eq!(count("a", now), Limited::FirstOver);
        assert_eq!(count("a", now), Limited::Over);
        assert_eq!(count("b", now), Limited::Within);
        let kept = (EACH + 1..ALL).all(|n| count(&format!("s{n}"), now) == Limited::Within);
        assert!(kept);
        assert_eq!(count("c", now), Limited::FirstOver);
        assert_eq!(count("d", now), Limited::Over);
        assert_eq!(count("a", now + WINDOW), Limited::Within);
    }
}
