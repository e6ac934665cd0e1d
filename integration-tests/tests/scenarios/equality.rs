//! Three ways to the same plans and figures: the replay, and the services in lock step, once in
//! virtual time and once as processes over NATS. All have forecasts, the order in which the
//! scheduler takes nodes, planned starts, and starts that cost. No solve may be ended by the clock.
//!
//! The plan after every event is the same, and so are the numbers of preemptions, rescales and
//! trainers done. Samples, and samples lost to rescales and to preemptions, are the same to 1e-6.
//! Idle and harvested node-seconds are not compared: control counts a lease until it is given back,
//! the replay until the work is done.

mod wings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;

use lacuna_batchsim::workload::generated_trace;
use lacuna_cli::Config;
use lacuna_model::{
    ClusterId, CurvePoint, Goodput, GoodputAt, HoleRecord, KindName, NodeId, NodeKinds,
    PlannedStart, Policy, RescaleCost, ScalingCurve, Span, Staged, Timestamp, Topology, TrainerId,
    TrainerRecord, TrainerSpec, Work,
};
use lacuna_runtime::virtual_time::{self, Host};
use lacuna_runtime::{Bus, Delays, SimulatedServer, Stopwatch};
use lacuna_scheduler::ingest::{Recording, RecordingPace};
use lacuna_sim::{
    Annotated, Decision, Forecasting, HoleTrace, Hooks, Lesson, PoolTrace as _, Settings, Summary,
    learn, replay,
};
use lacuna_testkit::{Missing, data, or_skip};
use lacuna_trace::{Compression, HoleWriter, PlannedWriter};
use lacuna_wire::msg::{
    Clock, PlanState, Reply, Request, Settled, TopologyState, Totals, TrainersState,
};
use lacuna_wire::{Envelope, Message, address, codec};

use super::cluster::{Cluster, SERVICES};
use crate::virtual_cluster;

/// The relative tolerance, for the order of additions.
const ROUNDING: f64 = 1e-6;

/// The trainer of each node.
type Plan = BTreeMap<NodeId, TrainerId>;

/// A trace and trainers on it.
struct Case {
    holes: Vec<HoleRecord>,
    planned: Vec<PlannedStart>,
    start: Timestamp,
    end: Timestamp,
    trainers: Vec<TrainerSpec>,
    policy: Policy,
    objective: &'static str,
    /// The model that forecasts start with.
    model: Option<Lesson>,
    /// The kind of each node; none if all are alike.
    kinds: BTreeMap<NodeId, KindName>,
    /// Where the nodes are.
    topology: Topology,
    /// How many crossing trainers the uplink of a leaf carries at full speed.
    uplink: Option<u32>,
    /// How fast trainers learn, as far as it is known: control has it from their programs, a replay
    /// from its list.
    goodput: BTreeMap<TrainerId, ScalingCurve>,
}

/// The outcome of one of the two ways.
struct Outcome {
    /// The plans after each step. Control's state may be heard after its answer, so there may be
    /// several; the plan is one of them.
    plans: Vec<(Timestamp, Vec<Plan>)>,
    samples: f64,
    rescale_cost: f64,
    preempt_cost: f64,
    preemptions: u64,
    rescales: u64,
    done: u64,
    /// Decisions that the emergency stop by the clock ended.
    clock_stops: u64,
}

