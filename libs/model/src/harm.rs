//! Harm: how long the main scheduler waited for nodes because Lacuna had them.

use serde::{Deserialize, Serialize};

use crate::{Span, Timestamp};

/// Waits of the main scheduler for nodes, summed over the nodes that were given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Harm {
    /// Nodes that were given back, each time.
    pub given_back: u64,
    /// Those of them that took longer than [`Harm::LATE`].
    pub late: u64,
    /// Seconds waited, summed.
    pub seconds: f64,
    /// The longest wait, seconds.
    pub longest_s: f64,
    /// When one took longer than [`Harm::LATE`] the last time, in the cluster's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_late: Option<Timestamp>,
}

impl Harm {
    /// A node that is given back within this time is given back in time.
    pub const LATE: Span = Span::from_ms(500);

    /// A node was given back now, after this wait.
    pub fn give_back(&mut self, wait: Span, now: Timestamp) {
        let seconds = wait.as_secs_f64();
        self.given_back += 1;
        if wait > Self::LATE {
            self.late += 1;
            self.last_late = self.last_late.max(Some(now));
        }
        self.seconds += seconds;
        self.longest_s = self.longest_s.max(seconds);
    }

    /// The waits after an earlier sum, which ends at `from`. The longest wait is that of all time, so an
    /// upper bound.
    #[must_use]
    pub fn after(&self, earlier: &Self, from: Timestamp) -> Self {
        let given_back = self.given_back.saturating_sub(earlier.given_back);
        Self {
            given_back,
            late: self.late.saturating_sub(earlier.late),
            seconds: (self.seconds - earlier.seconds).max(0.0),
            longest_s: if given_back > 0 { self.longest_s } else { 0.0 },
            last_late: self.last_late.filter(|at| *at > from),
        }
    }

    /// Adds the waits of another sum.
    pub fn add(&mut self, other: &Self) {
        self.given_back += other.given_back;
        self.late += other.late;
        self.seconds += other.seconds;
        self.longest_s = self.longest_s.max(other.longest_s);
        self.last_late = self.last_late.max(other.last_late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_summed_and_late_ones_counted() {
        let of = |waits: &[i64]| {
            let mut harm = Harm::default();
            for ms in waits {
                harm.give_back(Span::from_ms(*ms), Timestamp::from_unix(*ms));
            }
            harm
        };
        let mut sum = of(&[0, 500]);
        sum.add(&of(&[501, 2000]));
        assert_eq!((sum.given_back, sum.late), (4, 2));
        assert_eq!((sum.seconds, sum.longest_s), (3.001, 2.0));
        assert_eq!(sum.last_late, Some(Timestamp::from_unix(2000)));
        let (earlier, from) = (of(&[0, 900]), Timestamp::from_unix(1000));
        let after = sum.after(&earlier, from);
        assert_eq!((after.given_back, after.late), (2, 1));
        assert_eq!((after.last_late, after.longest_s), (sum.last_late, 2.0));
        assert_eq!(sum.after(&sum, Timestamp::from_unix(2000)), Harm::default());
    }
}
