//! For tests alone: what a test needs and a machine may lack. A test without it is left out, and
//! says so where libtest hides no word of it. Only the standard library is used, so that tests of
//! cores can have it too.
//!
//! `LACUNA_REQUIRE=torch,docker` (or `all`) makes it a failure to lack one of these.
//! `LACUNA_SKIPPED=FILE` has each test that is left out append a line there; `make test` prints
//! them at its end.

mod missing;
mod need;

pub use missing::{Missing, data};
pub use need::Need;
