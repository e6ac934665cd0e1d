//! Errors of input.

/// Why a model, a fit, a batch or a share cannot be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value lies outside its range.
    #[error("{what} is {value}: expected {expected}")]
    Value {
        /// What has the value.
        what: &'static str,
        /// The value.
        value: f64,
        /// The values that are accepted.
        expected: &'static str,
    },
    /// The statistics of the gradient say nothing.
    #[error(
        "the gradient's variance is {v} and its squared norm {q}: expected finite numbers, zero or more: \
         leave steps out whose loss is not finite"
    )]
    Noise {
        /// Trace of the covariance at batch `M0`.
        v: f64,
        /// Squared norm.
        q: f64,
    },
    /// Bounds contradict each other.
    #[error("{low_name} is {low} and {high_name} is {high}: expected {low_name} <= {high_name}")]
    Bounds {
        /// The name of the lower bound.
        low_name: &'static str,
        /// The lower bound.
        low: f64,
        /// The name of the upper bound.
        high_name: &'static str,
        /// The upper bound.
        high: f64,
    },
    /// No batch within the bounds exists at a size.
    #[error(
        "{replicas} replicas cannot share a batch of {max} samples at most, with {min_local} or more each: \
         raise the largest batch, lower the smallest pass, or limit the nodes"
    )]
    NoBatch {
        /// The replicas.
        replicas: u32,
        /// The largest batch of the user.
        max: u32,
        /// The least samples of a pass.
        min_local: u32,
    },
    /// A measured step is not usable.
    #[error("measured step {index}: {what} is {value}: expected {expected}")]
    Observation {
        /// The number of the step in the list, from 0.
        index: usize,
        /// What has the value.
        what: &'static str,
        /// The value.
        value: f64,
        /// The values that are accepted.
        expected: &'static str,
    },
    /// There is nothing to fit.
    #[error("no step was measured: a fit needs one or more")]
    NoObservation,
}

/// A finite number that is not negative.
pub(crate) fn not_negative(what: &'static str, value: f64) -> Result<f64, Error> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(Error::Value {
            what,
            value,
            expected: "a finite number, zero or more",
        })
    }
}
