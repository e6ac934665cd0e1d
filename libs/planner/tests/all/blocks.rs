//! Placement by blocks against brute force, and the invariants of any answer.

use lacuna_planner::placement::blocks::BlockPlacer;
use lacuna_planner::placement::{Member, Request, Scenarios, Settings, value_among};
use lacuna_planner::{Far, Item};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{far, on_leaves, uplinks_hold};

/// A small case that owns what a request borrows.
#[derive(Debug, Clone)]
struct Case {
    trainers: Vec<Item>,
    hit: Vec<bool>,
    start_s: Vec<f64>,
    owners: Vec<Option<u32>>,
    scenarios: Scenarios,
    settings: Settings,
}

impl Case {
    fn request(&self) -> Request<'_> {
        Request {
            trainers: &self.trainers,
            hit: &self.hit,
            start_s: &self.start_s,
            owners: &self.owners,
            scenarios: &self.scenarios,
        }
    }

    fn member(&self, j: usize) -> Member<'_> {
        Member {
            item: &self.trainers[j],
            hit: self.settings.replace && self.hit[j],
            start_s: self.start_s[j],
        }
    }

    fn nodes_of(&self, owners: &[Option<u32>], j: usize) -> Vec<usize> {
        (0..owners.len())
            .filter(|&node| owners[node] == Some(j as u32))
            .collect()
    }

    /// The switching cost of a trainer for its new size, by the definition.
    fn switching_cost(&self, j: usize, nodes: u32, tier: usize) -> f64 {
        let item = &self.trainers[j];
        let member = self.member(j);
        let rate = item.value_on(nodes.min(item.max), tier);
        let more = |rate: f64| item.pilot_s * (rate - item.rate_now).max(0.0);
        if member.hit {
            let waits = nodes > item.current;
            return if waits { more(rate) } else { 0.0 };
        }
        if member.is_flexible() {
            return if nodes > 0 {
                self.start_s[j] * rate
            } else {
                0.0
            };
        }
        let cost = match nodes.cmp(&item.current) {
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => item.up_s,
            std::cmp::Ordering::Less => item.down_s,
        };
        let waits = if nodes > item.current {
            more(item.value_at(nodes))
        } else {
            0.0
        };
        self.settings.hysteresis * (cost * item.rate_now + waits)
    }

    /// The sum of V less all switching costs, by the definition.
    fn judge(&self, owners: &[Option<u32>], shadow_price: f64) -> f64 {
        let owned = owners.iter().copied().enumerate();
        let switches = self.scenarios.switches();
        let crowds = switches.crowds(owned, self.trainers.len());
        (0..self.trainers.len())
            .map(|j| {
                let nodes = self.nodes_of(owners, j);
                let count = nodes.len() as u32;
                let horizon_s = self.settings.horizon_s;
                let tier = self.scenarios.switches().tier(nodes.iter().copied());
                value_among(
                    &self.member(j),
                    &self.scenarios,
                    nodes,
                    horizon_s,
                    shadow_price,
                    crowds[j],
                ) - self.switching_cost(j, count, tier)
            })
            .sum()
    }

    /// Why an answer is not allowed, if it is not.
    fn wrong(&self, owners: &[Option<u32>]) -> Option<String> {
        if owners.len() != self.owners.len() {
            return Some("of another pool".to_owned());
        }
        for (j, item) in self.trainers.iter().enumerate() {
            let nodes = self.nodes_of(owners, j);
            let count = nodes.len() as u32;
            if count > 0 && (count < item.min || count > item.max) {
                return Some(format!("trainer {j} on {count} nodes"));
            }
            if !self.member(j).is_flexible() {
                let before = self.nodes_of(&self.owners, j);
                let grows = before.iter().all(|node| nodes.contains(node));
                let shrinks = nodes.iter().all(|node| before.contains(node));
                if !grows && !shrinks {
                    return Some(format!("trainer {j} migrates from {before:?} to {nodes:?}"));
                }
            }
        }
        if !uplinks_hold(self.scenarios.switches(), &self.owners, owners) {
            return Some("too many cross a leaf".to_owned());
        }
        let known = self.trainers.len() as u32;
        let stranger = owners.iter().flatten().find(|&&j| j >= known);
        stranger.map(|j| format!("there is no trainer {j}"))
    }

    /// The best of all allowed answers.
    fn best(&self, shadow_price: f64) -> f64 {
        let (choices, nodes) = (self.trainers.len() as u64 + 1, self.owners.len() as u32);
        let mut owners = vec![None; nodes as usize];
        let mut best = f64::NEG_INFINITY;
        for mut number in 0..choices.pow(nodes) {
            for owner in &mut owners {
                *owner = (number % choices).checked_sub(1).map(|j| j as u32);
                number /= choices;
            }
            if self.wrong(&owners).is_none() {
                best = best.max(self.judge(&owners, shadow_price));
            }
        }
        best
    }

    /// The best value of one block each for flexible trainers, in the given order of trainers.
    fn best_blocks(&self, order: &[usize], shadow_price: f64) -> f64 {
        fn go(
            case: &Case,
            order: &[usize],
            at: usize,
            owners: &mut [Option<u32>],
            shadow_price: f64,
        ) -> f64 {
            let Some((&j, rest)) = order.split_first() else {
                return case.judge(owners, shadow_price);
            };
            let mut best = go(case, rest, at, owners, shadow_price);
            let item = &case.trainers[j];
            for from in at..owners.len() {
                for n in item.min.max(1)..=item.max {
                    let end = from + n as usize;
                    if end > owners.len() {
                        break;
                    }
                    owners[from..end].fill(Some(j as u32));
                    best = best.max(go(case, rest, end, owners, shadow_price));
                    owners[from..end].fill(None);
                }
            }
            best
        }
        let mut owners = vec![None; self.owners.len()];
        go(self, order, 0, &mut owners, shadow_price)
    }
}

