//! The service that a trainer or its owner has attained.

use serde::{Deserialize, Serialize};

use crate::{Span, Timestamp};

/// The half-life of attained service: seven days, as in Slurm's fair share
/// (`PriorityDecayHalfLife`).
pub const HALF_LIFE: Span = Span::from_secs(7 * 86_400);

/// Service attained (`lacuna_rates::Rates::service_s`), decaying with [`HALF_LIFE`].
///
/// Control keeps one for each trainer in its record, and counts samples when they are reported. A
/// replay counts them at every event. Both agree at the moments at which the planner decides.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Attained {
    /// Seconds of one node for weight 1, as of `at`.
    service_s: f64,
    at: Timestamp,
}

impl Attained {
    /// Adds service up to `now`, in seconds. A negative value takes back service that was added
    /// before. A time before that of the newest service counts as the time of the newest.
    pub fn add(&mut self, service_s: f64, now: Timestamp) {
        let at = self.at.max(now);
        *self = Self {
            service_s: (self.by(at) + service_s).max(0.0),
            at,
        };
    }

    /// The service that is left at a time, in seconds.
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
        // A late report counts as of now.
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
