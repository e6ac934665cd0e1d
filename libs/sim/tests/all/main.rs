//! The tests of replays, in one binary so that the solver is linked once.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

mod announced;
mod apart;
mod beside;
mod common;
mod figures;
mod forecast_policy;
mod hand;
mod hostile;
mod kept;
mod kinds;
mod leak;
mod learn;
mod objectives;
mod oracle_lookahead;
mod planned;
mod pool_stats;
mod published;
mod remembered;
mod simulated;
mod skill;
