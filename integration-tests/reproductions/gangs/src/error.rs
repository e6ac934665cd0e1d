//! Errors of input, and of plans that break a rule.

/// Why a simulation cannot be set up or went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of comma-separated values is malformed.
    #[error("{file}: {source}")]
    Csv {
        /// The file, as the caller names it.
        file: String,
        /// Line and column with what is wrong.
        source: csv::Error,
    },
    /// The file of fabrics is malformed.
    #[error("{file}: {source}")]
    Json {
        /// The file, as the caller names it.
        file: String,
        /// Line and column with what is wrong.
        source: serde_json::Error,
    },
    /// The file of fabrics has no fabric of this name.
    #[error("there is no fabric {name:?}: the file has {known}")]
    NoFabric {
        /// The name asked for.
        name: String,
        /// The names in the file.
        known: String,
    },
    /// A text is no shape.
    #[error("{text:?} is no shape: expected levels with units, as in FC4.SL2.P2")]
    Shape {
        /// The text.
        text: String,
    },
    /// A value lies outside its range.
    #[error("{what} is {value}: expected {expected}")]
    Value {
        /// What has the value, with its place.
        what: String,
        /// The value.
        value: f64,
        /// The values that are accepted.
        expected: &'static str,
    },
    /// The layers of a model are missing.
    #[error("there are no layers of model {model:?}: the file has {known}; add its rows")]
    NoModel {
        /// The model.
        model: String,
        /// The models in the file.
        known: String,
    },
    /// A job needs more GPUs than the cluster has.
    #[error(
        "job {job} needs {gpus} GPUs and the cluster has {has}: add racks or leave the job out"
    )]
    TooLarge {
        /// The job's id.
        job: u64,
        /// Its GPUs.
        gpus: u32,
        /// The GPUs of the cluster.
        has: u32,
    },
    /// A plan gives a GPU to two jobs, or a job two placements.
    #[error("the plan at {at_s} s gives job {job} GPUs that it cannot have: {why}")]
    Plan {
        /// The job's id.
        job: u64,
        /// The time, seconds.
        at_s: f64,
        /// What is wrong.
        why: &'static str,
    },
    /// Nothing runs and the policy starts nothing.
    #[error("{waiting} jobs wait at {at_s} s, none runs, and the policy starts none")]
    Stuck {
        /// The number of waiting jobs.
        waiting: usize,
        /// The time, seconds.
        at_s: f64,
    },
}
