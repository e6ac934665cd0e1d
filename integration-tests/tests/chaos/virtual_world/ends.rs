//! Short trainings to their ends, with faults at that moment. A training whose end control has heard
//! of is never begun again.
//!
//! Programs are played: members of an incarnation train once all of them have met, and the state lives
//! in them alone. An incarnation in which no member has it begins from the beginning. At the end each
//! says that it is done, has code of its own, ends its interpreter and exits with 0, in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use lacuna_agent_service::{LauncherEvent, Order, Played, StandIn};
use lacuna_model::{Assignment, Elastic, Ending, Phase, TrainerSpec, Work};
use lacuna_runtime::Stopwatch;
use lacuna_wire::msg::{Reply, Request};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::cluster::{Cluster, trainer};
use super::super::history::Observation;
use super::{Fault, Outcome, World};

/// Seconds of training, and the most between a member's `done` and its exit.
const WORK_S: f64 = 4.0;
const LATE_S: f64 = 9.0;
/// Seconds after which a member that waits for others calls its group broken.
const LONELY_S: f64 = 10.0;
const BEAT: Duration = Duration::from_millis(100);

/// Within these seconds control has heard of an exit, if nothing fails and no node is taken then.
const HEARD_S: f64 = 2.0;
/// A command that was on its way when a program exited arrives within these seconds.
const ON_ITS_WAY_S: f64 = 0.05;
/// Seconds in which all trainers are over after the last fault.
const OVER_S: f64 = 300.0;

/// Trainers, nodes, and faults at the end of one of them.
const TRAINERS: usize = 9;
const NODES: usize = 16;
const FAULTS_EACH: usize = 5;

/// Faults of control and of the network, shorter than the silence after which nodes are lost.
const FAULTS: [Fault; 8] = [
    Fault::Kill,
    Fault::Pause,
    Fault::Cut,
    Fault::Lost,
    Fault::Twice,
    Fault::KillServer,
    Fault::Stall,
    Fault::Crash,
];

/// A program: its node, and the incarnation under which it was started.
type Member = (String, u64);

/// The newest incarnation that a member has begun.
#[derive(Debug, Default)]
struct Group {
    run: u64,
    /// Members that have met in it.
    members: BTreeSet<Member>,
    /// Whether all have.
    is_whole: bool,
}

/// What the programs of one trainer share.
#[derive(Debug, Default)]
struct Training {
    group: Group,
    /// Programs that have the state.
    holders: BTreeSet<Member>,
    trained_s: f64,
    /// When it was begun from the beginning, and when a member exited with 0.
    begun: Vec<f64>,
    exits: Vec<(f64, String)>,
}

/// The programs of all trainers.
#[derive(Debug)]
pub(super) struct Programs {
    clock: Stopwatch,
    dice: Mutex<ChaCha8Rng>,
    trainings: Mutex<BTreeMap<String, Training>>,
}

/// What a member does next.
enum Step {
    Trains,
    Waits,
    Ends,
}

/// A program that lives, and may have the state.
struct Alive<'a> {
    programs: &'a Programs,
    trainer: String,
    member: Member,
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        let member = &self.member;
        self.programs.with(&self.trainer, |training| {
            training.holders.remove(member);
            training.group.members.remove(member);
        });
    }
}

impl Programs {
    fn new(seed: u64) -> Self {
        Self {
            clock: Stopwatch::start(),
            dice: Mutex::new(ChaCha8Rng::seed_from_u64(seed)),
            trainings: Mutex::default(),
        }
    }

    fn with<T>(&self, trainer: &str, change: impl FnOnce(&mut Training) -> T) -> T {
        let mut trainings = self.trainings.lock().unwrap();
        change(trainings.entry(trainer.to_owned()).or_default())
    }

    /// A beat of a member of this incarnation.
    fn step(&self, alive: &Alive<'_>, of: &Assignment) -> Step {
        let now = self.clock.seconds();
        self.with(&alive.trainer, |training| {
            let group = &mut training.group;
            if of.run.0 > group.run {
                *group = Group {
                    run: of.run.0,
                    ..Group::default()
                };
            } else if of.run.0 < group.run {
                return Step::Waits;
            }
            group.members.insert(alive.member.clone());
            if !group.is_whole {
                if group.members.len() < of.nodes as usize {
                    return Step::Waits;
                }
                group.is_whole = true;
                if group.members.is_disjoint(&training.holders) {
                    training.begun.push(now);
                    training.trained_s = 0.0;
                }
                training.holders.extend(group.members.iter().cloned());
            }
            if of.rank == 0 {
                training.trained_s += BEAT.as_secs_f64();
            }
            if training.trained_s >= WORK_S {
                Step::Ends
            } else {
                Step::Trains
            }
        })
    }

