//! The scheduler's cores in virtual time.
//!
//! - [`PoolTrace`]: a trace of the pool. [`HoleTrace`] holds one in memory, [`SimulatedTrace`]
//!   simulates the batch scheduler of a log of batch jobs.
//! - [`replay`] drives the planner over a trace and gives a [`Summary`].
//! - [`Practice`] is what centres run today, replayed beside the policy.
//! - [`dedicated_samples`] is the reference of efficiency.
//! - [`learn`] makes the model that forecasts start with.
//! - [`pool_stats`] counts idle nodes, and [`skill`] scores forecasts. Neither trains anything.

mod annotated;
mod beside;
mod efficiency;
mod error;
mod history;
mod hole_trace;
mod hooks;
mod kept;
mod learn;
mod limits;
mod loss;
mod machine;
mod milestone;
mod oracle;
pub mod pool_stats;
mod pool_trace;
mod practice_figures;
mod replay;
mod rules;
mod settings;
mod simulated;
pub mod skill;
mod solve_times;
mod summary;
mod taught;
mod world;

pub use annotated::{Annotated, leaves_by_name};
pub use beside::{Beside, Practice};
pub use efficiency::dedicated_samples;
pub use error::SimError;
pub use history::{Day, Gantt, GanttRow, GanttSegment, History, LIVES, Life, POINTS, Point, SIZES};
pub use hole_trace::HoleTrace;
pub use hooks::{Decision, Hooks, Progress};
pub use kept::Kept;
pub use lacuna_planner::objective::{NamedExpressions, Objective};
pub use learn::{Lesson, learn};
pub use loss::Loss;
pub use machine::machine;
pub use milestone::Milestone;
pub use oracle::OracleWalk;
pub use pool_trace::{PlannedStartUpdate, PoolStep, PoolSteps, PoolTrace};
pub use practice_figures::PracticeFigures;
pub use replay::{Replayed, replay};
pub use rules::RulesFollowed;
pub use settings::{Dedicated, Forecasting, GanttWindow, Lookahead, Settings, TrainerEnd};
pub use simulated::{JobCounts, SimulatedTrace, Simulation, Survey, SurveyProgress};
pub use solve_times::SolveTimes;
pub use summary::{
    Apart, HarvestOfKind, OrderEvidence, OrderFound, Quarter, SolveSeconds, Summary, Verified,
};
