//! Profiles as files have them: names instead of places, and nothing checked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A profile as it is written, JSON. `LayerProfile::new` checks it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawProfile {
    /// The name of the network.
    #[serde(default)]
    pub name: String,
    /// Samples of a batch: weights are summed once a batch.
    pub batch: f64,
    /// Samples of the whole work.
    pub samples: f64,
    /// The rate that is wanted at least, samples/s.
    pub min_rate: f64,
    /// The kinds of node.
    pub kinds: Vec<RawKind>,
    /// The layers in their order.
    pub layers: Vec<RawLayer>,
    /// Bytes/s from a kind to another, where it is not the receiver's link.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bandwidth: BTreeMap<String, BTreeMap<String, f64>>,
}

/// A kind of node as it is written. A unit is what is added at once: a node, a GPU, a group of cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawKind {
    /// Its name.
    pub name: String,
    /// The price of a unit for an hour, in any currency; 0 for what is there anyway.
    pub price_per_hour: f64,
    /// The memory of a unit, bytes.
    pub memory_bytes: f64,
    /// What a unit receives, bytes/s.
    pub link_bytes_per_s: f64,
    /// The most units; without it as many as are wanted, up to a million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A layer as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawLayer {
    /// Its name.
    pub name: String,
    /// Seconds a sample, forward and backward, on one unit of each kind; null where it cannot run.
    pub seconds: BTreeMap<String, Option<f64>>,
    /// Bytes a sample that go to the next layer.
    pub out_bytes: f64,
    /// Bytes of weights, which each unit keeps.
    #[serde(default)]
    pub weight_bytes: f64,
    /// Bytes of a table with its optimizer's state, which the units of a stage share.
    #[serde(default)]
    pub table_bytes: f64,
    /// The share of the computation that more units divide, alpha.
    #[serde(default = "whole")]
    pub parallel_compute: f64,
    /// The share of the communication that more units divide, beta.
    #[serde(default = "whole")]
    pub parallel_communication: f64,
}

fn whole() -> f64 {
    1.0
}
