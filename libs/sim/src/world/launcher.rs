//! How a rule beside the policy launches trainers.

/// How trainers are launched by a rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Launcher {
    /// Jobs of this many nodes, within the limits of each trainer.
    Requeue {
        /// Nodes of a job.
        nodes: u32,
    },
    /// Members that come and go.
    Elastic,
}
