//! Pilots of single trainers, whose owners' jobs they are.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{Span, Timestamp, TrainerId};
use lacuna_pilots::keeper::{
    Cause, Effect, Input, Keeper, Mode, Note, Offer, Refusal, Settings, Ticket,
};
use lacuna_scheduler::job::{End, JobId, JobStage, Listed};
use rand::RngExt;

use crate::world::{Trouble, World, name, settings};

fn of_trainers() -> Settings {
    Settings {
        of_trainers: true,
        ..settings()
    }
}

fn trainer(name: &str) -> TrainerId {
    TrainerId::new(name).unwrap()
}

/// A keeper with its own clock. Nodes 1 to 3 are idle.
struct Case {
    keeper: Keeper,
    s: i64,
    effects: Vec<Effect>,
}

impl Case {
    fn new() -> Self {
        let mut case = Self {
            keeper: Keeper::new(of_trainers(), Mode::On, Timestamp::from_unix(1000)),
            s: 1000,
            effects: Vec::new(),
        };
        for _ in 0..2 {
            case.s += 1;
            case.list(&[]);
        }
        case
    }

    fn tell(&mut self, input: Input) {
        let now = Timestamp::from_unix(self.s);
        self.effects.extend(self.keeper.step(input, now));
    }

    /// These trainers have these nodes; those of `live` are not over.
    fn give(&mut self, given: &[(usize, &str)], live: &[&str]) {
        let given = given.iter().map(|(n, id)| (name(*n), trainer(id)));
        let nodes: BTreeMap<_, _> = given.collect();
        let trainers: BTreeSet<_> = live.iter().map(|id| trainer(id)).collect();
        self.tell(Input::Given {
            nodes,
            trainers,
            renewed: BTreeSet::new(),
        });
    }

    fn list(&mut self, jobs: &[(&str, usize, JobStage)]) {
        let listed = |&(job, node, stage): &(&str, usize, JobStage)| Listed {
            job: JobId::new(job).unwrap(),
            submitted: job.to_owned(),
            user: "ann".to_owned(),
            name: "lacuna-pilot".to_owned(),
            mark: "lacuna:c".to_owned(),
            node: Some(name(node)),
            stage,
        };
        let (asked, jobs) = (
            Timestamp::from_unix(self.s),
            jobs.iter().map(listed).collect(),
        );
        self.tell(Input::Listing { asked, jobs });
    }

    fn agent(&mut self, node: usize, serves: &str, free: bool, leaving: bool) {
        self.tell(Input::Agent {
            node: name(node),
            leaving,
            free,
            serves: Some(trainer(serves)),
        });
    }

    fn wait(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.s += 1;
            let offers = (1..=3).map(|n| Offer {
                node: name(n),
                limit: Span::from_secs(600),
            });
            self.tell(Input::Pool(offers.collect()));
            self.tell(Input::Timer);
        }
    }

    /// Submissions since this was last asked: node and trainer.
    fn submitted(&mut self) -> Vec<(Ticket, String)> {
        let mut found = Vec::new();
        for effect in &self.effects {
            if let Effect::Submit {
                ticket,
                node,
                trainer,
                ..
            } = effect
            {
                found.push((*ticket, format!("{node} {}", trainer.as_ref().unwrap())));
            }
        }
        self.effects.retain(|e| !matches!(e, Effect::Submit { .. }));
        found
    }

    /// One submission is accepted as this job.
    fn accept(&mut self, job: &str, expected: &str) {
        let made = self.submitted();
        assert_eq!(made.len(), 1, "{made:?}");
        assert_eq!(made[0].1, expected);
        let outcome = Ok(JobId::new(job).unwrap());
        self.tell(Input::Submitted {
            ticket: made[0].0,
            outcome,
        });
    }

    fn cancelling(&mut self) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        for effect in std::mem::take(&mut self.effects) {
            if let Effect::Note(Note::Cancelling { job, cause, .. }) = effect {
                found.push((job.to_string(), cause));
            }
        }
        found
    }
}

#[test]
fn a_node_gets_a_pilot_of_the_trainer_that_has_it_and_only_then() {
    let mut case = Case::new();
    case.wait(5);
    assert_eq!(case.submitted(), [], "no trainer has a node");
    case.give(&[(2, "a")], &["a", "b"]);
    case.wait(1);
    case.accept("7", "n02 a");
    // Of a trainer that is over nothing is submitted.
    case.give(&[(2, "a"), (3, "c")], &["a", "b"]);
    case.wait(1);
    assert_eq!(case.submitted(), []);
}

#[test]
fn a_pilot_of_another_trainer_goes_before_the_next_comes_and_without_a_rest() {
    let mut case = Case::new();
    case.give(&[(2, "a")], &["a", "b"]);
    case.wait(1);
    case.accept("7", "n02 a");
    case.wait(1);
    case.list(&[("7", 2, JobStage::Running)]);
    case.agent(2, "a", false, false);
    // The plan gives the node to b, whose pilot waits until a's program has gone.
    case.give(&[(2, "b")], &["a", "b"]);
    case.wait(2);
    assert_eq!(case.cancelling(), []);
    case.agent(2, "a", true, false);
    case.wait(1);
    assert_eq!(case.cancelling(), [("7".to_owned(), "other trainer")]);
    case.agent(2, "a", true, true);
    case.wait(1);
    assert_eq!(case.submitted(), [], "the pilot has its node still");
    case.list(&[("7", 2, JobStage::Ended(End::Cancelled))]);
    case.wait(1);
    case.accept("8", "n02 b");
    // Late words of the one before are not those of the new pilot.
    case.agent(2, "a", true, true);
    case.list(&[("8", 2, JobStage::Running)]);
    case.agent(2, "b", false, false);
    case.wait(30);
    assert_eq!(case.cancelling(), []);
    assert_eq!(case.keeper.counts(Timestamp::from_unix(case.s)).running, 1);
}

