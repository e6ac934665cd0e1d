//! Trainers as their owners specify them.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::{
    CurveError, Distance, DistanceError, KindError, KindName, KindRates, ScalingCurve, Timestamp,
    TrainerId,
};

/// Seconds of lost training when the nodes of a trainer change.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RescaleCost {
    /// Cost of growing, in seconds at the rate before.
    pub up_s: f64,
    /// Cost of shrinking or losing nodes, in seconds at the rate before.
    pub down_s: f64,
    /// Cost of a start from no nodes, in seconds at the rate after. Without it a simulated trainer
    /// starts free, as in the published accounting (arXiv 2106.12091); a program takes as long as for
    /// growing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
}

impl RescaleCost {
    /// Costs of growing and of shrinking in seconds; a start costs what its launcher suggests.
    #[must_use]
    pub const fn of(up_s: f64, down_s: f64) -> Self {
        Self {
            up_s,
            down_s,
            start_s: None,
        }
    }

    /// All costs times `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            up_s: self.up_s * factor,
            down_s: self.down_s * factor,
            start_s: self.start_s.map(|start_s| start_s * factor),
        }
    }
}

/// The work of a trainer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// This number of samples.
    Samples(f64),
    /// Until the program ends with exit code 0.
    UntilExit,
}

/// How a trainer's processes are started on its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "launcher")]
pub enum Launch {
    /// No process: progress follows the scaling curve, and rescale costs are stalls.
    Simulated,
    /// Any program, one process on each node. Progress is read from a file of JSON lines.
    Command(Program),
}

/// The program of a trainer, and how it is started.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Program {
    /// The program, looked up in `PATH`.
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables in addition to those of the agent (`LACUNA_*`).
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The folder of checkpoints, if the program writes any.
    #[serde(default)]
    pub checkpoint_dir: Option<String>,
    /// The folder in which it runs.
    #[serde(default, skip_serializing_if = "Directory::is_of_node")]
    pub directory: Directory,
    /// Files of the nodes with further environment variables, a `NAME=value` on each line. Each
    /// node reads them as the program's account, so no message or record has what they hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment_from: Vec<String>,
    /// Whether the scaling curve is measured while it trains. The submitted curve is then only
    /// an assumption.
    #[serde(default, skip_serializing_if = "is_false")]
    pub profile: bool,
    /// Trainers of one owner and one family are assumed to scale alike, so measurements of one
    /// hold for the next. Without a family, trainers with the same command line, environment
    /// and launcher are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// How the program handles a change of its nodes.
    #[serde(default, skip_serializing_if = "Elastic::is_restart")]
    pub elastic: Elastic,
}

/// The folder in which a program runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directory {
    /// The trainer's folder on the node; under an owner's account their home.
    #[default]
    OfNode,
    /// This one on nodes that have it and where the program's account may enter it; elsewhere as
    /// [`Directory::OfNode`].
    Preferred(String),
    /// This one. A node on which it cannot be entered does not start the program.
    Required(String),
}

impl Directory {
    /// The named folder, if there is one.
    #[must_use]
    pub fn named(&self) -> Option<&str> {
        match self {
            Self::OfNode => None,
            Self::Preferred(folder) | Self::Required(folder) => Some(folder),
        }
    }

    fn is_of_node(&self) -> bool {
        *self == Self::OfNode
    }
}

/// How a program handles a change of its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Elastic {
    /// It is stopped and started again on the new nodes.
    #[default]
    Restart,
    /// It is stopped and started again; `torchrun` starts its workers and joins them.
    Torchrun {
        /// Number of workers on each node.
        workers_per_node: u32,
    },
    /// It keeps running, and its members build a new process group. A joining node is started
    /// beforehand and included when it is ready.
    Regroup {
        /// Number of workers on each node. A node joins and leaves with all of them.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        workers_per_node: u32,
    },
}

