//! The goals of a case, and whether they are met.

use super::column::{AHEAD_15M, BFTRAINER, CLAIRVOYANT, FORECAST};
use super::measure::Measure;
use super::reference::Reference;

/// The direction of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// At least the aim, in the three digits of shares.
    AtLeast,
    /// At most the aim.
    AtMost,
}

/// One goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Goal {
    /// Its short name.
    pub(super) name: &'static str,
    /// The goal in words.
    pub(super) what: &'static str,
    /// The column of its figure.
    pub(super) column: &'static str,
    /// The measured figure; none if its run failed.
    pub(super) ours: Option<f64>,
    /// The aim.
    pub(super) wanted: f64,
    /// The direction.
    pub(super) way: Way,
}

impl Goal {
    /// Whether the goal is met; a failed run does not meet it.
    pub(super) fn is_met(&self) -> bool {
        let digits = |share: f64| (share * 1000.0).round();
        self.ours.is_some_and(|ours| match self.way {
            Way::AtLeast => digits(ours) >= digits(self.wanted),
            Way::AtMost => ours <= self.wanted,
        })
    }
}

/// A figure of one column of the case.
type Figures<'a> = dyn Fn(&str, Measure) -> Option<f64> + 'a;

/// The goals of a case; `figure` returns the figures of its columns.
pub(super) fn goals(reference: Option<&Reference>, figure: &Figures<'_>) -> Vec<Goal> {
    let share = |name| figure(name, Measure::Share);
    let mut goals = Vec::new();
    let mut least = |name, what, column, wanted: Option<f64>| {
        if let Some(wanted) = wanted {
            goals.push(Goal {
                name,
                what,
                column,
                ours: share(column),
                wanted,
                way: Way::AtLeast,
            });
        }
    };
    let of = |field: fn(&Reference) -> Option<f64>| reference.and_then(field);
    least(
        "best",
        "forecast: no less than the best that was measured without look-ahead",
        FORECAST,
        of(|reference| Some(reference.best)),
    );
    least(
        "goal",
        "forecast: the goal",
        FORECAST,
        of(|reference| reference.goal),
    );
    least(
        "15 min",
        "15 minutes ahead: the goal",
        AHEAD_15M,
        of(|reference| reference.goal_15m),
    );
    least(
        "bound",
        "clairvoyant: no less than was measured",
        CLAIRVOYANT,
        of(|reference| Some(reference.clairvoyant)),
    );
    least(
        "BFTrainer",
        "forecast: no less than BFTrainer's policy",
        FORECAST,
        share(BFTRAINER),
    );
    for (name, what, measure) in [
        (
            "stops",
            "rescales an hour that stop a trainer: no more than BFTrainer's policy",
            Measure::Stops,
        ),
        (
            "interruptions",
            "interruptions of a trainer an hour: no more than BFTrainer's policy",
            Measure::Interruptions,
        ),
    ] {
        if let Some(wanted) = figure(BFTRAINER, measure) {
            goals.push(Goal {
                name,
                what,
                column: FORECAST,
                ours: figure(FORECAST, measure),
                wanted,
                way: Way::AtMost,
            });
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;

    fn checked(
        reference: Option<&Reference>,
        share: f64,
        rescales: f64,
    ) -> Vec<(&'static str, bool)> {
        let figure = |name: &str, measure| match measure {
            Measure::Share => Some(if name == FORECAST { share } else { 0.85 }),
            Measure::Interruptions => None,
            _ => Some(if name == FORECAST { rescales } else { 20.0 }),
        };
        let goals = goals(reference, &figure);
        goals
            .iter()
            .map(|goal| (goal.name, goal.is_met()))
            .collect()
    }

    #[test]
    fn each_goal_is_checked_by_itself() {
        let reference = reference::of(1024, 10, 5.0);
        let expected = [
            ("best", true),
            ("goal", false),
            ("15 min", false),
            ("bound", false),
            ("BFTrainer", true),
            ("stops", false),
        ];
        assert_eq!(checked(reference, 0.8894, 20.5), expected);
        // .8896 is .890 in three digits, as goals are given.
        assert_eq!(checked(reference, 0.8896, 20.0)[1], ("goal", true));
        let expected = [("BFTrainer", false), ("stops", true)];
        assert_eq!(checked(None, 0.84, 20.0), expected);
    }

    #[test]
    fn a_failed_run_meets_no_goal() {
        let figure = |name: &str, _| (name == BFTRAINER).then_some(0.5);
        let goals = goals(None, &figure);
        assert_eq!(goals.len(), 3);
        assert!(goals.iter().all(|goal| !goal.is_met()));
        assert!(super::goals(None, &|_, _| None).is_empty());
    }
}
