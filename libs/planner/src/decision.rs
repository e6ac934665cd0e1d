//! Decisions: owners of slots, sizes, and how they were found.

use lacuna_model::{Doubt, Followed, Outcome, Solve};

use crate::Sizes;
use crate::placement::forecast::Evaluation;

/// The share of one of several users in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The candidates of the user, in order.
    pub candidates: Vec<u32>,
    /// Its max-min share, nodes ([`crate::fair::max_min`]).
    pub fair: u32,
    /// Number of nodes on which its candidates were decided: fewer where the user cannot use its
    /// share, more where other users cannot use theirs.
    pub nodes: u32,
}

/// The outcome of a decision.
#[derive(Debug, Clone)]
pub struct Decision {
    /// New owner of each slot.
    pub owners: Vec<Option<u32>>,
    /// Number of slots of each candidate.
    pub sizes: Sizes,
    /// How the decision was found.
    pub solve: Solve,
    /// The evaluation behind the decision, if holes were forecast.
    pub evaluation: Option<Box<Evaluation>>,
    /// The doubt for which every candidate keeps its nodes, if there is one.
    pub doubt: Option<Doubt>,
    /// The shares of the users, if nodes were shared out over several users.
    pub shares: Vec<Share>,
    /// The rule of [`lacuna_model::Policy::Auto`] that decided, if it compares rules.
    pub followed: Option<Followed>,
}

/// The shares of a decision.
pub(crate) fn shares(owners: Vec<(f64, Vec<u32>)>, fair: Vec<u32>, given: Vec<u32>) -> Vec<Share> {
    let owners = owners.into_iter().zip(fair.into_iter().zip(given));
    owners
        .map(|((_, candidates), (fair, nodes))| Share {
            candidates,
            fair,
            nodes,
        })
        .collect()
}

/// One report on the solves of several owners: its outcome is the worst of theirs.
pub(crate) fn together(solves: impl Iterator<Item = Solve>, objective: f64) -> Solve {
    let badness = |outcome: &Outcome| match outcome {
        Outcome::Optimal => (0, 0.0),
        Outcome::Feasible { gap } => (1, *gap),
        Outcome::Found => (2, 0.0),
        Outcome::NoIncumbent => (3, 0.0),
        Outcome::Infeasible => (4, 0.0),
        Outcome::Failed => (5, 0.0),
    };
    let mut whole = Solve {
        outcome: Outcome::Optimal,
        objective,
        solver: String::new(),
        shortcut: None,
        stopped_by_clock: false,
    };
    for (at, solve) in solves.enumerate() {
        let (new, old) = (badness(&solve.outcome), badness(&whole.outcome));
        if new.0 > old.0 || (new.0 == old.0 && new.1 > old.1) {
            whole.outcome = solve.outcome;
        }
        whole.stopped_by_clock |= solve.stopped_by_clock;
        if at == 0 {
            (whole.solver, whole.shortcut) = (solve.solver, solve.shortcut);
        } else {
            whole.shortcut = whole
                .shortcut
                .filter(|name| Some(name) == solve.shortcut.as_ref());
        }
    }
    whole.solver.push_str(" within owners' shares");
    whole
}