impl Elastic {
    /// A program that keeps running, with one worker on each node.
    pub const REGROUP: Self = Self::Regroup {
        workers_per_node: 1,
    };

    /// Number of processes that train on each node.
    #[must_use]
    pub const fn workers_per_node(self) -> u32 {
        match self {
            Self::Restart => 1,
            Self::Torchrun { workers_per_node } | Self::Regroup { workers_per_node } => {
                workers_per_node
            }
        }
    }

    /// Whether it is stopped and started again, without torchrun.
    #[must_use]
    pub fn is_restart(&self) -> bool {
        *self == Self::Restart
    }
}

impl Launch {
    /// The variable that names nodes which hold embedding tables, in a program's environment.
    pub const TABLE_NODES: &str = "LACUNA_TABLE_NODES";

    fn bytes(&self) -> usize {
        let Self::Command(Program {
            program,
            args,
            env,
            checkpoint_dir,
            directory,
            environment_from,
            family,
            profile: _,
            elastic: _,
        }) = self
        else {
            return 0;
        };
        let args = args.iter().map(|arg| arg.len() + size_of::<String>());
        let env = env
            .iter()
            .map(|(name, value)| name.len() + value.len() + 2 * size_of::<String>());
        let files = environment_from
            .iter()
            .map(|file| file.len() + size_of::<String>());
        let rest = [checkpoint_dir, family].into_iter().flatten();
        let rest = rest.map(String::len).sum::<usize>() + directory.named().map_or(0, str::len);
        program.len() + args.chain(env).chain(files).sum::<usize>() + rest
    }

    /// Whether a checkpoint of this name is the program's own: below its folder of checkpoints, or
    /// relative. Another may be what another user's program wrote.
    #[must_use]
    pub fn keeps(&self, checkpoint: &str) -> bool {
        let path = Path::new(checkpoint);
        let goes_up = path.components().any(|part| part == Component::ParentDir);
        let folder = match self {
            Self::Command(Program { checkpoint_dir, .. }) => checkpoint_dir.as_deref(),
            Self::Simulated => None,
        };
        let is_below = folder.is_some_and(|folder| path.starts_with(folder));
        !goes_up && (path.is_relative() || is_below)
    }

    /// Whether torchrun joins its workers.
    #[must_use]
    pub const fn by_torchrun(&self) -> bool {
        matches!(
            self,
            Self::Command(Program {
                elastic: Elastic::Torchrun { .. },
                ..
            })
        )
    }

    /// Whether any of its nodes may have rank 0: torchrun ranks its workers itself, and members beside
    /// nodes that hold embedding tables rank themselves without these.
    #[must_use]
    pub fn ranks_itself(&self) -> bool {
        let of_tables =
            matches!(self, Self::Command(own) if own.env.contains_key(Self::TABLE_NODES));
        of_tables || self.by_torchrun()
    }

    /// Whether its programs keep running when its nodes change.
    #[must_use]
    pub const fn regroups(&self) -> bool {
        matches!(
            self,
            Self::Command(Program {
                elastic: Elastic::Regroup { .. },
                ..
            })
        )
    }