impl Case {
    fn by_replay(&self) -> Outcome {
        let (start, end) = (self.start, Some(self.end));
        let trace = HoleTrace::with_planned(&self.holes, &self.planned, None, start, end);
        let mut trace = Annotated::new(&trace);
        if !self.topology.is_empty() {
            trace = trace.with_topology(self.topology.clone());
        }
        if !self.kinds.is_empty() {
            trace = trace.with_kinds(&self.kinds).unwrap();
        }
        let mut settings = Settings {
            policy: self.policy,
            objective: self.objective.parse().unwrap(),
            forecast: Forecasting {
                model: (self.model.as_ref()).map(|lesson| Arc::new(lesson.learnt.clone())),
                ..Forecasting::default()
            },
            ..Settings::default()
        };
        settings.forecast.joint.uplink = self.uplink;
        for (id, curve) in &self.goodput {
            let staged = Staged {
                goodput: Some(curve.clone()),
                ..Staged::default()
            };
            settings.stages.insert(id.clone(), staged);
        }
        let mut plans = Vec::new();
        let mut save = |decision: &Decision<'_>| {
            let at = self.start + Span::from_secs_f64(decision.at_s);
            let mut plan = Plan::new();
            for (&node, owner) in decision.nodes.iter().zip(decision.owners) {
                let life = owner.and_then(|j| decision.lives.get(j as usize));
                if let Some(&life) = life {
                    let node = NodeId::new(trace.node_name(node)).unwrap();
                    plan.insert(node, self.trainers[life as usize].id.clone());
                }
            }
            plans.push((at, vec![plan]));
        };
        let mut hooks = Hooks {
            stopwatch: &|| 0.0,
            progress: &mut |_| {},
            save: Some(&mut save),
        };
        let replayed = replay(&trace, &self.trainers, &settings, None, &mut hooks);
        let summary: Summary = replayed.unwrap().summary;
        Outcome {
            plans,
            samples: summary.samples,
            rescale_cost: summary.rescale_cost_fraction * summary.samples,
            preempt_cost: summary.preempt_cost_fraction * summary.samples,
            preemptions: summary.preemptions,
            rescales: summary.rescales,
            done: summary.trainers_done,
            clock_stops: summary.clock_stops,
        }
    }

    /// The files that ingest plays.
    fn files(&self, dir: &Path) -> Recording {
        let path = dir.join("holes.csv");
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = HoleWriter::new(file, Compression::Plain).unwrap();
        self.holes
            .iter()
            .for_each(|hole| writer.write(hole).unwrap());
        writer.finish().unwrap();
        let planned_file = dir.join("planned.csv");
        let file = std::fs::File::create(&planned_file).unwrap();
        let mut writer = PlannedWriter::new(file, Compression::Plain).unwrap();
        self.planned
            .iter()
            .for_each(|one| writer.write(one).unwrap());
        writer.finish().unwrap();
        Recording {
            path,
            planned_file: Some(planned_file),
            nodes_file: None,
            first_nodes: None,
            pace: RecordingPace::LockStep,
            rate: 1.0,
            start: Some(self.start),
            end: Some(self.end),
        }
    }

    /// The file with the switches, if there are any.
    fn topology_file(&self, dir: &Path) -> Option<PathBuf> {
        let leaf = |(leaf, nodes): (&str, Vec<&NodeId>)| {
            let nodes: Vec<&str> = nodes.into_iter().map(NodeId::as_str).collect();
            format!("SwitchName={leaf} Nodes={}\n", nodes.join(","))
        };
        let text: String = self.topology.leaves().into_iter().map(leaf).collect();
        let path = dir.join("topology.conf");
        (!text.is_empty()).then(|| std::fs::write(&path, text).unwrap())?;
        Some(path)
    }

    /// The file with the kinds of nodes, if there are any.
    fn kinds_file(&self, dir: &Path) -> Option<PathBuf> {
        let rows = self.kinds.iter();
        let rows: String = rows
            .map(|(node, kind)| format!("{node},{kind}\n"))
            .collect();
        let path = dir.join("kinds.csv");
        (!rows.is_empty()).then(|| std::fs::write(&path, format!("node,kind\n{rows}")).unwrap())?;
        Some(path)
    }

    /// The settings of all services; `dir` gets the files that ingest plays.
    fn config(&self, dir: &Path) -> Config {
        let mut config = Config::default();
        config.ingest.recording = Some(self.files(dir));
        // Snapshots overtake events, which have more detail.
        config.ingest.snapshot_every = Span::from_ms(200);
        config.planner.policy = self.policy;
        config.planner.objective = self.objective.to_owned();
        config.planner.forecasting.uplink = self.uplink;
        config.ingest.topology = self.topology_file(dir);
        config.ingest.kinds_file = self.kinds_file(dir);
        config.forecast.model = self.model.as_ref().map(|lesson| {
            let path = dir.join("model.lacuna");
            std::fs::write(&path, lesson.learnt.write().unwrap()).unwrap();
            path
        });
        config.agent.all_nodes = true;
        config.agent.work_dir = dir.join("work");
        config
    }

    async fn by_processes(&self) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        let mut cluster = Cluster::new(self.config(dir.path())).await;
        let (id, mut plans) = (cluster.id.clone(), Plans::default());
        // One subscription, since the order of messages of several is not kept.
        let all = format!("lacuna.v1.{id}.>");
        let client = cluster.bus.nats().unwrap().client.clone();
        let mut heard = client.subscribe(all).await.unwrap();
        client.flush().await.unwrap();
        for service in SERVICES {
            if service == "ingest" {
                cluster.submit(self.trainers.clone()).await;
            }
            cluster.start(service);
        }
        {
            let ended = cluster.ended(Duration::from_secs(900));
            tokio::pin!(ended);
            loop {
                tokio::select! {
                    biased;
                    message = heard.next() => {
                        if let Some(heard) = Heard::read(&id, &message.unwrap()) {
                            plans.take(heard);
                        }
                    }
                    () = &mut ended => break,
                }
            }
        }
        plans.outcome(&cluster.totals().await)
    }

    fn by_virtual_loop(&self) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        virtual_time::run(1, self.in_virtual_time(dir.path())).unwrap()
    }

    /// Keeps records of trainers that learn, as a control before left them.
    async fn keep_records(&self, bus: &Bus) {
        let bucket = bus.bucket(address::trainers_bucket(bus.cluster()));
        for (order, spec) in (0..).zip(&self.trainers) {
            let Some(curve) = self.goodput.get(&spec.id) else {
                continue;
            };
            let size = |point: &CurvePoint| GoodputAt {
                nodes: point.nodes,
                batch: 1,
                efficiency: 1.0,
                rate: point.rate,
            };
            let mut record = TrainerRecord::new(spec.clone(), order);
            record.goodput = Some(Box::new(Goodput {
                kind: None,
                at: self.start,
                sizes: curve.points().iter().map(size).collect(),
            }));
            bucket.create(spec.id.as_str(), &record, "").await.unwrap();
        }
    }

    /// Trainers with kinds are taken once the kinds of nodes are known, and time goes on with ingest.
    async fn tell_places(&self, bus: &Bus) {
        if self.kinds.is_empty() {
            return;
        }
        let places = TopologyState {
            kinds: NodeKinds::new(self.kinds.clone()),
            ..TopologyState::default()
        };
        let subject = address::topology(bus.cluster());
        bus.store(&subject, &places, "").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    async fn in_virtual_time(&self, dir: &Path) -> Outcome {
        let config = self.config(dir);
        // Every hop takes its time, so the order of messages of several subscriptions is kept.
        let delays = Delays {
            least_ms: 1,
            most_ms: 1,
        };
        let server = SimulatedServer::new(1, delays);
        let bus = virtual_cluster::connect(&server, &config).await;
        let id = bus.cluster().clone();
        let mut trainers = bus.subscribe(&address::trainers(&id)).await.unwrap();
        let mut ticks = bus.subscribe(&address::clock(&id)).await.unwrap();
        let mut decided = bus.subscribe(&address::plan(&id)).await.unwrap();
        let mut answers = bus.subscribe(&address::settled(&id)).await.unwrap();
        self.keep_records(&bus).await;
        let hosts = SERVICES.map(Host::new);
        for (service, host) in SERVICES.into_iter().zip(&hosts) {
            if service == "ingest" {
                self.tell_places(&bus).await;
                let is_kept = |spec: &&TrainerSpec| self.goodput.contains_key(&spec.id);
                let new = self.trainers.iter().filter(|spec| !is_kept(spec));
                let new: Vec<TrainerSpec> = new.cloned().collect();
                for chunk in new.chunks(100) {
                    let request = lacuna_testkit::submission(chunk.to_vec());
                    let reply = virtual_cluster::ask(&bus, &request).await;
                    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
                }
            }
            virtual_cluster::start(host, service, &server, &config, None);
        }
        let mut plans = Plans::default();
        while !plans.ended {
            let heard = tokio::select! {
                biased;
                heard = trainers.next() => Heard::Trainers(heard.unwrap().message),
                heard = decided.next() => Heard::Plan(Box::new(heard.unwrap().message)),
                heard = answers.next() => Heard::Settled(heard.unwrap().message),
                heard = ticks.next() => Heard::Clock(heard.unwrap().message),
            };
            plans.take(heard);
        }
        let reply = virtual_cluster::ask(&bus, &Request::Totals).await;
        for host in &hosts {
            host.kill();
        }
        let Reply::Totals(totals) = reply else {
            panic!("no totals: {reply:?}");
        };
        plans.outcome(&totals)
    }

    /// Requires that the replay and the loop in virtual time agree. Returns the outcome of the loop.
    fn check(&self) -> Outcome {
        let replayed = self.by_replay();
        let watch = Stopwatch::start();
        let served = self.by_virtual_loop();
        println!(
            "{:?}, objective {}: {:.1} s in virtual time",
            self.policy,
            self.objective,
            watch.seconds()
        );
        self.compare("replay", &replayed, "virtual time", &served);
        served
    }

    /// Requires that two ways agree, and that they made plans at all.
    fn compare(&self, left: &str, a: &Outcome, right: &str, b: &Outcome) {
        let case = format!("{:?}, objective {}", self.policy, self.objective);
        let changes = a.plans.windows(2).filter(|w| w[0].1 != w[1].1).count();
        println!(
            "{case}: {} decisions, {changes} of them changed the plan",
            a.plans.len()
        );
        for (way, o) in [(left, a), (right, b)] {
            println!(
                "{way}: {:.9e} samples, {} preemptions, {} rescales, {} done, rescale cost {:.6e}, \
                 preemption cost {:.6e}",
                o.samples, o.preemptions, o.rescales, o.done, o.rescale_cost, o.preempt_cost
            );
        }
        let mut unlike = Vec::new();
        let steps = a.plans.iter().zip(&b.plans);
        for (event, ((at, ours), (tick, theirs))) in steps.enumerate() {
            assert_eq!(at, tick, "event {event}");
            let pairs = ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b)));
            let differs: Vec<_> = pairs.map(|(a, b)| differs(a, b)).collect();
            if !differs.iter().any(Vec::is_empty) {
                unlike.push((event, *at, differs));
            }
        }
        assert!(
            unlike.is_empty(),
            "{case}: {left} and {right} differ at {} events of {}, the first: {:?}",
            unlike.len(),
            a.plans.len(),
            unlike.first()
        );
        for (what, one, other) in [
            ("samples", a.samples, b.samples),
            ("rescale cost", a.rescale_cost, b.rescale_cost),
            ("preemption cost", a.preempt_cost, b.preempt_cost),
        ] {
            let difference = (one - other).abs() / one.abs().max(f64::MIN_POSITIVE);
            assert!(
                difference <= ROUNDING,
                "{case}: {what}: {left} {one}, {right} {other}"
            );
        }
        assert_eq!((a.clock_stops, b.clock_stops), (0, 0));
        let counts = |o: &Outcome| (o.preemptions, o.rescales, o.done);
        assert_eq!(counts(a), counts(b));
        // The replay ends with its last trainer.
        assert!(a.plans.len() <= b.plans.len());
        assert!(changes > 50 && a.preemptions > 20 && a.rescales > 20);
    }
}

