//! When a predictor is adrift.
//!
//! The horizons that decide are 5 and 15 minutes: so long a decision of the planner has to pay for
//! itself. At one minute almost every hole is still open, and at an hour hardly anything can be
//! known; both are shown and wake nobody.

use super::{Calibration, HORIZONS_S, Score};

/// The horizons that decide, seconds.
const DECISIVE_S: [f64; 2] = [300.0, 900.0];

/// When a predictor is called adrift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// So many of the holes asked after must have ended within the window.
    pub ended: f64,
    /// How far probabilities may be off on average.
    pub off: f64,
}

/// Why a predictor is adrift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Adrift {
    /// Beyond doubt worse than a constant, at this horizon in seconds.
    Skill {
        /// Seconds.
        horizon_s: f64,
        /// The skill then.
        skill: f64,
    },
    /// Probabilities are off by more than the bound, at this horizon in seconds.
    Calibration {
        /// Seconds.
        horizon_s: f64,
        /// Mean probability less the share that was open.
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

/// Says whether a predictor is adrift, and does not change its mind at every answer: what was
/// raised stands until the skill is above zero and half of the bound is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alarm {
    limits: Limits,
    raised: Option<Adrift>,
}

impl Alarm {
    /// Not raised.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            raised: None,
        }
    }

    /// Why the predictor is adrift, if it is.
    #[must_use]
    pub const fn raised(&self) -> Option<Adrift> {
        self.raised
    }

    /// Looks at the scores.
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
    /// Whether the rival's forecasts were beyond doubt better on the same questions at a horizon
    /// that decides.
    #[must_use]
    pub fn is_rival_better(&self) -> bool {
        self.behind_rival() >= super::score::BEYOND_DOUBT
    }

    /// Whether the forecasts were at least as good as the rival's at every horizon that decides.
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
