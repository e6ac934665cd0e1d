//! The controller: the trainers, their nodes and their samples.
//!
//! [`Controller::step`] takes one [`Input`] and returns [`Effect`]s in the order in which they must
//! be applied: leases are written before records, records and members before commands. The result
//! of [`Effect::WriteLeases`] comes back as [`Input::LeasesWritten`] before any other input. The
//! timer asks again for an unknown result.
//!
//! Invariants:
//! 1. A node has at most one owner, the one in the bucket of leases. It gets a new owner only after
//!    its agent has confirmed the release.
//! 2. A trainer's incarnation has only nodes whose lease it holds. Every change of the set is a new
//!    incarnation, recorded before any agent gets a command of it.
//! 3. Samples are counted once ([`crate::account`]).
//! 4. In doubt the controller does less: no trainer gets a node while the bus is down, the pool
//!    unknown, or the plan not made for the present state.
//!
//! The state is divided into parts. Each keeps its own invariants, which its file lists:
//!
//! | Part | Its state | File |
//! |---|---|---|
//! | nodes | pool, leases, agents and commands, failures, demand | `nodes/` |
//! | trainers | records, accounts, incarnations, rates, stalls, probes, health | `trainers/` |
//! | admission | the queue, and how often an owner may enter | `admission.rs`, `entries.rs` |
//! | plan gate | the plan that waits | `plan_gate.rs` |
//! | publication | changes not published yet | `publication.rs` |
//! | withholding | the operator's controls | `withholding.rs` |
//! | lock step | ticks, and whether the loop has settled | `lock_step.rs` |
//! | loaders | what each loader of a trainer brings | `loaders.rs` |
//! | usage | node-time offered and used | `usage.rs` |
//!
//! `step.rs` routes inputs. Each other file holds one procedure over several parts.

mod admission;
mod agents;
mod archive;
mod broken;
mod config;
mod distance;
mod effect;
mod elsewhere;
mod ending;
mod entries;
mod first_failure;
mod follow;
mod given_back;
mod incarnations;
mod input;
mod kinds;
mod leases;
mod loaders;
mod lock_step;
mod measuring;
mod nodes;
mod on_demand;
mod one_account;
mod out;
mod pilot_starts;
mod plan_gate;
mod pool;
mod publication;
mod quarantine;
mod quota;
mod recover;
mod regroup;
mod show;
mod step;
mod timer;
mod trainers;
mod usage;
mod view;
mod withholding;

pub use config::{ControllerConfig, OnDemand};
pub use effect::{Effect, LeaseResult, LeaseWrite, Note, Refusal, RefusalKind};
pub use input::{Input, Taken, Tick};
pub use loaders::WORTH as LOADER_WORTH;
pub use on_demand::NO_PILOT;
pub use view::{Apart, HeldNode, Tally, TrainersView};
pub use withholding::Use;

use lacuna_model::{NodeKinds, Topology};

use admission::Admission;
use lock_step::LockStep;
use nodes::Nodes;
use pilot_starts::PilotStarts;
use plan_gate::PlanGate;
use publication::Publication;
use trainers::Trainers;
use usage::Usage;
use withholding::Withholding;

/// The state of control: see the [module](self).
#[derive(Debug)]
pub struct Controller {
    config: ControllerConfig,
    nodes: Nodes,
    trainers: Trainers,
    admission: Admission,
    plans: PlanGate,
    publication: Publication,
    withholding: Withholding,
    lock_step: LockStep,
    usage: Usage,
    loaders: loaders::Worths,
    loader_readings: loaders::Readings,
    pilot_starts: PilotStarts,
    /// Where nodes are, for rates by tier.
    topology: Topology,
    /// Of which kind nodes are.
    kinds: NodeKinds,
    /// Whether the bus is there.
    connected: bool,
    /// The newest event that is included; nothing before the first snapshot of the pool.
    seq: Option<u64>,
}

impl Controller {
    /// Without trainers and nodes.
    #[must_use]
    pub fn new(config: ControllerConfig) -> Self {
        Self {
            config,
            nodes: Nodes::default(),
            trainers: Trainers::default(),
            admission: Admission::default(),
            plans: PlanGate::default(),
            publication: Publication::after(0),
            withholding: Withholding::default(),
            lock_step: LockStep::default(),
            usage: Usage::default(),
            loaders: loaders::Worths::new(),
            loader_readings: loaders::Readings::new(),
            pilot_starts: PilotStarts::default(),
            topology: Topology::default(),
            kinds: NodeKinds::default(),
            connected: true,
            seq: None,
        }
    }
}