    async fn live(&self, mut on: Played) -> i32 {
        let (node, run) = (on.node.clone(), on.assignment.run);
        let alive = Alive {
            programs: self,
            trainer: on.assignment.trainer.to_string(),
            member: (node.to_string(), run.0),
        };
        let mut of = on.member.then(|| on.assignment.clone());
        if of.is_none() {
            tokio::time::sleep(BEAT).await;
            let _ = on.events.send(LauncherEvent::Ready { node, run });
        }
        let mut beat = tokio::time::interval(BEAT);
        let mut alone = 0;
        loop {
            tokio::select! {
                biased;
                order = on.orders.recv() => match order {
                    Some(Order::Run(next)) => (of, alone) = (Some(*next), 0),
                    Some(Order::Leave(_)) | None => return 75,
                },
                _ = beat.tick() => if let Some(of) = &of {
                    match self.step(&alive, of) {
                        Step::Trains => {}
                        Step::Waits => {
                            alone += 1;
                            if f64::from(alone) * BEAT.as_secs_f64() >= LONELY_S {
                                alone = 0;
                                let (node, of, broken) = (on.node.clone(), of.run, true);
                                let _ = on.events.send(LauncherEvent::Group { node, run, of, broken });
                            }
                        }
                        Step::Ends => break,
                    }
                },
            }
        }
        for ending in [Ending::Done, Ending::Exiting] {
            let (node, ending) = (on.node.clone(), Some(ending));
            let _ = on.events.send(LauncherEvent::Ends { node, run, ending });
            let late = self.dice.lock().unwrap().random_range(0.0..LATE_S / 2.0);
            if !stays(&mut on, late).await {
                return 75;
            }
        }
        let exit = (self.clock.seconds(), on.node.to_string());
        self.with(&alive.trainer, |training| training.exits.push(exit));
        0
    }

    /// Whether a training has reached its end, and how long ago a member first exited.
    fn ends(&self, now: f64) -> Option<(String, Vec<String>)> {
        let trainings = self.trainings.lock().unwrap();
        let mut ending = trainings.iter().filter(|(_, t)| {
            let last = t.begun.last().copied().unwrap_or_default();
            let exits = t.exits.iter().filter(|(at, _)| *at > last);
            let first = exits.map(|(at, _)| *at).next();
            let is_heard = first.is_none_or(|at| now > at + HEARD_S + 0.1);
            t.trained_s >= WORK_S && !t.holders.is_empty() && is_heard
        });
        let (id, training) = ending.next()?;
        let nodes = training.holders.iter().map(|(node, _)| node.clone());
        Some((id.clone(), nodes.collect()))
    }
}

/// Lets a program go on by itself. Returns whether it was not asked to leave.
async fn stays(on: &mut Played, seconds: f64) -> bool {
    let end = tokio::time::sleep(Duration::from_secs_f64(seconds));
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            order = on.orders.recv() => match order {
                Some(Order::Run(_)) => {}
                Some(Order::Leave(_)) | None => return false,
            },
            () = &mut end => return true,
        }
    }
}

impl StandIn for Programs {
    fn play(self: Arc<Self>, program: Played) -> BoxFuture<'static, i32> {
        async move { self.live(program).await }.boxed()
    }
}

/// A short training of 1, 2 or 3 nodes at least, without a checkpoint, under each launcher in turn.
fn short(n: usize) -> TrainerSpec {
    let torchrun = Elastic::Torchrun {
        workers_per_node: 1,
    };
    let launchers = [Elastic::REGROUP, torchrun, Elastic::Restart];
    TrainerSpec {
        min_nodes: 1 + n as u32 % 3,
        max_nodes: 4,
        work: Work::UntilExit,
        launch: lacuna_testkit::launch(launchers[n / 3 % 3]),
        ..trainer(n)
    }
}

