//! The structure of the workspace: dependencies between crates, import cycles, licences, files,
//! documents, and the words that they use.

mod arrows;
mod cycles;
mod language;
mod left_out;
mod licences;
mod metadata;
mod ports;
mod reproductions;
mod shape;
