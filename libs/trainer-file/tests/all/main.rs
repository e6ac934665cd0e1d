//! Files of trainers: both syntaxes, what is refused, and that they say the same.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod both;
mod layers;
mod lines;
mod toml;
