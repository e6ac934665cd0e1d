//! Tests of stalls: replay against an independent simulation, the measured cases, bad reports.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod advice;
mod bad;
mod golden;
mod oracle;
mod recommended;
mod world;
