//! Measures of how good forecasts were, once the truth is known.
//!
//! A *question* is a hole that was present at a moment `a`, with a survival curve `S` of its
//! remaining length `L` that was forecast then. What the truth says of it is a [`Seen`]: the hole
//! ended `L` seconds later, or it was watched that long and had not ended.
//!
//! - [`Concordance`] (Harrell's C): of two holes, was the one that lasted longer forecast to last
//!   longer? Needs no probabilities.
//! - [`Brier`]: mean of `(S(h) - [L > h])²` at a horizon `h`, with bins of probabilities
//!   (reliability), the expected calibration error, calibration in the large, and the skill over
//!   the base rate.
//! - [`Pinball`]: the loss of a quantile of the remaining length, and how often it held.
//!
//! **What is censored.** Recordings end, and with them every question that is still open. Which
//! questions that hits depends on when they were asked and not on the hole, so a question counts
//! for a horizon only if the horizon passed while the recording still ran, *whether or not the
//! hole had ended by then* ([`Seen::open_after`]): what ended early must not be counted where
//! its equals that lasted could not be. That is exact for an end that is the same for all, needs
//! no weights by the inverse probability of censoring, and costs only the questions of the last
//! `h` seconds. The pinball loss is that of `min(L, limit)`, so it asks for the same. Harrell's C
//! compares two holes only if the one with the shorter time is known to have ended.
//!
//! All of these are running sums of fixed size, but for the concordance over a set, which holds
//! the set.

mod brier;
mod concordance;
mod pinball;
mod seen;

pub use brier::{Brier, ReliabilityBin};
pub use concordance::{Concordance, Ranked, concordance};
pub use pinball::{LEVELS, Pinball, best_constant};
pub use seen::Seen;
