//! The score at one horizon, over a fading window.

/// The weight of a round fades over about this many later ones. At one a minute, the scores are
/// those of about the last six hours.
const REMEMBERED: f64 = 360.0;

/// The number of standard errors that is significant. Scores are tested all the time, so a smaller
/// number would be reached by chance every few weeks.
pub(super) const SIGNIFICANT: f64 = 4.0;

/// The answers of one round at one horizon.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Round {
    pub(super) answered: u64,
    pub(super) open: u64,
    pub(super) predicted: f64,
    pub(super) squares: f64,
    pub(super) squares_base: f64,
    /// The squares of the questions that the rival answered too: of the forecasts, and of the
    /// rival.
    pub(super) contested: Option<(f64, f64)>,
}

/// A sum over rounds with its standard error. Rounds are the unit, since the holes of one round end
/// in few events.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Sum {
    sum: f64,
    squares: f64,
}

impl Sum {
    fn add(&mut self, fade: f64, round: f64) {
        self.sum = self.sum * fade + round;
        self.squares = self.squares * fade * fade + round * round;
    }

    /// The number of standard errors from zero. `overlap` rounds in a row share their answers and
    /// count as one.
    fn z(&self, overlap: f64) -> f64 {
        let error = (self.squares * overlap).sqrt();
        if error > 0.0 { self.sum / error } else { 0.0 }
    }
}

/// The Brier score at one horizon: the mean square of (probability of open - outcome), over the
/// last hours.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Score {
    /// The number of answered questions.
    pub answered: u64,
    /// The number of these whose hole was still open.
    pub open: u64,
    weight: f64,
    weight_open: f64,
    squares: f64,
    squares_base: f64,
    bias: Sum,
    over_base: Sum,
    over_rival: Sum,
}

impl Score {
    /// The Brier score: 0 is perfect, .25 is that of always one half.
    #[must_use]
    pub fn brier(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.squares / self.weight)
    }

    /// One less the ratio to the score of a constant: the share of holes that stayed open, as known
    /// at the time of each forecast. Above zero is better than the constant.
    #[must_use]
    pub fn skill(&self) -> Option<f64> {
        (self.squares_base > 0.0).then(|| 1.0 - self.squares / self.squares_base)
    }

    /// Calibration in the large: mean probability less the share of open holes. Above zero, holes
    /// lasted less long than forecast.
    #[must_use]
    pub fn in_the_large(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.bias.sum / self.weight)
    }

    /// The weight of ended holes in the window.
    #[must_use]
    pub fn ended(&self) -> f64 {
        self.weight - self.weight_open
    }

    /// Whether the score is significantly worse than that of the constant.
    pub(super) fn is_below_constant(&self, overlap: f64) -> bool {
        self.over_base.z(overlap) >= SIGNIFICANT
    }

    /// Whether the mean error of the probabilities exceeds a bound and is significant.
    pub(super) fn is_off(&self, bound: f64, overlap: f64) -> bool {
        self.in_the_large().is_some_and(|off| off.abs() > bound)
            && self.bias.z(overlap).abs() >= SIGNIFICANT
    }

    /// The number of standard errors by which the squares of the rival are smaller.
    pub(super) fn behind_rival(&self, overlap: f64) -> f64 {
        self.over_rival.z(overlap)
    }

    pub(super) fn share_open(&self) -> f64 {
        (self.weight_open + 1.0) / (self.weight + 2.0)
    }

    /// Adds a round.
    pub(super) fn add(&mut self, round: &Round) {
        let fade = 1.0 - 1.0 / REMEMBERED;
        let (answered, open) = (round.answered as f64, round.open as f64);
        self.answered += round.answered;
        self.open += round.open;
        self.weight = self.weight * fade + answered;
        self.weight_open = self.weight_open * fade + open;
        self.squares = self.squares * fade + round.squares;
        self.squares_base = self.squares_base * fade + round.squares_base;
        self.bias.add(fade, round.predicted - open);
        self.over_base.add(fade, round.squares - round.squares_base);
        let (own, rival) = round.contested.unwrap_or_default();
        self.over_rival.add(fade, own - rival);
    }
}

/// A share of pairs over a fading window, by round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Pairs {
    right: f64,
    all: f64,
}

impl Pairs {
    pub(super) fn add(&mut self, right: f64, all: f64) {
        let fade = 1.0 - 1.0 / REMEMBERED;
        self.right = self.right * fade + right;
        self.all = self.all * fade + all;
    }

    pub(super) fn share(&self) -> Option<f64> {
        (self.all > 0.0).then(|| self.right / self.all)
    }
}
