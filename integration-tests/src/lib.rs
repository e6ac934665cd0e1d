//! Tests of the whole; see `tests/all.rs` and the README beside this folder.