/// Half of the trainers wait for pilots of their owner.
fn waits(up_s: f64) -> f64 {
    (up_s - 100.0).max(0.0)
}

/// A rough curve, which need not be concave, nor even rise.
fn item(rng: &mut ChaCha8Rng, most: u32) -> Item {
    let max = rng.random_range(1..=most);
    let min = rng.random_range(1..=max.min(3));
    let mut value = vec![0.0];
    for n in 1..=max {
        let rough = rng.random_range(0.8..1.2);
        value.push(10.0 * f64::from(n).powf(0.9) * rough);
    }
    let up_s = rng.random_range(0.0..200.0);
    Item {
        current: 0,
        min,
        max,
        value: value.into(),
        rate_now: 0.0,
        up_s,
        pilot_s: waits(up_s),
        far: Far::default(),
        kinds: None,
        down_s: rng.random_range(0.0..150.0),
        lost: lacuna_planner::Lost::default(),
    }
}

/// A case of at most `most_nodes` nodes. Holes leave by scenarios: intervals of neighbours leave
/// together, and front ones tend to leave earlier.
fn case(seed: u64, most_nodes: usize, most_trainers: usize, flexible_only: bool) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let nodes = rng.random_range(1..=most_nodes);
    let count = rng.random_range(1..=most_trainers);
    let mut trainers: Vec<Item> = (0..count)
        .map(|_| item(&mut rng, nodes as u32 + 1))
        .collect();
    let mut owners: Vec<Option<u32>> = vec![None; nodes];
    if !flexible_only {
        for owner in &mut owners {
            let j = rng.random_range(0..=count);
            if j < count && trainers[j].current < trainers[j].max {
                *owner = Some(j as u32);
                trainers[j].current += 1;
            }
        }
    }
    for item in &mut trainers {
        if item.current >= item.min {
            item.rate_now = item.value[item.current as usize];
        }
    }
    let hit = (0..count)
        .map(|_| !flexible_only && rng.random_range(0..3) == 0)
        .collect();
    let start_s = (0..count)
        .map(|_| {
            if rng.random_range(0..2) == 0 {
                0.0
            } else {
                rng.random_range(0.0..60.0)
            }
        })
        .collect();
    let futures = rng.random_range(1..=6);
    let mut leave = Vec::new();
    for _ in 0..futures {
        let mut time = 0.0;
        for node in 0..nodes {
            if node == 0 || rng.random_range(0..3) == 0 {
                time = rng.random_range(0.0..800.0) + 60.0 * node as f64;
            }
            leave.push(time);
        }
    }
    Case {
        scenarios: Scenarios::new(nodes, leave),
        settings: Settings {
            horizon_s: 600.0,
            hysteresis: [1.0, 2.0][rng.random_range(0..2_usize)],
            ..Settings::default()
        },
        trainers,
        hit,
        start_s,
        owners,
    }
}

/// The case with its nodes on leaves, and trainers that lose by distance.
fn apart(mut case: Case, seed: u64) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let leaves: Vec<u32> = case.owners.iter().map(|_| rng.random_range(0..5)).collect();
    let switches = on_leaves(&leaves);
    for j in 0..case.trainers.len() {
        let tier = switches.tier(case.nodes_of(&case.owners, j));
        let item = &mut case.trainers[j];
        item.far = far(&mut rng, item.max);
        *item = item.clone().at_its_rate(tier);
    }
    case.scenarios = case.scenarios.below(switches);
    case
}

