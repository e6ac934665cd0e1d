//! The vocabulary of Lacuna as types: ids, time, holes, scaling curves, trainers, leases and plans.
//!
//! All types are plain data, validated at construction. No code here does I/O or reads a clock. All
//! other crates use these types.

mod attained;
mod command;
mod controls;
mod curve;
mod defaults;
mod distance;
mod event;
mod harm;
mod hole;
mod id;
mod kinds;
mod learning;
mod lease;
mod life;
mod loaders;
mod measured;
mod node_kinds;
mod observed;
mod output_lines;
mod past;
pub mod pilots;
mod plan;
mod planning;
mod pool;
mod reason;
mod replay;
mod scheduler;
mod settings;
mod stage;
mod step_costs;
mod time;
mod token;
mod topology;
mod trainer;
mod tries;
mod trouble;
mod verdict;

pub use attained::{Attained, HALF_LIFE};
pub use command::{
    Action, Activity, AgentStatus, AgentTerms, Assignment, Command, Ending, Member, Members,
    Progress,
};
pub use controls::{
    Controls, ControlsChange, Drain, LimitInForce, Pause, UseLimit, UseState, UseWindow, WithheldBy,
};
pub use curve::{CurveError, CurvePoint, ScalingCurve};
pub use defaults::is_default;
pub use distance::{Distance, DistanceError, Fitted, among, crowds};
pub use event::{EventKind, NodeEvent, NodeState};
pub use harm::Harm;
pub use hole::{Hole, HoleRecord, PlannedStart};
pub use id::{ClusterId, IdError, KindName, NodeId, TrainerId};
pub use kinds::{KindError, KindRates, MixedPoint};
pub use learning::{Follows, Goodput, GoodputAt, Learning, Sizing};
pub use lease::{Epoch, RunId};
pub use life::{Efficiency, EndedRun, Held, LossCause, Phase, Stall, Stalls, TrainerRecord};
pub use loaders::{Loaders, Loading};
pub use measured::{Basis, InForce, Measured, MeasuredPause, MeasuredRate, MeasuredStart};
pub use node_kinds::{KindUse, MOST_KINDS, NodeKinds};
pub use observed::ObservedHour;
pub use output_lines::OutputLines;
pub use past::{OwnerUse, Past, PastKind};
pub use plan::{
    Allocation, Followed, Generation, JudgedPlan, NodeChoice, Outcome, Plan, PlanReport, Policy,
    Rule, RuleGain, Solve,
};
pub use planning::{ForecastingSettings, PlannerSettings};
pub use pool::{Announced, Forecast, ForecastPoint, Joint, Pool, PooledHole};
pub use reason::{Doubt, ForecastReport, HoleClass, More, Offer, OrderSource, TrainerReason};
pub use replay::{Judged, StepModel};
pub use scheduler::SchedulerName;
pub use settings::{SettingError, SpanText};
pub use stage::{Stage, Staged, Stages, Steps, StepsAt};
pub use step_costs::{
    Advice, Cause, CauseCost, SlowMember, StepCosts, StepElsewhere, StepWithWorkers,
};
pub use time::{Span, SpanError, Timestamp};
pub use token::Token;
pub use topology::{Tier, Topology, TopologyError};
pub use trainer::{Directory, Elastic, Launch, Program, RescaleCost, SpecError, TrainerSpec, Work};
pub use tries::{FailedOn, Rest, Tries};
pub use trouble::{Blame, Trouble, TroubleKind, Troubled};
pub use verdict::{HoleVerdict, OwnerShare, TrainerVerdict, Verdict};
