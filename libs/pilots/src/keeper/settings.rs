//! What the keeper goes by.

use lacuna_model::Span;

use crate::job::Owner;

/// What the keeper goes by.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Which jobs are ours.
    pub owner: Owner,
    /// Submissions a second, on average.
    pub rate: f64,
    /// Submissions at once after a pause.
    pub burst: u32,
    /// At most so many pilots wait for their node or for the scheduler's answer.
    pub max_pending: u32,
    /// At most so many pilots in all.
    pub max_pilots: u32,
    /// Whether pilots go only to as many nodes as trainers can use.
    pub only_with_work: bool,
    /// A pilot that a list asked for so long after its submission shows waiting is cancelled.
    pub pending_limit: Span,
    /// A pilot on whose node no agent has spoken for so long after its start is cancelled.
    pub start_limit: Span,
    /// An agent that has said nothing for this long speaks no more.
    pub silent_after: Span,
    /// A pilot whose agent has said nothing for this long is cancelled.
    pub mute_after: Span,
    /// A pilot that fails within this time of its submission died young: that counts.
    pub young: Span,
    /// A node whose pilot has ended waits for this long, or until it has left the pool: the
    /// pool may not know yet that the scheduler has taken the node.
    pub rest: Span,
    /// A pilot that lists leave out for this long, and twice at least, is gone.
    pub absent_for: Span,
    /// A pilot on a node that is out of the pool for this long is cancelled.
    pub stray_after: Span,
    /// An agent that has had nothing to do for this long, while more nodes have pilots than
    /// trainers can use, goes.
    pub idle_after: Span,
    /// A failure keeps its node waiting for this long, doubled with each further one.
    pub backoff: Span,
    /// But no longer than this.
    pub backoff_max: Span,
    /// After so many failures in a row a node goes into quarantine.
    pub quarantine_after: u32,
    /// For this long.
    pub quarantine: Span,
    /// The scheduler is asked for a list this often.
    pub list_every: Span,
    /// And after changes no sooner than this after the last time.
    pub list_soon: Span,
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
            rate: 20.0,
            burst: 32,
            max_pending: 64,
            max_pilots: u32::MAX,
            only_with_work: true,
            pending_limit: Span::from_secs(5),
            start_limit: Span::from_secs(60),
            silent_after: Span::from_secs(20),
            mute_after: Span::from_secs(90),
            young: Span::from_secs(30),
            rest: Span::from_secs(15),
            absent_for: Span::from_secs(20),
            stray_after: Span::from_secs(30),
            idle_after: Span::from_secs(600),
            backoff: Span::from_secs(10),
            backoff_max: Span::from_secs(300),
            quarantine_after: 3,
            quarantine: Span::from_secs(1800),
            list_every: Span::from_secs(30),
            list_soon: Span::from_secs(5),
            blind_after: Span::from_secs(120),
            pool_stale: Span::from_secs(60),
        }
    }
}