/// The same, with few trainers that may cross a leaf.
fn narrow(case: Case, seed: u64) -> Case {
    let mut case = apart(case, seed);
    let switches = case.scenarios.switches().clone();
    let most = Some((seed % 2) as u32);
    case.scenarios = case.scenarios.below(switches.carrying(most));
    case
}

/// The same, with uplinks that one crossing trainer fills.
fn crowded(case: Case, seed: u64) -> Case {
    let mut case = apart(case, seed);
    let switches = case.scenarios.switches().clone();
    case.scenarios = case.scenarios.below(switches.sharing(Some(1)));
    case
}

/// Gaps to an optimum, relative to it.
#[derive(Debug, Default)]
struct Gaps(Vec<f64>);

impl Gaps {
    fn add(&mut self, found: f64, best: f64) {
        assert!(found <= best + 1e-6 * best.abs().max(1.0), "{found} {best}");
        self.0.push((best - found) / best.abs().max(1.0));
    }

    fn figures(&mut self) -> (f64, f64, f64, f64) {
        self.0.sort_by(f64::total_cmp);
        let mean = self.0.iter().sum::<f64>() / self.0.len() as f64;
        let at = |share: f64| self.0[((self.0.len() - 1) as f64 * share) as usize];
        (
            mean,
            at(0.95),
            at(1.0),
            self.0.iter().filter(|&&gap| gap < 1e-9).count() as f64 / self.0.len() as f64,
        )
    }
}

#[test]
fn blocks_of_flexible_trainers_are_the_best_consecutive_ones() {
    let seed = 41;
    println!("seeds {seed}000 and on");
    let mut beyond = Gaps::default();
    for round in 0..400 {
        let case = case(seed * 1000 + round, 7, 3, true);
        let mut placer = BlockPlacer::new(case.settings);
        let answer = placer.decide(&case.request());
        assert_eq!(case.wrong(&answer.owners), None, "round {round}");
        // The order of the trainers is that of their stalls; whichever it is, no order does
        // better by more than the best of all orders, and one of them is reached.
        let count = case.trainers.len();
        let orders: Vec<Vec<usize>> = match count {
            1 => vec![vec![0]],
            2 => vec![vec![0, 1], vec![1, 0]],
            _ => vec![
                vec![0, 1, 2],
                vec![0, 2, 1],
                vec![1, 0, 2],
                vec![1, 2, 0],
                vec![2, 0, 1],
                vec![2, 1, 0],
            ],
        };
        let found = case.judge(&answer.owners, answer.shadow_price);
        assert!(
            (found - answer.value).abs() <= 1e-3 * found.abs().max(1.0),
            "{found} {answer:?}"
        );
        let of: Vec<f64> = orders
            .iter()
            .map(|order| case.best_blocks(order, answer.shadow_price))
            .collect();
        let close = |best: &f64| (best - found).abs() <= 1e-4 * best.abs().max(1.0);
        assert!(
            of.iter().any(close),
            "round {round}: found {found}, by order {of:?}"
        );
        beyond.add(
            found,
            of.iter()
                .copied()
                .fold(f64::NEG_INFINITY, f64::max)
                .max(found),
        );
    }
    let (mean, p95, worst, exact) = beyond.figures();
    println!(
        "gap to the best order of trainers: mean {mean:.5} p95 {p95:.5} worst {worst:.4}, none in {exact:.3}"
    );
    assert!(mean < 0.01, "{mean}");
}

#[test]
fn the_whole_decision_is_near_the_best_of_all() {
    near_the_best_of_all(43, 0.01, |case, _| case);
}

#[test]
fn the_whole_decision_is_near_the_best_of_all_where_distance_matters() {
    near_the_best_of_all(45, 0.02, apart);
}

#[test]
fn the_whole_decision_is_near_the_best_of_all_where_uplinks_are_narrow() {
    // Blocks keep to the limit by a greedy rule.
    near_the_best_of_all(47, 0.06, narrow);
}

#[test]
fn the_whole_decision_is_near_the_best_of_all_where_uplinks_are_shared() {
    near_the_best_of_all(51, 0.03, crowded);
}