/// Nodes that train different trainers in two plans.
fn differs(a: &Plan, b: &Plan) -> Vec<String> {
    let nodes: BTreeSet<&NodeId> = a.keys().chain(b.keys()).collect();
    let of = |plan: &Plan, node| plan.get(node).map_or("-".to_owned(), ToString::to_string);
    let named = nodes
        .into_iter()
        .map(|node| (node, of(a, node), of(b, node)));
    let different = named.filter(|(_, a, b)| a != b);
    different
        .map(|(node, a, b)| format!("{node} {a}/{b}"))
        .collect()
}

/// A message that the test hears.
enum Heard {
    Trainers(TrainersState),
    Plan(Box<PlanState>),
    Settled(Settled),
    Clock(Clock),
}

impl Heard {
    /// Reads a message of the server; None if it is of another kind.
    fn read(cluster: &ClusterId, message: &async_nats::Message) -> Option<Self> {
        let subject = message.subject.as_str();
        if subject == address::trainers(cluster).to_string() {
            Some(Self::Trainers(read(message)))
        } else if subject == address::plan(cluster).to_string() {
            Some(Self::Plan(Box::new(read(message))))
        } else if subject == address::settled(cluster).to_string() {
            Some(Self::Settled(read(message)))
        } else if subject == address::clock(cluster).to_string() {
            Some(Self::Clock(read(message)))
        } else {
            None
        }
    }
}