/// Runs one world to its end.
pub(super) async fn live(seed: u64, dir: std::path::PathBuf) -> Outcome {
    let programs = Arc::new(Programs::new(seed));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::start(NODES, seed, dir, Some(programs.clone())).await;
    let mut wrong = Vec::new();
    let (mut faults, mut windows) = (Vec::new(), Vec::new());
    let submit = Request::Submit {
        trainers: (0..TRAINERS).map(short).collect(),
        tickets: BTreeMap::new(),
        test_only: false,
    };
    while !matches!(
        world.view().ask(&submit).await,
        Some(Reply::Accepted { .. } | Reply::Refused { .. })
    ) {
        world.wait(0.2).await;
    }
    for _ in 0..FAULTS_EACH {
        let since = Stopwatch::start();
        let found = loop {
            world.wait(0.1).await;
            let found = programs.ends(programs.clock.seconds());
            if found.is_some() || since.seconds() > 30.0 {
                break found;
            }
        };
        let Some((_, members)) = found else { break };
        // Perhaps a batch job takes members in the same moment.
        let taken = rng.random_range(0..=members.len());
        for node in members.iter().take(taken) {
            world.workload.take(node).await;
        }
        let fault = FAULTS[rng.random_range(0..FAULTS.len())];
        let began = programs.clock.seconds();
        faults.push(world.inject_shortly(fault, &mut rng).await);
        windows.push((began, programs.clock.seconds()));
        let quiet = rng.random_range(1.0..6.0);
        world.wait(HEARD_S + quiet).await;
    }
    world.workload.pause(true).await;
    let over = Stopwatch::start();
    let left = loop {
        let reply = world.view().ask(&Request::Trainers { all: true }).await;
        let left: Vec<String> = match reply {
            Some(Reply::Trainers { trainers, .. }) => trainers
                .iter()
                .filter(|record| record.phase != Phase::Done)
                .map(|record| {
                    format!(
                        "{} is {:?}: {}",
                        record.spec.id, record.phase, record.reason
                    )
                })
                .collect(),
            other => vec![format!("control answers {other:?}")],
        };
        if left.is_empty() || over.seconds() > OVER_S {
            break left;
        }
        world.workload.give_back().await;
        world.wait(1.0).await;
    };
    wrong.extend(left);
    let history = world.recorder.writer.history();
    wrong.extend(repeated(&programs, &windows, &history));
    for process in &world.processes {
        process.host.kill();
    }
    Outcome {
        wrong,
        faults,
        seen: history.len(),
        digest: super::digest(&history),
        lasted_s: programs.clock.seconds(),
    }
}

/// Trainings that were begun although control had heard of their end.
fn repeated(
    programs: &Programs,
    windows: &[(f64, f64)],
    history: &[(f64, Observation)],
) -> Vec<String> {
    let around = |at: f64, exit: f64| (exit - HEARD_S..exit + HEARD_S).contains(&at);
    let taken = |node: &str, exit: f64| {
        history.iter().any(|(at, said)| match said {
            Observation::Busy(of) | Observation::Wanted(of, _) => of == node && around(*at, exit),
            _ => false,
        })
    };
    let faulty = |exit: f64| {
        let hit = |&(from, to): &(f64, f64)| exit + HEARD_S > from && exit - HEARD_S < to;
        windows.iter().any(hit)
    };
    let trainings = programs.trainings.lock().unwrap();
    let mut found = Vec::new();
    for (id, training) in trainings.iter() {
        let mut heard = training.exits.iter();
        let first = heard.find(|(at, node)| !faulty(*at) && !taken(node, *at));
        let Some((exit, node)) = first else { continue };
        let known = exit + ON_ITS_WAY_S;
        if let Some(again) = training.begun.iter().find(|begun| **begun > known) {
            found.push(format!(
                "{id} was ended by {node} at {exit:.1} s, and begun again at {again:.1} s"
            ));
        }
    }
    found
}

impl World {
    /// Injects a fault that no agent's program dies of.
    async fn inject_shortly(&mut self, fault: Fault, rng: &mut ChaCha8Rng) -> String {
        if matches!(fault, Fault::Stall | Fault::Crash) {
            return self.inject_aimed(fault, rng).await;
        }
        let lasts = rng.random_range(0.5..4.0);
        let agents = matches!(
            fault,
            Fault::Pause | Fault::Cut | Fault::Lost | Fault::Twice
        );
        let processes = self.processes.iter().enumerate();
        let fits = processes.filter(|(_, process)| match process.service {
            "agent" => agents,
            service => service == "control",
        });
        let fits: Vec<usize> = fits.map(|(at, _)| at).collect();
        let at = fits[rng.random_range(0..fits.len())];
        self.inject_at(fault, at, lasts, rng).await
    }
}
