//! The charts of a page, each a drawing of its own.

mod bars;
mod beside;
mod calibration;
mod gantt;
mod idle;
mod loss;
mod over_time;
mod skill;
mod trainers;

pub(super) use bars::{days, holes, solves};
pub(super) use beside::beside;
pub(super) use calibration::calibration;
pub(super) use gantt::{gantt, gantt_height};
pub(super) use idle::{over_time, sizes, week};
pub(super) use loss::{loss, simple};
pub(super) use over_time::{POOL_HEIGHT, efficiency, line, pool};
pub(super) use skill::{Panel, skill};
pub(super) use trainers::trainers;