/// Plans as control applies them: the trainers' newest state when a step is settled.
#[derive(Default)]
struct Plans {
    now: Timestamp,
    present: Plan,
    settled: Vec<(Timestamp, Vec<Plan>)>,
    /// Whether the newest answer ends a step.
    is_settled: bool,
    /// Whether the trace has ended.
    ended: bool,
    clock_stops: u64,
}

impl Plans {
    fn take(&mut self, heard: Heard) {
        match heard {
            Heard::Trainers(state) => {
                let nodes = state.trainers.iter().flat_map(|record| {
                    let id = &record.spec.id;
                    record.nodes.iter().map(|node| (node.clone(), id.clone()))
                });
                self.present = nodes.collect();
                if self.is_settled
                    && let Some((_, plans)) = self.settled.last_mut()
                {
                    plans.push(self.present.clone());
                }
            }
            Heard::Plan(state) => {
                self.clock_stops += u64::from(state.plan.report.solve.stopped_by_clock);
            }
            Heard::Settled(answer) => {
                self.is_settled = answer.complete;
                // A repeated answer is of a known step.
                if answer.complete && answer.step as usize > self.settled.len() {
                    self.settled.push((self.now, vec![self.present.clone()]));
                }
            }
            Heard::Clock(clock) => {
                self.now = clock.now;
                self.ended |= clock.ended;
            }
        }
    }

