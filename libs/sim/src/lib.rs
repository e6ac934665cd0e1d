//! The scheduler's cores in virtual time: replay of recordings, measures of efficiency, and
//! the report.
//!
//! [`Trace`] turns a hole list into a [`Recording`] in memory; [`replay`] drives the planner
//! over any recording and counts what comes of it; [`report`] draws it.

mod efficiency;
mod error;
mod foresight;
mod history;
mod hooks;
mod limits;
mod loss;
pub mod pool_stats;
mod published;
mod recording;
mod replay;
mod settings;
mod simulated;
pub mod skill;
mod solve_times;
mod summary;
mod trace;
mod world;

pub use efficiency::dedicated_samples;
pub use error::SimError;
pub use foresight::Foresight;
pub use history::{Day, Gantt, GanttRow, GanttSegment, History, LIVES, Life, POINTS, Point, SIZES};
pub use hooks::{Decision, Hooks, Progress};
pub use lacuna_planner::objective::{NamedExpressions, Objective};
pub use loss::Loss;
pub use recording::{EndHint, Recording, StepRef, Steps};
pub use replay::{Replayed, replay};
pub use settings::{Dedicated, Forecasting, GanttWindow, Lookahead, Model, Settings, TrainerEnd};
pub use simulated::{JobCounts, Simulated, Simulation, Survey, SurveyProgress};
pub use solve_times::SolveTimes;
pub use summary::{OrderEvidence, OrderFound, SolveSeconds, Summary, Verified};
pub use trace::Trace;
