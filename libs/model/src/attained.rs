//! The service that a trainer or its owner has attained.

use serde::{Deserialize, Serialize};

use crate::{Span, Timestamp};

/// Service is forgotten by half in this time: seven days, as Slurm's fair share
/// (`PriorityDecayHalfLife`).
pub const HALF_LIFE: Span = Span::from_secs(7 * 86_400);

/// Service attained ([`crate::TrainerSpec::service_s`]), decaying with [`HALF_LIFE`].
///
/// Control keeps one for each trainer in its record, and counts samples when they are reported. A
/// replay counts them at every event. Of the planner's decisions both see the same moments.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Attained {
    /// Seconds of one node for weight 1, as of `at`.
    service_s: f64,
    at: Timestamp,
}

impl Attained {
    /// Books service of up to `now`, seconds; less than none takes back what was booked before. A
    /// moment before that of the newest service counts as that.
    pub fn add(&mut self, service_s: f64, now: Timestamp) {
        let at = self.at.max(now);
        *self = Self {
            service_s: (self.by(at) + service_s).max(0.0),
            at,
        };
    }

    /// What is left of it by a moment, seconds.
    #[must_use]
    pub fn by(&self, now: Timestamp) -> f64 {
        let past_s = now.since(self.at).as_secs_f64().max(0.0);
        self.service_s * (-past_s / HALF_LIFE.as_secs_f64()).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_decays_and_can_be_taken_back() {
        let (then, now) = (Timestamp::from_unix(0), Timestamp::from_unix(7 * 86_400));
        let mut attained = Attained::default();
        attained.add(1000.0, then);
        attained.add(500.0, now);
        assert_eq!(attained.by(now), 1000.0);
        assert_eq!(attained.by(now + HALF_LIFE), 500.0);
        // A report that comes late is of now.
        attained.add(100.0, then);
        assert_eq!(attained.by(now), 1100.0);
        attained.add(-2000.0, now);
        assert_eq!(
            attained,
            Attained {
                service_s: 0.0,
                at: now
            }
        );
    }
}
