//! Files of trainers: both syntaxes, what is refused, and that they say the same.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod both;
mod layers;
mod lines;
mod toml;