    fn outcome(self, totals: &Totals) -> Outcome {
        Outcome {
            plans: self.settled,
            samples: totals.samples,
            rescale_cost: totals.rescale_cost,
            preempt_cost: totals.preempt_cost,
            preemptions: totals.preemptions,
            rescales: totals.rescales,
            done: totals.trainers_done,
            clock_stops: self.clock_stops,
        }
    }
}

/// A message of a known kind.
fn read<M: Message>(message: &async_nats::Message) -> M {
    let headers = message.headers.as_ref().unwrap();
    let pairs = headers
        .iter()
        .filter_map(|(name, values)| Some((name.as_ref(), values.first()?.as_str())));
    let envelope = Envelope::read(pairs).unwrap();
    codec::decode(&envelope, &message.payload).unwrap()
}

/// Trainers that differ in everything that decisions depend on, all submitted at `at`.
fn unlike(at: Timestamp, count: u32) -> Vec<TrainerSpec> {
    let trainer = |number: u32| {
        let scale = f64::from(number % 5 + 1);
        let (min, max) = ([1, 1, 2, 4][number as usize % 4], 8 + 6 * (number % 4));
        // Each further node brings a little less.
        let rate = |n: u32| 40.0 * scale * f64::from(n).powf(0.7 + 0.05 * f64::from(number % 5));
        let points: Vec<(u32, f64)> = (1..=max).map(|n| (n, rate(n))).collect();
        TrainerSpec {
            owner: (number % 4 != 3).then(|| format!("u{}", number % 4)),
            submit: at,
            min_nodes: min,
            max_nodes: max,
            throughput: ScalingCurve::new(points).unwrap(),
            rescale: RescaleCost {
                up_s: 10.0 + 7.0 * scale,
                down_s: 5.0 + 9.0 * scale,
                start_s: (!number.is_multiple_of(3)).then_some(20.0 * scale),
            },
            weight: number.is_multiple_of(2).then_some(2.0),
            deadline: number
                .is_multiple_of(3)
                .then_some(at + Span::from_secs(6 * 3600)),
            work: Work::Samples(rate(4) * 3600.0 * (1.0 + scale)),
            ..lacuna_testkit::spec(&format!("t{number:02}"), max)
        }
    };
    (0..count).map(trainer).collect()
}

/// A day of a generated machine of 400 nodes, with the default policy.
fn generated(objective: &'static str) -> Case {
    machine(400, 24, objective)
}

/// A day of a generated machine, with the default policy.
fn machine(nodes: u32, trainers: u32, objective: &'static str) -> Case {
    let seed = 7;
    println!("seed {seed}");
    let (holes, planned) = generated_trace(nodes, 1, seed).unwrap();
    let start = holes.iter().map(|hole| hole.from).min().unwrap();
    Case {
        start,
        end: start + Span::from_secs(24 * 3600),
        trainers: unlike(start, trainers),
        holes,
        planned,
        policy: default_policy(),
        objective,
        model: None,
        kinds: BTreeMap::new(),
        topology: Topology::default(),
        uplink: None,
        goodput: BTreeMap::new(),
    }
}

/// The default of both.
fn default_policy() -> Policy {
    let both = (Settings::default().policy, Config::default().planner.policy);
    assert_eq!(both, (Policy::Auto, Policy::Auto));
    both.0
}

#[test]
fn services_and_replay_make_the_same_plans() {
    generated("as-given").check();
}

/// The same services as processes, with NATS, in real time.
#[tokio::test(flavor = "multi_thread")]
async fn processes_and_the_loop_in_virtual_time_make_the_same_plans() {
    let case = generated("as-given");
    let served = case.by_processes().await;
    let simulated = tokio::task::block_in_place(|| case.check());
    case.compare("virtual time", &simulated, "processes", &served);
}

