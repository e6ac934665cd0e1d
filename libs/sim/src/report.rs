//! The report: one HTML page that stands alone (inline SVG and CSS, no network, no script),
//! readable by the colour-blind, on paper and on a laptop.
//!
//! [`Report`] is plain data, so that a replay and a live run can fill it alike.

mod charts;
mod data;
mod from_replay;
mod page;
mod svg;

pub use data::{HoleBin, Losses, PoolPoint, Report, TrainerRow, bin_holes};
pub use from_replay::{Source, from_replay};
pub use page::render;
