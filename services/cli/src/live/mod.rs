//! The live view of the services' messages: redrawn on a terminal, line by line elsewhere.

mod collect;
mod lines;
mod screen;
mod view_model;

pub(crate) use collect::Collector;
pub(crate) use lines::status_line;
pub(crate) use screen::{Screen, Surface};
pub(crate) use view_model::{Palette, ViewModel, render};
