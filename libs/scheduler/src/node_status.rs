//! Status of a node, hole, wanted, taken or unusable, and whether a job is a pilot.

use lacuna_model::Timestamp;

use crate::shared::Marks;

/// Status of a node by the newest information of a live scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeStatus {
    /// The node has no job, or only our own pilots, which may stay.
    Hole,
    /// The node has one of our own pilots, and the scheduler preempts it.
    Wanted {
        /// Time at which the scheduler chose the pilot for preemption.
        since: Timestamp,
    },
    /// The node has a foreign job, is planned for one, or a job is still completing there.
    Taken,
    /// No job can use the node.
    Unusable {
        /// Reason, with the scheduler's own text.
        reason: String,
    },
}

impl Marks {
    /// Whether a job with these fields is one of our own pilots. `comment` is `None` for a scheduler
    /// without comments, and then any mark fits.
    pub(crate) fn fit_texts(
        &self,
        partition: &str,
        account: &str,
        user: &str,
        comment: Option<&str>,
        name: &str,
    ) -> bool {
        let same = |mark: &Option<String>, found: &str| mark.as_deref().is_none_or(|m| m == found);
        let begins = |mark: &Option<String>, found: &str| {
            mark.as_deref().is_none_or(|m| found.starts_with(m))
        };
        self.has(partition) == Some(true)
            && same(&self.account, account)
            && same(&self.user, user)
            && comment.is_none_or(|comment| begins(&self.comment, comment))
            && begins(&self.name, name)
    }
}
