//! Settings of the keeper.

use lacuna_model::Span;
use lacuna_model::pilots::Pace;
use lacuna_scheduler::job::Owner;

/// Settings of the keeper.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Marks of our own pilots.
    pub owner: Owner,
    /// Rates, limits and waits of the configuration.
    pub pace: Pace,
    /// Whether each pilot serves one trainer alone, whose owner's job it is. It is then submitted
    /// only to a node that this trainer has or is being given.
    pub of_trainers: bool,
    /// An agent without a report for this time no longer counts as present.
    pub silent_after: Span,
    /// A pilot whose agent has not reported for this time is cancelled.
    pub mute_after: Span,
    /// A pilot that fails within this time of its submission counts as a failure of its node.
    pub young: Span,
    /// A pilot that lists lack for this time, and at least twice, is gone.
    pub absent_for: Span,
    /// Nothing is submitted after this time without a list.
    pub blind_after: Span,
    /// Nothing is submitted after this time without a pool.
    pub pool_stale: Span,
}

impl Settings {
    /// Defaults for pilots of this owner.
    #[must_use]
    pub fn of(owner: Owner) -> Self {
        Self {
            owner,
            pace: Pace::default(),
            of_trainers: false,
            silent_after: Span::from_secs(20),
            mute_after: Span::from_secs(90),
            young: Span::from_secs(30),
            absent_for: Span::from_secs(20),
            blind_after: Span::from_secs(120),
            pool_stale: Span::from_secs(60),
        }
    }
}
