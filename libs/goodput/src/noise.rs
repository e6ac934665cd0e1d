//! What a sample is worth at each batch.
//!
//! Of the gradient at one point let `G` be its true value and `S` the covariance of one sample's
//! gradient. With `v = tr S / M0`, `q = |G|^2`, `phi = v / q` and `s = M / M0`:
//!
//! ```text
//! efficiency  E(s)    = (phi + 1) / (phi + s)      samples of M0 that a sample of M is worth
//! gain        gain(s) = s E(s)                     steps of M0 that a step of M is worth
//! ```
//!
//! Source: Pollux (OSDI 2021), section 3.1; McCandlish et al. (arXiv 1812.06162), appendix A;
//! `AdaScale` (arXiv 2007.05105).

use crate::error::{Error, not_negative};

/// The least variance, in the unit of the squared norm: that of AdaptDL's code.
const LEAST_VARIANCE: f64 = 1e-6;

/// The statistics of the gradient at the user's batch `M0`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    v: f64,
    q: f64,
}

impl Noise {
    /// `v`: trace of the covariance of the gradient averaged over `M0` samples; at least 1e-6. `q`:
    /// squared norm of the true gradient.
    ///
    /// # Errors
    /// [`Error::Noise`] for what is negative or not finite. Where both are zero nothing is known, and
    /// a step of a larger batch is worth no more than one of `M0`, as in AdaptDL.
    pub fn new(v: f64, q: f64) -> Result<Self, Error> {
        let valid = |x: f64| x.is_finite() && x >= 0.0;
        if !valid(v) || !valid(q) {
            return Err(Error::Noise { v, q });
        }
        if v == 0.0 && q == 0.0 {
            return Ok(Self { v: 0.0, q: 1.0 });
        }
        Ok(Self {
            v: v.max(LEAST_VARIANCE),
            q,
        })
    }

    /// From the noise scale in units of `M0`.
    ///
    /// # Errors
    /// [`Error::Value`] if it is negative or not finite.
    pub fn of_scale(phi: f64) -> Result<Self, Error> {
        let phi = not_negative("the noise scale", phi)?;
        Ok(Self { v: phi, q: 1.0 })
    }

    /// The noise scale `phi`, in units of `M0`; infinite without a signal.
    #[must_use]
    pub fn scale(self) -> f64 {
        self.v / self.q
    }

    /// The noise scale over one and its relative standard error, as programs take it: doubt keeps
    /// batches small.
    ///
    /// # Errors
    /// [`Error::Value`] if the error is negative or not finite.
    pub fn doubted(self, relative_error: f64) -> Result<Self, Error> {
        let error = not_negative("the error of the noise scale", relative_error)?;
        Ok(Self {
            v: self.v / (1.0 + error),
            q: self.q.max(f64::MIN_POSITIVE),
        })
    }

    /// Steps of `M0` that a step of `scale` times `M0` is worth, of 1 to `scale`; also the factor
    /// of the learning rate of SGD (`adascale`).
    ///
    /// # Errors
    /// [`Error::Value`] if the ratio is below 1 or not finite.
    pub fn gain(self, scale: f64) -> Result<f64, Error> {
        if !scale.is_finite() || scale < 1.0 {
            return Err(Error::Value {
                what: "the ratio of the batch to the user's",
                value: scale,
                expected: "1 or more",
            });
        }
        Ok((self.v + self.q) / (self.v / scale + self.q))
    }

    /// The factor of the learning rate of Adam and its relatives: the root of the gain
    /// (`adamscale`).
    ///
    /// # Errors
    /// As [`Noise::gain`].
    pub fn adam_gain(self, scale: f64) -> Result<f64, Error> {
        self.gain(scale).map(f64::sqrt)
    }

    /// Samples of `M0` that a sample of a batch of `scale` times `M0` is worth, of 0 to 1.
    ///
    /// # Errors
    /// As [`Noise::gain`].
    pub fn efficiency(self, scale: f64) -> Result<f64, Error> {
        self.gain(scale).map(|gain| gain / scale)
    }
}
