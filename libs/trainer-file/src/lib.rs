//! Files of trainers, as their owners write them: for `lacuna submit` and for a replay.
//!
//! A file is TOML with a `[[trainer]]` table for each trainer, or has a JSON object with the same
//! keys on each line, plain or compressed. `written.rs` is the schema; `deploy/examples/` has complete
//! files. Unknown keys are errors. An error names file, line and key, and the text to write instead.
//! Relative paths begin at the folder of the file. Environment values may not refer to the submitter's
//! own environment: a trainer must not depend on the user who submits it.
//!
//! `lacuna submit` refuses what only a replay follows, and a replay what only a program can measure
//! ([`Purpose`]). Everything else is read for both: a replay simulates a program along its curve.
//!
//! Lists have an older spelling of some keys, which `written.rs` names. A line in it needs no
//! `launcher`, since it is simulated, and maximises throughput where it has no other objective.
//!
//! A new key of a trainer that its program gets touches:
//! 1. `libs/model/src/trainer.rs`: the field of `Program` (of `TrainerSpec`, if no program has it),
//!    its default, what it may be (`check`), and its length (`bytes`);
//! 2. `written.rs` here: the key, in both syntaxes;
//! 3. `launch.rs` here (`build.rs` for a field of `TrainerSpec`): from the key to the field; `build.rs`
//!    for a text that must be one line, and for the key of a new `SpecError`;
//! 4. `services/agent/src/launcher/environment.rs`: the variable of the program. An assignment has the
//!    whole `Program`, so nothing on the way knows the field;
//! 5. `libs/wire/tests/golden/samples/asked.rs` (`of_a_directory`), with its golden bytes
//!    (`LACUNA_GOLDEN=write cargo test -p lacuna-wire --test all golden`);
//! 6. an example of `deploy/examples/`, which tests read in both syntaxes.
//!
//! What others may not see is taken away in `for_all` (`libs/trainer/src/controller/show.rs`).
//!
//! A value with a form of its own stands in `FORMS` of `remedy.rs` too.

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
