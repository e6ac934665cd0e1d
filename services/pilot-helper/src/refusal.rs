//! Why a request is refused.

use lacuna_model::{Span, TrainerId};
use lacuna_owner::{NoAccount, Refused};
use lacuna_scheduler::job::JobId;

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The ticket is not valid.
    #[error("the ticket is not valid: {0}")]
    Ticket(#[from] Refused),
    /// The key has ended.
    #[error(
        "the key of {0} that signed it has ended: {0} signs with the present one (lacuna renew)"
    )]
    Ended(String),
    /// The trainer is over.
    #[error("the ticket was used before: trainer {0} is over")]
    Replayed(TrainerId),
    /// The ticket's pilots run already.
    #[error("the ticket is for {0} pilots at a time, and they run or wait already")]
    Many(u32),
    /// The time is longer than a pilot may have.
    #[error("a pilot may have {0} at most (longest)")]
    Long(Span),
    /// The owner has no account here.
    #[error(transparent)]
    Account(#[from] NoAccount),
    /// The job is none of the owner's pilots.
    #[error("job {job} is no pilot of {owner}")]
    NoPilot {
        /// The job.
        job: JobId,
        /// The owner.
        owner: String,
    },
}

impl Refusal {
    /// The cause in logs and metrics.
    pub(crate) const fn cause(&self) -> &'static str {
        match self {
            Self::Ticket(refused) => refused.cause(),
            Self::Ended(_) => "key ended",
            Self::Replayed(_) => "replayed",
            Self::Many(_) => "many",
            Self::Long(_) => "long",
            Self::Account(_) => "account",
            Self::NoPilot { .. } => "no pilot",
        }
    }
}
