//! What living schedulers answer, and what is made of it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

#[path = "../common/logs.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod logs;

mod answers;
mod flags;
mod json;
mod large;
mod property;
mod records;
mod tail;
