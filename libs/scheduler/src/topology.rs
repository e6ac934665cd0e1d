//! Where nodes are, as a live scheduler says. The readers of files ([`lacuna_trace::topology`]) read
//! the answers too.

pub use lacuna_trace::topology::TopologyOptions;
use lacuna_trace::topology::{self, TopologyRead};

use crate::answer::AnswerError;

/// Reads an answer as a file of the same form.
///
/// # Errors
/// [`AnswerError::Unreadable`] with the line that is damaged or contradicts another.
pub(crate) fn read(answer: &str, options: &TopologyOptions) -> Result<TopologyRead, AnswerError> {
    topology::read(answer, options).map_err(|error| AnswerError::Unreadable {
        reason: error.to_string(),
    })
}
