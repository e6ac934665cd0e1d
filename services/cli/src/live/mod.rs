//! The live view: what the services say, drawn in place on a terminal or line by line elsewhere.

mod collect;
mod frame;
mod lines;
mod screen;

pub(crate) use collect::Collector;
pub(crate) use frame::{Frame, Palette, render};
pub(crate) use lines::status_line;
pub(crate) use screen::{Screen, Surface};
