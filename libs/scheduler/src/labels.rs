//! Labels of nodes: what the answers of a scheduler say of each node.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::NodeId;

use crate::answer::AnswerError;

/// What a scheduler says of each node.
pub type Labels = BTreeMap<NodeId, BTreeSet<String>>;

/// Refuses an answer without nodes.
///
/// # Errors
/// [`AnswerError::Empty`].
pub(crate) fn some(all: Labels) -> Result<Labels, AnswerError> {
    if all.is_empty() {
        let expected = "a node at least";
        return Err(AnswerError::Empty { expected });
    }
    Ok(all)
}
