//! A small language for scheduling cases:
//! `case().hole(4, "20m").trainer("a").nodes(1..=8).expect(4).check()`.
//!
//! Every case is planned by the mixed-integer program and by dynamic programming, each with
//! both ways of choosing nodes; every plan must pass the checker.

use std::ops::RangeInclusive;

use lacuna_model::{
    Elastic, Forecast, Generation, Hole, Launch, NodeChoice, NodeId, Phase, Plan, Policy, Pool,
    PooledHole, Program, RescaleCost, RunId, ScalingCurve, Span, Timestamp, TrainerId,
    TrainerRecord, TrainerSpec, Work,
};
use lacuna_planner::check::{self, Context};
use lacuna_planner::{Planner, Settings};

/// Now, in every case.
pub(crate) const NOW: Timestamp = Timestamp::from_unix(1_000_000);

/// Starts a case: an empty pool, no trainers.
pub(crate) fn case() -> Case {
    Case {
        horizon: Span::from_secs(120),
        pool: Pool {
            as_of: NOW,
            seq: 7,
            holes: Vec::new(),
            forecasts: vec![Forecast::default()],
            joint: None,
        },
        trainers: Vec::new(),
        unusable: Vec::new(),
        expected: Vec::new(),
    }
}

/// A pool and trainers, with the expected sizes.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) horizon: Span,
    pub(crate) pool: Pool,
    pub(crate) trainers: Vec<TrainerRecord>,
    pub(crate) unusable: Vec<NodeId>,
    expected: Vec<(TrainerId, u32)>,
}

/// The name of the n-th node of a case: a00, a01, ...
pub(crate) fn node(n: usize) -> NodeId {
    NodeId::new(format!("a{n:02}")).unwrap()
}

impl Case {
    /// Adds holes that opened together, some time ago.
    pub(crate) fn hole(mut self, nodes: usize, age: &str) -> Self {
        let age: Span = age.parse().unwrap();
        let first = self.pool.holes.len();
        for n in first..first + nodes {
            self.pool.holes.push(PooledHole {
                hole: Hole {
                    node: node(n),
                    since: Timestamp::from_unix_ms(NOW.unix_ms() - age.as_ms()),
                },
                forecast: 0,
            });
        }
        self
    }

    /// Adds a trainer: 1 to 8 nodes, 10 samples/s on each, 10 s to grow, 5 s to shrink.
    pub(crate) fn trainer(mut self, name: &str) -> Self {
        let order = self.trainers.len() as u64;
        self.trainers.push(TrainerRecord {
            phase: Phase::Active,
            nodes: Vec::new(),
            run: RunId(0),
            ..TrainerRecord::new(
                TrainerSpec {
                    submit: NOW,
                    max_nodes: 8,
                    rescale: RescaleCost::of(10.0, 5.0),
                    work: Work::Samples(1e9),
                    ..TrainerSpec::simulated(
                        TrainerId::new(name).unwrap(),
                        ScalingCurve::linear(10.0, 8).unwrap(),
                    )
                },
                order,
            )
        });
        self
    }

    fn last(&mut self) -> &mut TrainerRecord {
        self.trainers.last_mut().expect("name a trainer first")
    }

    /// Bounds of the last trainer, with linear scaling at 10 samples/s for each node.
    pub(crate) fn nodes(mut self, bounds: RangeInclusive<u32>) -> Self {
        let spec = &mut self.last().spec;
        (spec.min_nodes, spec.max_nodes) = (*bounds.start(), *bounds.end());
        spec.throughput = ScalingCurve::linear(10.0, *bounds.end()).unwrap();
        self
    }

    /// The last trainer's scaling curve.
    pub(crate) fn curve(mut self, points: &[(u32, f64)]) -> Self {
        self.last().spec.throughput = ScalingCurve::new(points.iter().copied()).unwrap();
        self
    }

    /// The last trainer's rescale costs, seconds.
    pub(crate) fn costs(mut self, up_s: f64, down_s: f64) -> Self {
        self.last().spec.rescale = RescaleCost::of(up_s, down_s);
        self
    }

    /// The last trainer holds these nodes (some may have left the pool).
    pub(crate) fn holds(mut self, nodes: impl IntoIterator<Item = usize>) -> Self {
        self.last().nodes = nodes.into_iter().map(node).collect();
        self
    }

