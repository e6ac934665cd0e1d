//! Errors of profiles, and of networks that fit nowhere.

/// Why a profile is refused or a network cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is no profile.
    #[error("{file}: {source}")]
    Json {
        /// The file, as the caller names it.
        file: String,
        /// Line and column with what is wrong.
        source: serde_json::Error,
    },
    /// A list is empty.
    #[error("{what} is empty: name at least one")]
    Empty {
        /// `kinds` or `layers`.
        what: &'static str,
    },
    /// A value lies outside its range.
    #[error("{what} is {value}: expected {expected}")]
    Value {
        /// What has the value, as a path in the profile.
        what: String,
        /// The value.
        value: f64,
        /// The values that are accepted.
        expected: &'static str,
    },
    /// Two kinds or two layers have one name.
    #[error("{what} {name:?} is named twice: give each its own name")]
    Twice {
        /// `kind` or `layer`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The profile has a gap.
    #[error(
        "layer {layer:?} has no seconds on kind {kind:?}: measure it there, or write null if it cannot run there"
    )]
    Gap {
        /// The layer.
        layer: String,
        /// The kind.
        kind: String,
    },
    /// A name is not among the kinds.
    #[error("{what} names kind {kind:?}: the profile has {known}")]
    NoKind {
        /// What names it, as a path in the profile.
        what: String,
        /// The kind.
        kind: String,
        /// The kinds of the profile.
        known: String,
    },
    /// A layer cannot run on any kind.
    #[error("layer {layer:?} fits nowhere: {why}")]
    FitsNowhere {
        /// The layer.
        layer: String,
        /// What each kind lacks.
        why: String,
    },
    /// No layer takes time on all kinds, so a rate may be infinite.
    #[error("no layer takes time on every kind: give at least one layer seconds above 0 on each")]
    Instant,
    /// Each layer fits somewhere, but the network as a whole does not within the limits.
    #[error(
        "the network fits within the limits at no rate: raise the limit of a kind that can hold {layer:?}, the layer with the most bytes, or let another kind run it"
    )]
    TooFew {
        /// The layer with the most bytes of weights and tables.
        layer: String,
    },
    /// A choice of kinds has a wrong number of layers or an unknown kind.
    #[error(
        "a choice of {given} kinds for {layers} layers: expected one of {kinds} kinds for each layer"
    )]
    Choice {
        /// The entries of the choice.
        given: usize,
        /// The layers of the profile.
        layers: usize,
        /// The kinds of the profile.
        kinds: usize,
    },
    /// A kind cannot be one of nodes.
    #[error("kind {kind:?} is no kind of node: expected {expected}")]
    KindName {
        /// The kind.
        kind: String,
        /// The names that are accepted.
        expected: &'static str,
    },
    /// A node has no units.
    #[error("nodes.{node} has no units: say how many a node has of {known}")]
    NoUnits {
        /// The kind of node.
        node: String,
        /// The kinds of the profile.
        known: String,
    },
    /// Only nodes of several kinds run the network.
    #[error(
        "no kind of node runs the network alone, on up to {most} nodes: raise max_nodes or the limits of the profile, give nodes more units, or measure the layers that have null on a kind"
    )]
    NotAlone {
        /// The most nodes.
        most: u32,
    },
    /// A planner cannot take these rates.
    #[error("the rates of the profile are refused: {0}")]
    Rate(String),
}