    /// Number of processes that train on each node.
    #[must_use]
    pub const fn workers_per_node(&self) -> u32 {
        match self {
            Self::Simulated => 1,
            Self::Command(Program { elastic, .. }) => elastic.workers_per_node(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !*value
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_one(value: &u32) -> bool {
    *value == 1
}

/// Limit of the effect of a priority, up and down.
const PRIORITIES: i32 = 16;

/// A malleable training job: what its owner submits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerSpec {
    /// Its name, unique within the cluster.
    pub id: TrainerId,
    /// The user who submitted it.
    #[serde(default)]
    pub owner: Option<String>,
    /// Trainers of higher priority go first; equal priorities go first-come-first-served.
    #[serde(default)]
    pub priority: i32,
    /// Weight of its work against that of other trainers; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// When its work should be done, in the cluster's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When it was submitted, in the cluster's time.
    pub submit: Timestamp,
    /// Fewest nodes that it can run on, at least 1.
    pub min_nodes: u32,
    /// Most nodes that it can use.
    pub max_nodes: u32,
    /// Throughput in samples/s by node count.
    pub throughput: ScalingCurve,
    /// What distance between its nodes costs it; nothing if absent.
    #[serde(default, skip_serializing_if = "Distance::is_free")]
    pub distance: Distance,
    /// Rates by kind of node; without any, every node is alike to it.
    #[serde(default, skip_serializing_if = "KindRates::is_any")]
    pub kinds: KindRates,
    /// The curve that the planner maximises, by node count; throughput if absent.
    #[serde(default)]
    pub objective: Option<ScalingCurve>,
    /// Cost of growing, of shrinking and of a start.
    pub rescale: RescaleCost,
    /// The work to do.
    pub work: Work,
    /// How its program is started.
    pub launch: Launch,
}

/// Why a trainer was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The bounds on nodes are out of range.
    #[error(
        "trainer {id}: min_nodes {min} and max_nodes {max}: expected 1 <= min_nodes <= max_nodes \
         <= {most}",
        most = TrainerSpec::MOST_NODES
    )]
    Bounds {
        /// The trainer.
        id: TrainerId,
        /// Its minimum.
        min: u32,
        /// Its maximum.
        max: u32,
    },
    /// The curve ends before the maximum.
    #[error(
        "trainer {id}: max_nodes is {max} but the scaling curve ends at {last} nodes: \
         measure further or lower max_nodes"
    )]
    CurveTooShort {
        /// The trainer.
        id: TrainerId,
        /// Its maximum.
        max: u32,
        /// The last measured count.
        last: u32,
    },
    /// A number is not finite, or out of range.
    #[error("trainer {id}: {what} is {value}: expected a number from {least} to {most}")]
    Number {
        /// The trainer.
        id: TrainerId,
        /// The field.
        what: &'static str,
        /// The value as it was given.
        value: f64,
        /// The least accepted value.
        least: f64,
        /// The greatest accepted value.
        most: f64,
    },
    /// The specification is too long to be kept and to be sent to each of its nodes.
    #[error(
        "trainer {id}: it has {bytes} bytes, {most} are allowed: let its program read from a \
         file what is long, or measure fewer points of its curve",
        most = TrainerSpec::MOST_BYTES
    )]
    TooLong {
        /// The trainer.
        id: TrainerId,
        /// Its length in bytes.
        bytes: usize,
    },
    /// The curve is refused.
    #[error("trainer {id}: {source}")]
    Curve {
        /// The trainer.
        id: TrainerId,
        /// The reason.
        source: CurveError,
    },
    /// The rates by kind of node are refused.
    #[error("trainer {id}: {source}")]
    Kinds {
        /// The trainer.
        id: TrainerId,
        /// The reason.
        source: KindError,
    },
    /// The cost of distance is refused.
    #[error("trainer {id}: distance: {source}")]
    Distance {
        /// The trainer.
        id: TrainerId,
        /// The reason.
        source: DistanceError,
    },
}

impl TrainerSpec {
    /// A simulated trainer without an end, on 1 node up to those of its curve. Changes cost it
    /// nothing. Others are written as this one with what they have besides:
    /// `TrainerSpec { min_nodes: 2, ..TrainerSpec::simulated(id, throughput) }`.
    #[must_use]
    pub fn simulated(id: TrainerId, throughput: ScalingCurve) -> Self {
        Self {
            id,
            owner: None,
            priority: 0,
            weight: None,
            deadline: None,
            submit: Timestamp::default(),
            min_nodes: 1,
            max_nodes: throughput.last_nodes(),
            throughput,
            distance: Distance::default(),
            kinds: KindRates::default(),
            objective: None,
            rescale: RescaleCost::default(),
            work: Work::UntilExit,
            launch: Launch::Simulated,
        }
    }