/// The loop at the size of a whole machine; the test prints its seconds.
#[test]
fn services_and_replay_make_the_same_plans_for_a_day_of_a_thousand_nodes() {
    machine(1000, 240, "as-given").check();
}

#[test]
fn services_and_replay_make_the_same_plans_by_deadlines() {
    generated("deadline").check();
}

#[test]
fn services_and_replay_make_the_same_plans_by_service_attained() {
    generated("least-attained").check();
}

#[test]
fn services_and_replay_make_the_same_plans_by_fairness_between_owners() {
    generated("fair").check();
}

/// The policy that the default takes while no forecast says which holes end together.
#[test]
fn services_and_replay_make_the_same_plans_without_forecasts() {
    let case = Case {
        policy: Policy::Dp,
        ..generated("as-given")
    };
    case.check();
}

/// The first submission of the recorded trainers.
const SUMMIT: Timestamp = Timestamp::from_unix(1_612_988_475);

#[test]
fn services_and_replay_make_the_same_plans_on_twelve_hours_of_summit() {
    let folder = or_skip!(data("summit-2021-02"));
    let list = lacuna_trace::read_holes(&folder.join("holes.csv.gz")).unwrap();
    let order = lacuna_trace::read_nodes(&folder.join("nodes.txt")).unwrap();
    let first = lacuna_trace::first_nodes(1024, Some(&order), &list.records);
    let mut holes = list.records;
    // Cut to the hours and nodes that are played.
    let end = SUMMIT + Span::from_secs(12 * 3600);
    holes.retain(|hole| first.contains(&hole.node) && hole.until > SUMMIT && hole.from <= end);
    for hole in &mut holes {
        hole.from = hole.from.max(SUMMIT);
    }
    let list = folder.join("hpo-1000.jsonl.gz");
    let list = lacuna_trainer_file::read(&list, lacuna_trainer_file::Purpose::Replay);
    let mut trainers = list.unwrap().trainers;
    for trainer in &mut trainers {
        trainer.submit = SUMMIT;
        trainer.rescale.start_s = Some(trainer.rescale.up_s);
    }
    let case = Case {
        holes,
        planned: Vec::new(),
        start: SUMMIT,
        end,
        trainers,
        policy: default_policy(),
        objective: "as-given",
        model: None,
        kinds: BTreeMap::new(),
        topology: Topology::default(),
        uplink: None,
        goodput: BTreeMap::new(),
    };
    case.check();
}

/// The holes of the spot nodes, their first start and their last end.
fn spot() -> Result<(Vec<HoleRecord>, Timestamp, Timestamp), Missing> {
    let folder = data("machines")?;
    let holes = lacuna_trace::read_holes(&folder.join("p3-spot.csv.gz")).unwrap();
    let holes = holes.records;
    let start = holes.iter().map(|hole| hole.from).min().unwrap();
    let end = holes.iter().map(|hole| hole.until).max().unwrap();
    Ok((holes, start, end))
}

/// Twelve unlike trainers on these holes. Forecasts start with the model, if there is one.
fn on_spot(
    holes: Vec<HoleRecord>,
    (start, end): (Timestamp, Timestamp),
    model: Option<Lesson>,
) -> Case {
    Case {
        trainers: unlike(start, 12),
        holes,
        planned: Vec::new(),
        start,
        end,
        policy: default_policy(),
        objective: "as-given",
        model,
        kinds: BTreeMap::new(),
        topology: Topology::default(),
        uplink: None,
        goodput: BTreeMap::new(),
    }
}

/// A machine of which nothing is known: nothing is learnt before it begins, and few holes end.
#[test]
fn services_and_replay_make_the_same_plans_on_spot_nodes_from_the_first_minute() {
    let (holes, start, end) = or_skip!(spot());
    on_spot(holes, (start, end), None).check();
}

/// The model of the first third of the time serves both for the rest.
#[test]
fn services_and_replay_make_the_same_plans_with_a_learnt_model() {
    let (holes, begins, end) = or_skip!(spot());
    let third = end.since(begins).as_secs_f64() / 3.0;
    let start = begins + Span::from_secs_f64(third.round());
    let past = HoleTrace::with_planned(&holes, &[], None, begins, Some(start));
    let lesson = learn(&past, &Settings::default(), false, &mut |_| {}).unwrap();
    on_spot(holes, (start, end), Some(lesson)).check();
}
