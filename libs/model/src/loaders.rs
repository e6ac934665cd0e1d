//! Loaders: nodes that prepare the data of a training elsewhere.

use serde::{Deserialize, Serialize};

use crate::{KindName, TrainerId};

/// The nodes that a trainer may have as loaders while it waits for its data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaders {
    /// Their kind.
    pub kind: KindName,
    /// Most nodes.
    pub nodes: u32,
    /// Processes that read on each of them.
    pub processes: u32,
}

/// What a trainer has to do with loaders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loading {
    /// It may have some.
    By(Loaders),
    /// It is one, of this trainer.
    For(TrainerId),
}

impl Loaders {
    /// Most nodes that a trainer may have as loaders.
    pub const MOST_NODES: u32 = 64;
    /// Most processes of a node.
    pub const MOST_PROCESSES: u32 = 256;

    /// The name of each loader of a trainer; fewer where it is too long.
    pub fn names(&self, trainer: &TrainerId) -> impl Iterator<Item = TrainerId> {
        let trainer = trainer.clone();
        (1..=self.nodes).map_while(move |n| TrainerId::new(format!("{trainer}.loader-{n}")).ok())
    }
}
