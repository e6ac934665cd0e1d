//! Control on its bus.

mod archive;
mod bus;
mod common;
mod controls;
mod pilots;