    /// The last trainer is a program that has trained for `age`, with 100 samples of which `saved` are
    /// in a checkpoint; nothing where it writes none.
    pub(crate) fn program(mut self, elastic: Elastic, age: &str, saved: Option<f64>) -> Self {
        let age: Span = age.parse().unwrap();
        let record = self.last();
        record.spec.launch = Launch::Command(Program {
            program: "train".to_owned(),
            checkpoint_dir: saved.map(|_| "/scratch".to_owned()),
            elastic,
            ..Program::default()
        });
        record.run_since = Timestamp::from_unix_ms(NOW.unix_ms() - age.as_ms());
        record.samples_run = if record.nodes.is_empty() { 0.0 } else { 100.0 };
        record.saved_run = saved.unwrap_or_default();
        record.checkpoint = saved.filter(|saved| *saved > 0.0).map(|_| "c1".to_owned());
        self
    }

    /// Nothing says what nodes bring the last trainer, a program, or how long it lasts.
    pub(crate) fn unknown(mut self) -> Self {
        let spec = &mut self.last().spec;
        spec.work = Work::UntilExit;
        if let Launch::Command(Program { profile, .. }) = &mut spec.launch {
            *profile = true;
        }
        self
    }

    /// The last trainer waits in the queue.
    pub(crate) fn queued(mut self) -> Self {
        self.last().phase = Phase::Queued;
        self
    }

    /// These nodes are unusable.
    pub(crate) fn unusable(mut self, nodes: impl IntoIterator<Item = usize>) -> Self {
        self.unusable = nodes.into_iter().map(node).collect();
        self
    }

    /// Number of unusable holes of the pool.
    pub(crate) fn unusable_holes(&self) -> usize {
        let holes = self.pool.holes.iter();
        holes
            .filter(|pooled| self.unusable.contains(&pooled.hole.node))
            .count()
    }

    /// The horizon.
    pub(crate) fn horizon(mut self, text: &str) -> Self {
        self.horizon = text.parse().unwrap();
        self
    }

    /// Expected number of nodes of the last trainer.
    pub(crate) fn expect(mut self, nodes: u32) -> Self {
        let id = self.last().spec.id.clone();
        self.expected.push((id, nodes));
        self
    }

    /// The plan of one policy.
    pub(crate) fn plan(&self, policy: Policy, node_choice: NodeChoice) -> Plan {
        let mut planner = Planner::new(Settings {
            policy,
            node_choice,
            horizon: self.horizon,
            ..Settings::default()
        });
        planner.plan(&self.pool, &self.trainers, &self.unusable, Generation(1))
    }

    /// The context of the checker.
    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            pool: &self.pool,
            trainers: &self.trainers,
            unusable: &self.unusable,
            newest: None,
            kinds: None,
        }
    }

    /// The same case after a plan was applied.
    pub(crate) fn after(mut self, plan: &Plan) -> Self {
        for record in &mut self.trainers {
            let allocation = plan
                .allocations
                .iter()
                .find(|a| a.trainer == record.spec.id);
            record.nodes = allocation.map(|a| a.nodes.clone()).unwrap_or_default();
        }
        self
    }

    /// Plans the case in every way and compares with the expected sizes.
    pub(crate) fn check(self) {
        for policy in [Policy::Milp, Policy::Dp] {
            for choice in [NodeChoice::Random, NodeChoice::Together] {
                let plan = self.plan(policy, choice);
                let violations = check::check(&plan, &self.context());
                assert!(
                    violations.is_empty(),
                    "{policy:?} {choice:?}: {violations:?}"
                );
                for (trainer, nodes) in &self.expected {
                    let got = count(&plan, trainer);
                    assert_eq!(got, *nodes, "{policy:?} {choice:?}: {trainer}: {plan:#?}");
                }
            }
        }
    }
}

/// How many nodes a plan gives to a trainer.
pub(crate) fn count(plan: &Plan, trainer: &TrainerId) -> u32 {
    plan.allocations
        .iter()
        .find(|a| a.trainer == *trainer)
        .map_or(0, |a| a.nodes.len() as u32)
}
