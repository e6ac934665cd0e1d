//! The house keeps its plan: which crate may know which, how files look, what licences come in.

mod arrows;
mod cycles;
mod language;
mod left_out;
mod licences;
mod metadata;
mod ports;
mod shape;
