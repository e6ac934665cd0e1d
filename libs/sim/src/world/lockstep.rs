//! A replay and a living cluster see the same holes alike: the same events through the replay's
//! seer, and through predictor, pool and planner.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lacuna_forecast::{Certainty, Hazard, HazardSettings, Hint, Hinted, OrderBy, Predictor};
use lacuna_model::{Hole, NodeId, OrderSource, Timestamp};
use lacuna_planner::foresight::Line;
use lacuna_planner::joint::Scenarios;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::seer::Seer;
use crate::{EndHint, Forecasting, Lookahead, Recording, SimError, StepRef, Steps};

const NODES: u32 = 60;
const SEED: u64 = 5;

/// Nodes of these names, and nothing that happens: steps are told by hand.
struct Names;

impl Recording for Names {
    fn start(&self) -> Timestamp {
        Timestamp::from_unix(0)
    }

    fn end(&self) -> Timestamp {
        Timestamp::from_unix(1_000_000)
    }

    fn nodes(&self) -> u32 {
        NODES
    }

    fn node_name(&self, node: u32) -> Cow<'_, str> {
        Cow::Owned(format!("n{node:02}"))
    }

    fn steps(&self) -> Result<Box<dyn Steps + '_>, SimError> {
        Err(SimError::NoTrainers)
    }
}

struct Told {
    at_s: i64,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
    hints: Vec<EndHint>,
}

/// A machine that takes nodes from the front of the order of their names, or any, and says of
/// some when it wants them, which is true of half.
fn machine(from_the_front: bool, steps: u32) -> Vec<Told> {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut idle: Vec<u32> = (0..NODES).collect();
    let mut busy: Vec<u32> = Vec::new();
    let mut at_s = 0;
    let mut log = vec![Told {
        at_s,
        closed: Vec::new(),
        opened: idle.iter().map(|&node| (node, 0)).collect(),
        hints: Vec::new(),
    }];
    let mut wanted: Vec<u32> = Vec::new();
    for step in 0..steps {
        at_s += rng.random_range(20..100);
        if step % 7 == 3 {
            // Only words: a plan for some of them, and what was said before is withdrawn.
            let mut hints: BTreeMap<u32, f64> =
                wanted.iter().map(|&node| (node, f64::INFINITY)).collect();
            idle.shuffle(&mut rng);
            wanted = idle.iter().copied().take(4).collect();
            let moment = at_s + rng.random_range(30..2000);
            hints.extend(wanted.iter().map(|&node| (node, moment as f64)));
            hints.retain(|node, _| idle.contains(node));
            let hints = hints.into_iter();
            log.push(Told {
                at_s,
                closed: Vec::new(),
                opened: Vec::new(),
                hints: hints.map(|(node, at_s)| EndHint { node, at_s }).collect(),
            });
            continue;
        }
        idle.sort_unstable();
        if !from_the_front {
            idle.shuffle(&mut rng);
        }
        if rng.random_range(0..2) == 0 {
            idle.sort_by_key(|node| !wanted.contains(node));
        }
        let takes = rng.random_range(1..=8).min(idle.len());
        let closed: Vec<u32> = idle.drain(..takes).collect();
        wanted.retain(|node| !closed.contains(node));
        busy.shuffle(&mut rng);
        let gives = rng.random_range(0..=9).min(busy.len());
        let opened: Vec<u32> = busy.drain(..gives).collect();
        idle.extend(&opened);
        busy.extend(&closed);
        log.push(Told {
            at_s,
            closed,
            opened: opened.into_iter().map(|node| (node, at_s * 1000)).collect(),
            hints: Vec::new(),
        });
    }
    log
}

fn node(number: u32) -> NodeId {
    NodeId::new(Names.node_name(number)).unwrap()
}

/// What a living cluster knows: its pool and its predictor.
struct Living {
    predictor: Hinted,
    holes: BTreeMap<u32, Timestamp>,
    said: BTreeMap<u32, f64>,
}

impl Living {
    fn hole(&self, number: u32) -> Hole {
        Hole {
            node: node(number),
            since: self.holes[&number],
        }
    }

