//! Tests of goodput: golden rows, properties, and bad input.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod bad_input;
mod golden;
mod profiles;
mod properties;