    /// The trainer where all nodes are of one kind: it has the curve of this kind, and needs the
    /// nodes on which it can train at all. Without such a curve only its rates by kind are gone.
    #[must_use]
    pub fn on_kind(&self, kind: &KindName) -> Self {
        let mut spec = self.clone();
        let kinds = std::mem::take(&mut spec.kinds);
        if let Some(curve) = kinds.curve(kind) {
            if spec.objective == Some(spec.throughput.speedup()) {
                spec.objective = Some(curve.speedup());
            } else if let Some(worth) = &spec.objective {
                // The value of as many nodes, times the rate over that of the fastest kind.
                let of = |n| (n, worth.at(n) * curve.at(n) / spec.throughput.at(n));
                spec.objective = ScalingCurve::new((1..=spec.max_nodes).map(of)).ok();
            }
            spec.max_nodes = spec.max_nodes.min(curve.last_nodes());
            spec.min_nodes = spec.min_nodes.max(kinds.least(kind)).min(spec.max_nodes);
            spec.throughput = curve.clone();
        }
        spec
    }

    /// The most nodes that a trainer may ask for, more than any machine has. Tables by node count
    /// grow with this number.
    pub const MOST_NODES: u32 = 262_144;

    /// The most samples of a trainer. At about nine times as many, adding one sample to the sum
    /// over all trainers would no longer change it.
    pub const MOST_SAMPLES: f64 = 1e15;

    /// The most workers of a node, more than any node has devices.
    pub const MOST_WORKERS: u32 = 1024;

    /// The most bytes of its texts and curves.
    pub const MOST_BYTES: usize = 64 << 10;

