//! The agent, its guard and its programs.

mod alone;
mod emptied;
mod escape;
mod held;
mod owners;
mod pilot;
mod programs;
mod removal;
mod workers;