    fn step(&mut self, told: &Told) {
        let at = Timestamp::from_unix(told.at_s);
        for &number in &told.closed {
            let hole = self.hole(number);
            self.predictor.closed(&hole, at);
            self.holes.remove(&number);
            self.said.remove(&number);
        }
        for &(number, since_ms) in &told.opened {
            self.holes.insert(number, Timestamp::from_unix_ms(since_ms));
            let hole = self.hole(number);
            self.predictor.opened(&hole, at);
        }
        for hint in &told.hints {
            self.said.insert(hint.node, hint.at_s);
        }
        self.said.retain(|_, at_s| at_s.is_finite());
        let hints: Vec<Hint> = self
            .said
            .iter()
            .map(|(&number, &at_s)| Hint {
                node: node(number),
                at: Timestamp::from_unix(at_s as i64),
                certainty: Certainty::Soft,
            })
            .collect();
        self.predictor.hint(at, &hints);
    }

    /// The names in the order in which they are expected to leave, and scenarios.
    fn look(&mut self, at_s: i64, horizon_s: f64, seed: u64) -> (Line, Vec<NodeId>, Scenarios) {
        let now = Timestamp::from_unix(at_s);
        let holes: Vec<Hole> = self.holes.keys().map(|&number| self.hole(number)).collect();
        let forecasts = self.predictor.forecast(now, &holes);
        let pool = forecasts.into_pool(now, 1, holes);
        let line = Line::new(&pool, |_| true, horizon_s).unwrap();
        let names = line.holes.iter();
        let names = names.map(|&hole| pool.holes[hole as usize].hole.node.clone());
        let scenarios = line.draw(&pool, 32, seed);
        (line.clone(), names.collect(), scenarios)
    }
}

#[test]
fn a_replay_and_a_living_cluster_see_the_same_holes_alike() {
    println!("seed {SEED}");
    for (from_the_front, order, at_the_end) in [
        (true, OrderBy::Learnt, OrderSource::Scheduler),
        (true, OrderBy::None, OrderSource::Expectation),
        (false, OrderBy::Learnt, OrderSource::Expectation),
    ] {
        let settings = Forecasting {
            order: order.clone(),
            ..Forecasting::default()
        };
        let names = Names;
        let mut seer = Seer::new(&names, &settings, Lookahead::Seconds(0.0), SEED).unwrap();
        let hazard = Hazard::new(HazardSettings {
            order,
            seed: SEED,
            ..HazardSettings::default()
        });
        let mut living = Living {
            predictor: Hinted::new(Box::new(hazard)),
            holes: BTreeMap::new(),
            said: BTreeMap::new(),
        };
        let mut sources = Vec::new();
        let (mut looks, mut announced, mut front) = (0, 0, 0);
        for (number, told) in machine(from_the_front, 1500).iter().enumerate() {
            seer.step(&StepRef {
                at_s: told.at_s as f64,
                closed: &told.closed,
                opened: &told.opened,
                hints: &told.hints,
            });
            living.step(told);
            if number % 5 > 0 || living.holes.is_empty() {
                continue;
            }
            looks += 1;
            let horizon_s = [300.0, 1800.0][looks as usize % 2];
            let scenarios = seer.look(told.at_s as f64, &[], horizon_s);
            let (line, lined, drawn) = living.look(told.at_s, horizon_s, SEED ^ looks);
            let order: Vec<NodeId> = seer.order.iter().map(|&number| node(number)).collect();
            assert_eq!(order, lined, "step {number}");
            assert_eq!(scenarios, drawn, "step {number}");
            let promised = &line.lineup.promised;
            announced += promised.iter().filter(|p| p.at_s.is_finite()).count();
            front += usize::from(promised.first().is_some_and(|p| p.at_s.is_finite()));
            sources.push(line.source);
        }
        assert_eq!(sources.first(), Some(&OrderSource::Expectation), "young");
        assert_eq!(sources.last(), Some(&at_the_end));
        assert!(announced > 100 && front > 20, "{announced} {front}");
    }
}
