//! The policy of a machine: one of the schedulers of this crate.

use crate::conservative::Conservative;
use crate::easy;
use crate::machine::{Backfill, Layout, Starts};
use crate::named;
use crate::nodes::NodeSet;
use crate::profile::Count;
use crate::recorded::Recorded;
use crate::state::State;

/// The rule by which waiting jobs start, with its state.
#[derive(Debug, Clone)]
pub(crate) enum Policy {
    Easy,
    Named,
    Counted(Conservative<Count>),
    Placed(Conservative<NodeSet>),
    Recorded(Recorded),
}

impl Policy {
    pub(crate) fn new(state: &State) -> Self {
        let machine = &state.machine;
        let alike = machine.layout == Layout::FirstFit && state.blocks.is_none();
        match (machine.starts, machine.backfill) {
            (Starts::Recorded, _) => Self::Recorded(Recorded::default()),
            (Starts::Simulated, Backfill::Conservative) if alike => {
                Self::Counted(Conservative::new(state))
            }
            (Starts::Simulated, Backfill::Conservative) => Self::Placed(Conservative::new(state)),
            (Starts::Simulated, Backfill::Easy | Backfill::None) if alike => Self::Easy,
            (Starts::Simulated, Backfill::Easy | Backfill::None) => Self::Named,
        }
    }

    pub(crate) fn schedule(&mut self, state: &mut State) {
        match self {
            Self::Easy => easy::schedule(state),
            Self::Named => named::schedule(state),
            Self::Counted(policy) => policy.schedule(state),
            Self::Placed(policy) => policy.schedule(state),
            Self::Recorded(policy) => policy.schedule(state),
        }
    }

    /// The next time at which `schedule` is due if no event comes first.
    pub(crate) fn next_start(&self) -> Option<i64> {
        match self {
            Self::Easy | Self::Named => None,
            Self::Counted(policy) => policy.next_start(),
            Self::Placed(policy) => policy.next_start(),
            Self::Recorded(policy) => policy.next_start(),
        }
    }

    /// The number of jobs that wait here and not in the queue.
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Self::Easy | Self::Named => 0,
            Self::Counted(policy) => policy.reserved.len(),
            Self::Placed(policy) => policy.reserved.len(),
            Self::Recorded(policy) => policy.len(),
        }
    }
}