fn near_the_best_of_all(seed: u64, most: f64, change: impl Fn(Case, u64) -> Case) {
    println!("seeds {seed}000 and on");
    let (mut gaps, mut kept) = (Gaps::default(), Gaps::default());
    for round in 0..1000 {
        let seed = seed * 1000 + round;
        let case = change(case(seed, 6, 3, false), seed);
        let mut placer = BlockPlacer::new(case.settings);
        let answer = placer.decide(&case.request());
        assert_eq!(case.wrong(&answer.owners), None, "round {round}: {case:?}");
        let found = case.judge(&answer.owners, answer.shadow_price);
        assert!(
            (found - answer.value).abs() <= 1e-3 * found.abs().max(1.0),
            "{found} {answer:?}"
        );
        let best = case.best(answer.shadow_price);
        gaps.add(found, best);
        // Keeping for all: running trainers keep their nodes, if they may.
        if case.wrong(&case.owners).is_none() {
            let keeping = case.judge(&case.owners, answer.shadow_price);
            kept.0.push((keeping - found) / best.abs().max(1.0));
        }
    }
    let (mean, p95, worst, exact) = gaps.figures();
    println!(
        "gap to the best of all: mean {mean:.4} p95 {p95:.4} worst {worst:.4}, none in {exact:.3}"
    );
    let (_, _, worse, _) = kept.figures();
    println!(
        "keeping all is better by at most {worse:.5} in {} cases",
        kept.0.len()
    );
    assert!(mean < most, "{mean}");
    assert!(worse < 1e-6, "{worse}");
    assert!(kept.0.len() > 100, "{}", kept.0.len());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(20_261_123),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_answer_is_ever_forbidden(
        seed in any::<u64>(), nodes in 1_usize..60, trainers in 1_usize..12,
        replace in any::<bool>(), refuse in any::<bool>(), far in any::<bool>(), horizon_s in prop_oneof![Just(0.0), 1.0_f64..1e4],
        scale in prop_oneof![Just(0.0), Just(1.0), Just(1e9)],
    ) {
        let mut case = case(seed, nodes, trainers, false);
        case.settings = Settings { replace, refuse, horizon_s, ..case.settings };
        for item in &mut case.trainers {
            (item.up_s, item.down_s) = (item.up_s * scale, item.down_s * scale);
        }
        if far {
            case = narrow(case, seed);
        }
        let mut placer = BlockPlacer::new(case.settings);
        for _ in 0..2 {
            // What was decided before changes nothing of that.
            let answer = placer.decide(&case.request());
            prop_assert_eq!(case.wrong(&answer.owners), None);
            prop_assert!(answer.value.is_finite() && answer.shadow_price.is_finite());
        }
        let mut fresh = BlockPlacer::new(case.settings);
        prop_assert_eq!(placer.decide(&case.request()), fresh.decide(&case.request()));
    }
}

#[test]
fn empty_requests_have_empty_answers() {
    let whole = case(7, 6, 3, false);
    let mut placer = BlockPlacer::new(Settings::default());
    let none = Scenarios::default();
    let empty = placer.decide(&Request {
        owners: &[],
        scenarios: &none,
        ..whole.request()
    });
    assert!(empty.owners.is_empty() && empty.value.is_finite());
    let no_trainer = placer.decide(&Request {
        trainers: &[],
        hit: &[],
        start_s: &[],
        ..whole.request()
    });
    assert!(no_trainer.owners.iter().all(Option::is_none));
    // No future is known, though there are nodes; and one in which all leave at once.
    for leave in [
        vec![],
        vec![0.0; whole.owners.len()],
        vec![f64::NAN; whole.owners.len()],
    ] {
        let scenarios = Scenarios::new(whole.owners.len(), leave);
        let case = Case {
            scenarios,
            ..whole.clone()
        };
        let answer = placer.decide(&case.request());
        assert_eq!(case.wrong(&answer.owners), None);
        assert!(answer.value.is_finite());
    }
}

#[test]
fn thirty_five_trainers_on_one_node_leave_it_to_one() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let trainers: Vec<Item> = (0..35)
        .map(|_| Item {
            min: 1,
            ..item(&mut rng, 4)
        })
        .collect();
    let case = Case {
        hit: vec![false; 35],
        start_s: vec![0.0; 35],
        owners: vec![None],
        scenarios: Scenarios::new(1, vec![f64::INFINITY; 4]),
        settings: Settings::default(),
        trainers,
    };
    let answer = BlockPlacer::new(case.settings).decide(&case.request());
    let best = case.best(answer.shadow_price);
    assert!(answer.owners[0].is_some());
    assert!(
        (answer.value - best).abs() < 1e-3 * best,
        "{} {best}",
        answer.value
    );
}
