//! The alarm for a predictor that is adrift.
//!
//! The decisive horizons are 5 and 15 minutes, in which a decision of the planner has to pay for
//! itself. At one minute almost every hole is still open, and an hour is hardly predictable. Both
//! are shown and raise no alarm.

use super::{Calibration, HORIZONS_S, Score};

/// The decisive horizons, seconds.
const DECISIVE_S: [f64; 2] = [300.0, 900.0];

/// The limits beyond which a predictor is called adrift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The number of scored holes that must have ended within the window.
    pub ended: f64,
    /// The largest mean error of the probabilities.
    pub off: f64,
}

/// The reason why a predictor is adrift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Adrift {
    /// The score is significantly worse than that of a constant.
    Skill {
        /// The horizon, seconds.
        horizon_s: f64,
        /// The skill at the horizon.
        skill: f64,
    },
    /// The mean error of the probabilities is beyond the limit.
    Calibration {
        /// The horizon, seconds.
        horizon_s: f64,
        /// The mean probability less the share of open holes.
        off: f64,
    },
}

impl std::fmt::Display for Adrift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Skill { horizon_s, skill } => {
                write!(
                    f,
                    "the skill over a constant is {skill:.3} at {horizon_s} s"
                )
            }
            Self::Calibration { horizon_s, off } => {
                write!(f, "probabilities are off by {off:+.3} at {horizon_s} s")
            }
        }
    }
}

/// An alarm with hysteresis. It stays raised until the skill is above zero and the mean error is
/// below half of the limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alarm {
    limits: Limits,
    raised: Option<Adrift>,
}

impl Alarm {
    /// An alarm that is not raised.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            raised: None,
        }
    }

    /// The reason why the predictor is adrift; `None` if it is not.
    #[must_use]
    pub const fn raised(&self) -> Option<Adrift> {
        self.raised
    }

    /// Updates the alarm by the scores.
    pub fn update(&mut self, calibration: &Calibration) {
        let found = decisive(calibration)
            .filter(|(_, score)| score.ended() >= self.limits.ended)
            .find_map(|(horizon_s, score)| self.judge(horizon_s, score));
        match (found, self.raised) {
            (Some(_), _) => self.raised = found,
            (None, Some(_)) if decisive(calibration).all(|(_, score)| self.is_well(score)) => {
                self.raised = None;
            }
            (None, _) => {}
        }
    }

    fn judge(&self, horizon_s: f64, score: &Score) -> Option<Adrift> {
        let overlap = Calibration::overlap(horizon_s);
        if score.is_below_constant(overlap) {
            let skill = score.skill()?;
            Some(Adrift::Skill { horizon_s, skill })
        } else if score.is_off(self.limits.off, overlap) {
            let off = score.in_the_large()?;
            Some(Adrift::Calibration { horizon_s, off })
        } else {
            None
        }
    }

    fn is_well(&self, score: &Score) -> bool {
        score.skill().is_none_or(|skill| skill > 0.0)
            && score
                .in_the_large()
                .is_none_or(|off| off.abs() < self.limits.off / 2.0)
    }
}

impl Calibration {
    /// Whether the rival was significantly better on the same questions at a decisive horizon.
    #[must_use]
    pub fn is_rival_better(&self) -> bool {
        self.behind_rival() >= super::score::SIGNIFICANT
    }

    /// Whether the forecasts were at least as good as the rival at every decisive horizon.
    #[must_use]
    pub fn is_rival_worse(&self) -> bool {
        self.behind_rival() <= 0.0
    }

    /// By how many standard errors the rival is better, at the horizon where it is most so.
    fn behind_rival(&self) -> f64 {
        decisive(self)
            .map(|(horizon_s, score)| score.behind_rival(Self::overlap(horizon_s)))
            .fold(f64::NEG_INFINITY, f64::max)
    }
}

fn decisive(calibration: &Calibration) -> impl Iterator<Item = (f64, &Score)> {
    let scores = HORIZONS_S.into_iter().zip(calibration.scores());
    scores.filter(|(horizon_s, _)| DECISIVE_S.contains(horizon_s))
}
