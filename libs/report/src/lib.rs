//! HTML and SVG of replays, of the pool and of forecast skill.
//!
//! A page is one file with inline SVG and CSS, without network or script. It is readable by the
//! colour-blind, on paper and on a laptop.
//!
//! - [`Report`], drawn by [`render`]: one replay or live cluster, as plain data. [`from_replay`]
//!   fills it from a replay. [`drawing`] draws only its beginning.
//! - [`render_pool`] and [`pool_drawing`]: the pool's statistics, as a page and as a drawing.
//! - [`render_skill`]: forecast skill.
//! - [`Layers`], drawn by [`render_layers`]: a placement of layers on kinds of node.

mod answer;
mod charts;
mod data;
mod from_history;
mod from_replay;
mod harm;
mod layers_page;
mod learning;
mod page;
mod pool_page;
mod shell;
mod skill_page;
mod style;
mod svg;

pub use data::{
    Answer, BesideKind, BesideRow, DayRow, Gantt, GanttRow, GanttSegment, LossKind, LossPart,
    LossSplit, Losses, PoolPoint, Report, SolveBin, Tile, TrainerRow, bin_solves,
};
pub use from_replay::{Source, from_replay};
pub use lacuna_sim::pool_stats::{HoleBin, bin_holes};
pub use layers_page::{Layers, LayersStage, render_layers};
pub use page::{drawing, render};
pub use pool_page::{About, pool_drawing, render_pool};
pub use skill_page::render_skill;
