//! Files of trainers, as their owners write them: for `lacuna submit` and for a replay.
//!
//! A file is TOML with a `[[trainer]]` table for each trainer, or has a JSON object with the same
//! keys on each line, plain or compressed. [`written`] is the schema; `deploy/examples/` has complete
//! files. Unknown keys are errors. An error names file, line and key, and the text to write instead.
//! Relative paths begin at the folder of the file. Environment values may not refer to the submitter's
//! own environment: a trainer must not depend on the user who submits it.
//!
//! `lacuna submit` refuses what only a replay follows, and a replay what only a program can measure
//! ([`Purpose`]). Everything else is read for both: a replay simulates a program along its curve.
//!
//! Lists have an older spelling of some keys, which [`written`] names. A line in it needs no
//! `launcher`, since it is simulated, and maximises throughput where it has no other objective.

mod build;
mod curves;
mod error;
mod launch;
mod layers;
mod read;
mod remedy;
mod stages;
mod syntax;
mod words;
mod written;

pub use error::TrainerFileError;
pub use launch::is_secret;
pub use read::{Purpose, TrainerList, parse, read};
