//! `auto` follows the rule that brings most.

use lacuna_model::{
    Followed, Hole, Joint, NodeId, OrderSource, Pool, PooledHole, Rule, Span, Timestamp,
};
use lacuna_planner::{
    Candidate, Decider, Decision, History, Item, PoolForecast, Settings, Situation, Slot, Switches,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{hpo, shufflenet};
use crate::forecast::ends_at;

/// A decision each minute.
const PERIOD_S: i64 = 60;

/// Eight nodes and two trainers whose restart takes two minutes. The last four nodes come and go.
struct Machine {
    decider: Decider,
    now: Timestamp,
    since: Vec<Timestamp>,
    owners: Vec<Option<u32>>,
    rng: ChaCha8Rng,
    /// Whether each moment has two decisions more that are not carried out: before the departures are
    /// known, and after the changes are made.
    asks_again: bool,
    /// The number of the newest decision, and of the newest one that was carried out.
    number: u64,
    carried_out: u64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let now = Timestamp::from_unix_ms(1_000_000_000_000);
        Self {
            decider: Decider::new(Settings::default()),
            now,
            since: vec![now; 8],
            owners: vec![None; 8],
            rng: ChaCha8Rng::seed_from_u64(seed),
            asks_again: false,
            number: 0,
            carried_out: 0,
        }
    }

    /// A minute passes. Each of the last four nodes leaves with this probability and is back at once.
    /// `left_s` is the forecast of the first four and of the last four. Gives what `auto` says.
    fn minute(&mut self, leaves: f64, left_s: [f64; 2]) -> Followed {
        self.now = self.now + Span::from_secs(PERIOD_S);
        let mut hit = [false; 2];
        for node in 4..8 {
            if self.rng.random_bool(leaves) {
                self.since[node] = self.now;
                if let Some(owner) = self.owners[node].take() {
                    hit[owner as usize] = true;
                }
            }
        }
        if self.asks_again {
            let _ = self.decide([false; 2], left_s);
        }
        let decision = self.decide(hit, left_s);
        self.owners = decision.owners;
        self.carried_out = self.number;
        if self.asks_again {
            let _ = self.decide([false; 2], left_s);
        }
        decision.followed.expect("auto compares rules")
    }

    fn decide(&mut self, hit: [bool; 2], left_s: [f64; 2]) -> Decision {
        self.number += 1;
        let value = shufflenet();
        let held = |j| {
            self.owners
                .iter()
                .filter(|owner| **owner == Some(j))
                .count() as u32
        };
        let candidates: Vec<Candidate> = [0, 1]
            .map(|j: u32| Candidate {
                item: Item {
                    down_s: 120.0,
                    ..hpo(&value, held(j))
                },
                starting: value.clone(),
                start_s: 0.0,
                hit: hit[j as usize],
            })
            .to_vec();
        let name = |at: usize| NodeId::new(format!("n{at}")).unwrap();
        let holes = (0..8).map(|at| PooledHole {
            hole: Hole {
                node: name(at),
                since: self.since[at],
            },
            forecast: u32::from(at >= 4),
        });
        let pool = Pool {
            as_of: self.now,
            seq: 0,
            holes: holes.collect(),
            forecasts: left_s.map(ends_at).to_vec(),
            joint: Some(Joint {
                source: OrderSource::Expectation,
                order: (0..8).collect(),
                link: vec![0.0; 7],
                typical_s: None,
                announced: Vec::new(),
            }),
        };
        let slots: Vec<Slot> = self
            .since
            .iter()
            .zip(&self.owners)
            .map(|(since, owner)| Slot {
                since_ms: since.unix_ms(),
                owner: *owner,
            })
            .collect();
        let places: Vec<u32> = (0..8).collect();
        let situation = Situation {
            candidates: &candidates,
            slots: &slots,
            switches: &Switches::default(),
            kinds: &[],
            users: None,
            pool_forecast: Some(PoolForecast {
                pool: &pool,
                holes: &places,
                known: &[],
                complete_s: 0.0,
            }),
            history: Some(History {
                lives: &[7, 8],
                number: self.number,
                carried_out: Some(self.carried_out),
            }),
            doubt: None,
        };
        self.decider.decide(&situation)
    }
}

#[test]
fn auto_leaves_forecasts_that_mislead_and_comes_back_when_they_are_right() {
    for seed in 0..3 {
        let mut machine = Machine::new(seed);
        // Nodes stay for half an hour, and forecasts give them twenty seconds.
        let misled: Vec<Followed> = (0..120)
            .map(|_| machine.minute(1.0 / 30.0, [20.0; 2]))
            .collect();
        assert_eq!(misled[0].rule, Rule::Forecasts);
        let last = &misled[119];
        assert_ne!(last.rule, Rule::Forecasts, "seed {seed}: {last:?}");
        assert!(last.since < machine.now && last.since >= misled[0].since);
        // Now half of the nodes leave within a minute or two, as forecast.
        let mut later = (0..480).map(|_| machine.minute(0.7, [9e3, 40.0]));
        let back = later.find(|followed| followed.rule == Rule::Forecasts);
        assert!(
            back.is_some_and(|back| back.since > last.since),
            "seed {seed}"
        );
    }
}

#[test]
fn of_several_decisions_at_one_moment_only_the_one_that_is_carried_out_counts() {
    let mut once = Machine::new(5);
    let mut again = Machine::new(5);
    again.asks_again = true;
    for minute in 0..240 {
        let (leaves, left_s) = if minute < 120 {
            (0.03, [20.0; 2])
        } else {
            (0.7, [9e3, 40.0])
        };
        assert_eq!(
            once.minute(leaves, left_s),
            again.minute(leaves, left_s),
            "{minute}"
        );
        assert_eq!(once.owners, again.owners, "{minute}");
    }
}