    /// Checks the values that types alone do not restrict.
    ///
    /// # Errors
    /// [`SpecError`] names the trainer, the field and the accepted values.
    pub fn check(&self) -> Result<(), SpecError> {
        let id = || self.id.clone();
        let (min, max) = (self.min_nodes, self.max_nodes);
        if min == 0 || min > max || max > Self::MOST_NODES {
            return Err(SpecError::Bounds {
                id: id(),
                min: self.min_nodes,
                max: self.max_nodes,
            });
        }
        let bytes = self.bytes();
        if bytes > Self::MOST_BYTES {
            return Err(SpecError::TooLong { id: id(), bytes });
        }
        self.distance
            .check()
            .map_err(|source| SpecError::Distance { id: id(), source })?;
        let (any, own) = (self.kinds.is_any(), self.objective.as_ref());
        // Speed-up is the rate times a factor, which holds for every kind.
        let own = own.filter(|curve| any || **curve != self.throughput.speedup());
        let mut last = own.map_or(u32::MAX, ScalingCurve::last_nodes);
        if any {
            last = last.min(self.throughput.last_nodes());
        } else {
            let checked = self.kinds.check(&self.throughput, self.max_nodes);
            checked.map_err(|source| SpecError::Kinds { id: id(), source })?;
        }
        if last < self.max_nodes {
            return Err(SpecError::CurveTooShort {
                id: id(),
                max: self.max_nodes,
                last,
            });
        }
        let samples = match self.work {
            Work::Samples(samples) => samples,
            Work::UntilExit => 0.0,
        };
        let rates = |curve: &ScalingCurve| -> Vec<f64> {
            curve.points().iter().map(|point| point.rate).collect()
        };
        let start_s = self.rescale.start_s.unwrap_or(0.0);
        let weight = self.weight.unwrap_or(1.0);
        let workers = f64::from(self.launch.workers_per_node());
        let objective = self.objective.as_ref().map(rates).unwrap_or_default();
        for (what, values, least, most) in [
            ("rescale.up_s", vec![self.rescale.up_s], 0.0, 1e6),
            ("rescale.down_s", vec![self.rescale.down_s], 0.0, 1e6),
            ("rescale.start_s", vec![start_s], 0.0, 1e6),
            ("work.samples", vec![samples], 0.0, Self::MOST_SAMPLES),
            ("weight", vec![weight], 0.0, 1e9),
            (
                "workers_per_node",
                vec![workers],
                1.0,
                f64::from(Self::MOST_WORKERS),
            ),
            ("throughput", rates(&self.throughput), 1e-9, 1e12),
            ("objective", objective, 1e-9, 1e12),
        ] {
            let sound = |value: &f64| (least..=most).contains(value);
            if let Some(value) = values.into_iter().find(|value| !sound(value)) {
                return Err(SpecError::Number {
                    id: id(),
                    what,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }

    /// Length of its texts and curves in bytes, the part that its submitter may choose freely.
    fn bytes(&self) -> usize {
        let curves = std::iter::once(&self.throughput).chain(&self.objective);
        let curves: usize = curves.map(|curve| size_of_val(curve.points())).sum();
        let owner = self.owner.as_ref().map_or(0, String::len);
        let rates = curves + self.distance.bytes() + self.kinds.bytes();
        rates + owner + self.id.as_str().len() + self.launch.bytes()
    }

    /// The curve that the planner maximises.
    #[must_use]
    pub fn objective_curve(&self) -> &ScalingCurve {
        self.objective.as_ref().unwrap_or(&self.throughput)
    }

    /// The weight of its work: its weight, else 2 to the power of its priority, limited to 16 up
    /// and down.
    #[must_use]
    pub fn effective_weight(&self) -> f64 {
        let by_priority = || f64::from(self.priority.clamp(-PRIORITIES, PRIORITIES)).exp2();
        self.weight.unwrap_or_else(by_priority)
    }

    /// Whether its owner asked for measurements of its scaling curve.
    #[must_use]
    pub const fn is_profiled(&self) -> bool {
        matches!(self.launch, Launch::Command(Program { profile: true, .. }))
    }

    /// The owner that it names, else the user who submits it.
    #[must_use]
    pub fn owner_or<'a>(&'a self, user: &'a str) -> &'a str {
        self.owner.as_deref().unwrap_or(user)
    }

    /// The owner whose service and share it belongs to. A trainer without an owner is its own.
    #[must_use]
    pub fn owner_or_self(&self) -> &str {
        self.owner.as_deref().unwrap_or(self.id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(start_s: Option<f64>) -> TrainerSpec {
        TrainerSpec {
            min_nodes: 2,
            max_nodes: 4,
            rescale: RescaleCost {
                up_s: 18.0,
                down_s: 12.0,
                start_s,
            },
            ..TrainerSpec::simulated(
                TrainerId::new("a").unwrap(),
                ScalingCurve::linear(10.0, 4).unwrap(),
            )
        }
    }

    #[test]
    fn a_checkpoint_lies_below_the_programs_folder() {
        let program = |folder: Option<&str>| {
            Launch::Command(Program {
                program: "train".to_owned(),
                checkpoint_dir: folder.map(str::to_owned),
                ..Program::default()
            })
        };
        let (with, without) = (program(Some("/scratch/ann")), program(None));
        for own in ["/scratch/ann/step-9", "/scratch/ann", "step-9", "runs/9"] {
            assert!(with.keeps(own), "{own}");
        }
        for foreign in [
            "/evil",
            "/scratch/annika/step-9",
            "/scratch/ann/../bob/step-9",
            "../bob/step-9",
        ] {
            assert!(!with.keeps(foreign), "{foreign}");
        }
        assert!(without.keeps("step-9") && !without.keeps("/scratch/ann/step-9"));
    }

    #[test]
    fn an_invalid_start_cost_is_refused_and_an_absent_one_is_not_written() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            let error = spec(Some(wrong)).check().unwrap_err().to_string();
            assert!(error.contains("rescale.start_s"), "{error}");
        }
        assert_eq!(spec(Some(0.0)).check(), Ok(()));
        for (given, written) in [
            (None, r#"{"up_s":18.0,"down_s":12.0}"#),
            (Some(4.0), r#"{"up_s":18.0,"down_s":12.0,"start_s":4.0}"#),
        ] {
            let rescale = spec(given).rescale;
            assert_eq!(serde_json::to_string(&rescale).unwrap(), written);
            assert_eq!(
                serde_json::from_str::<RescaleCost>(written).unwrap(),
                rescale
            );
        }
    }

    #[test]
    fn more_nodes_than_any_machine_has_are_refused() {
        let most = TrainerSpec::MOST_NODES;
        let of = |max_nodes| TrainerSpec {
            max_nodes,
            throughput: ScalingCurve::linear(10.0, max_nodes).unwrap(),
            ..spec(None)
        };
        assert_eq!(of(most).check(), Ok(()));
        let error = of(most + 1).check().unwrap_err().to_string();
        assert!(error.ends_with("max_nodes <= 262144"), "{error}");
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let most = TrainerSpec::MOST_SAMPLES;
        let of = |samples, rate, weight| TrainerSpec {
            work: Work::Samples(samples),
            throughput: ScalingCurve::linear(rate, 8).unwrap(),
            weight,
            ..spec(None)
        };
        assert_eq!(of(most, 1e11, Some(1e9)).check(), Ok(()));
        for (wrong, named) in [
            (of(most * 1.001, 1.0, None), "work.samples"),
            (of(1.0, 1e12, None), "throughput"),
            (of(1.0, 1e-10, None), "throughput"),
            (of(1.0, 1.0, Some(2e9)), "weight"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(
                error.contains(named) && error.contains("expected a number"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_node_has_at_least_one_worker_and_one_is_not_written() {
        let of = |elastic| {
            let launch = Launch::Command(Program {
                program: "train".to_owned(),
                elastic,
                ..Program::default()
            });
            TrainerSpec {
                launch,
                ..spec(None)
            }
        };
        for (workers_per_node, sound) in [(0, false), (1, true), (1024, true), (1025, false)] {
            for elastic in [
                Elastic::Regroup { workers_per_node },
                Elastic::Torchrun { workers_per_node },
            ] {
                let checked = of(elastic).check().map_err(|error| error.to_string());
                assert_eq!(checked.is_ok(), sound, "{checked:?}");
                assert!(sound || checked.unwrap_err().contains("workers_per_node"));
            }
        }
        let four = Elastic::Regroup {
            workers_per_node: 4,
        };
        for (elastic, written) in [
            (Elastic::REGROUP, r#"{"by":"regroup"}"#),
            (four, r#"{"by":"regroup","workers_per_node":4}"#),
        ] {
            assert_eq!(serde_json::to_string(&elastic).unwrap(), written);
            assert_eq!(serde_json::from_str::<Elastic>(written).unwrap(), elastic);
        }
    }

    #[test]
    fn a_specification_that_is_too_long_is_refused() {
        let of = |args: Vec<String>| TrainerSpec {
            launch: Launch::Command(Program {
                program: "train".to_owned(),
                args,
                ..Program::default()
            }),
            ..spec(None)
        };
        let most = TrainerSpec::MOST_BYTES;
        assert_eq!(of(vec!["x".repeat(most - 100)]).check(), Ok(()));
        // One long text, or many empty ones.
        for args in [vec!["x".repeat(most)], vec![String::new(); most / 16]] {
            let error = of(args).check().unwrap_err().to_string();
            assert!(error.contains("65536 are allowed"), "{error}");
        }
        let long = ScalingCurve::new((1..=5_000).map(|n| (n, f64::from(n)))).unwrap();
        let long = TrainerSpec {
            throughput: long,
            ..spec(None)
        };
        assert!(matches!(long.check(), Err(SpecError::TooLong { .. })));
    }
}
