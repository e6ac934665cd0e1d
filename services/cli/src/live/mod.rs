//! The live view of the services' messages: redrawn on a terminal, line by line elsewhere.

mod collect;
mod view_model;
mod lines;
mod screen;

pub(crate) use collect::Collector;
pub(crate) use view_model::{ViewModel, Palette, render};
pub(crate) use lines::status_line;
pub(crate) use screen::{Screen, Surface};