#[test]
fn an_adopted_pilot_is_its_agents_trainers() {
    let mut case = Case::new();
    case.give(&[(2, "b")], &["a", "b"]);
    case.list(&[("7", 2, JobStage::Running)]);
    case.wait(2);
    assert_eq!((case.submitted(), case.cancelling()), (vec![], vec![]));
    case.agent(2, "a", true, false);
    case.wait(1);
    assert_eq!(case.cancelling(), [("7".to_owned(), "other trainer")]);
}

#[test]
fn an_unused_pilot_goes_after_a_while_and_one_of_a_trainer_that_is_over_at_once() {
    let mut case = Case::new();
    case.give(&[(2, "a")], &["a"]);
    case.wait(1);
    case.accept("7", "n02 a");
    case.list(&[("7", 2, JobStage::Running)]);
    case.agent(2, "a", true, false);
    let speak = |case: &mut Case, seconds: i64| {
        for _ in 0..seconds / 10 {
            case.wait(10);
            case.agent(2, "a", true, false);
        }
    };
    speak(&mut case, 700);
    assert_eq!(case.cancelling(), [], "its trainer has the node");
    case.give(&[], &["a"]);
    speak(&mut case, 590);
    assert_eq!(case.cancelling(), []);
    speak(&mut case, 20);
    assert_eq!(case.cancelling(), [("7".to_owned(), "idle")]);
    let mut case = Case::new();
    case.give(&[(2, "a")], &["a"]);
    case.wait(1);
    case.accept("7", "n02 a");
    case.list(&[("7", 2, JobStage::Running)]);
    case.agent(2, "a", true, false);
    case.give(&[], &[]);
    case.wait(1);
    assert_eq!(case.cancelling(), [("7".to_owned(), "over")]);
}

#[test]
fn what_one_owner_may_not_have_holds_back_their_trainer_alone() {
    let mut case = Case::new();
    case.give(&[(1, "a")], &["a", "b"]);
    case.wait(1);
    let refuse = |case: &mut Case| {
        let made = case.submitted();
        assert_eq!(made.len(), 1, "{made:?}");
        let refusal = Refusal {
            cause: Cause::Owner,
            text: "permission denied: the ticket is stale".to_owned(),
        };
        case.tell(Input::Submitted {
            ticket: made[0].0,
            outcome: Err(refusal),
        });
        let refused = case.effects.iter().find_map(|effect| match effect {
            Effect::Note(Note::Refused {
                trainer, again_in, ..
            }) => Some((trainer.clone(), *again_in)),
            _ => None,
        });
        case.effects.clear();
        refused.unwrap()
    };
    assert_eq!(refuse(&mut case), (Some(trainer("a")), Span::from_secs(10)));
    case.give(&[(1, "a"), (2, "b")], &["a", "b"]);
    case.wait(1);
    case.accept("8", "n02 b");
    case.wait(8);
    assert_eq!(case.submitted(), []);
    case.wait(2);
    assert_eq!(refuse(&mut case), (Some(trainer("a")), Span::from_secs(20)));
    // The node is not to blame: another trainer gets a pilot there.
    case.give(&[(1, "b")], &["a", "b"]);
    case.wait(1);
    case.accept("9", "n01 b");
}

#[test]
fn after_any_disturbance_each_node_has_the_pilot_of_its_trainer() {
    let ids = ["a", "b", "c"].map(trainer);
    let mut changed = 0;
    for seed in 0..30 {
        println!("seed {seed}");
        let mut world = World::new(seed, 3 + (seed as usize % 5), of_trainers());
        world.settings.pace.backoff_max = Span::from_secs(60);
        world.settings.pace.quarantine = Span::from_secs(120);
        world.settings.pace.idle_after = Span::from_secs(60);
        world.trainers = BTreeSet::from(ids.clone());
        let nodes = world.busy.len();
        world.restart();
        world.trouble = Trouble(8);
        for _ in 0..6000 {
            let node = world.rng.random_range(0..nodes);
            match world.rng.random_range(0..300) {
                0..2 => world.take(node),
                2..4 => world.busy[node] = false,
                4..8 => {
                    let id = world.rng.random_range(0..4);
                    match ids.get(id).filter(|id| world.trainers.contains(id)) {
                        Some(id) => world.given.insert(name(node), id.clone()),
                        None => world.given.remove(&name(node)),
                    };
                    changed += 1;
                    world.give();
                }
                8 if world.rng.random_range(0..10) == 0 => {
                    let gone = ids[world.rng.random_range(0..3)].clone();
                    world.given.retain(|_, id| *id != gone);
                    world.trainers.remove(&gone);
                    world.give();
                    world.trainers.insert(gone);
                }
                9 if world.rng.random_range(0..10) == 0 => world.restart(),
                _ => {}
            }
            world.pass();
        }
        world.trouble = Trouble(0);
        world.busy = vec![false; nodes];
        for n in 0..nodes {
            world.given.insert(name(n), ids[n % 3].clone());
        }
        world.give();
        for _ in 0..6000 {
            world.pass();
        }
        let live = world.jobs.iter().filter(|(_, job)| job.stage.lives());
        let mut of: Vec<_> = live
            .map(|(id, job)| (job.node, &world.serves[id]))
            .collect();
        of.sort();
        let expected: Vec<_> = (0..nodes).map(|n| (n, &ids[n % 3])).collect();
        assert_eq!(of, expected, "seed {seed}: {:?}", world.jobs);
    }
    assert!(changed > 1000, "{changed} changes only");
}
