//! What the keeper goes by.

use lacuna_model::Span;
use lacuna_scheduler::job::Owner;

use crate::settings::Pace;

/// What the keeper goes by.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Which jobs are ours.
    pub owner: Owner,
    /// How fast, how many, how patiently: as the configuration has it.
    pub pace: Pace,
    /// An agent that has said nothing for this long speaks no more.
    pub silent_after: Span,
    /// A pilot whose agent has said nothing for this long is cancelled.
    pub mute_after: Span,
    /// A pilot that fails within this time of its submission died young: that counts.
    pub young: Span,
    /// A pilot that lists leave out for this long, and twice at least, is gone.
    pub absent_for: Span,
    /// Without a list for this long nothing is submitted.
    pub blind_after: Span,
    /// Nor with a pool that came longer ago than this.
    pub pool_stale: Span,
}

impl Settings {
    /// The defaults, for pilots of this owner.
    #[must_use]
    pub fn of(owner: Owner) -> Self {
        Self {
            owner,
            pace: Pace::default(),
            silent_after: Span::from_secs(20),
            mute_after: Span::from_secs(90),
            young: Span::from_secs(30),
            absent_for: Span::from_secs(20),
            blind_after: Span::from_secs(120),
            pool_stale: Span::from_secs(60),
        }
    }
}
