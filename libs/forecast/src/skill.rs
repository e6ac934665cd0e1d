//! Measures of the skill of forecasts, once the outcomes are known.
//!
//! A *question* is a hole that was present at a time, with the forecast survival curve `S` of its
//! remaining length `L`. Its outcome is a [`Seen`]: the hole ended `L` seconds later, or was
//! observed so long without an end.
//!
//! - [`Concordance`] (Harrell's C): the share of pairs of holes in which the hole that lasted
//!   longer was forecast to do so. It needs no probabilities.
//! - [`Brier`]: mean of `(S(h) - [L > h])²` at a horizon `h`, with bins of probabilities
//!   (reliability), the expected calibration error, calibration in the large, and the skill over
//!   the base rate.
//! - [`Pinball`]: the loss of a quantile of the remaining length, and its coverage.
//!
//! **Censoring.** A trace ends, and with it every open question. The end depends on the time of the
//! question and not on the hole. So a question counts for a horizon only if the horizon passes
//! before the end of the trace, *even if the hole ended earlier* ([`Seen::open_after`]). Otherwise
//! holes that end early would count where equal holes that last could not. This is exact for a
//! common end, needs no weights by the inverse probability of censoring, and costs only the
//! questions of the last `h` seconds. The pinball loss is that of `min(L, limit)` and has the same
//! condition. Harrell's C compares two holes only if the one with the shorter time is known to have
//! ended.
//!
//! All are running sums of fixed size, except the concordance, which holds its set.

mod brier;
mod concordance;
mod pinball;
mod seen;

pub use brier::{Brier, ReliabilityBin};
pub use concordance::{Concordance, Ranked, concordance};
pub use pinball::{LEVELS, Pinball, best_constant};
pub use seen::Seen;
