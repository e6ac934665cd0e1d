//! What the nodes of a trainer give as it learns: a sample of a large batch is worth more late than
//! early, since the noise scale of the gradient grows. Source: Pollux (OSDI 2021), section 3.1.

use std::collections::BTreeMap;

use crate::{ScalingCurve, TrainerId};

/// The curves of a trainer from a point of its work on.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Samples done from which they hold.
    pub from: f64,
    /// Throughput in samples/s by node count.
    pub throughput: ScalingCurve,
    /// The curve that the planner maximises; throughput if absent.
    pub objective: Option<ScalingCurve>,
}

/// The stages of trainers whose curves change, in order of their work. Before its first stage a
/// trainer has the curves of its description.
pub type Stages = BTreeMap<TrainerId, Vec<Stage>>;
