//! For tests only: requirements of tests that a machine may lack. A test whose requirement is
//! missing is skipped, and reports it where libtest does not capture output. Only the standard
//! library is used, so tests of cores can depend on it.
//!
//! `LACUNA_REQUIRE=torch,docker` (or `all`) turns a missing requirement into a failure. With
//! `LACUNA_SKIPPED=FILE` each skipped test appends a line to that file; `make test` prints them at
//! its end.

mod missing;
mod need;

pub use missing::{Missing, data, torch_python};
pub use need::Need;
