//! Placement by columns: against the definition of value, brute force and placement by blocks; its
//! floor, its limits, its outcomes.

use std::cell::Cell;
use std::time::Duration;

use lacuna_model::Outcome;
use lacuna_planner::check::value;
use lacuna_planner::instance::Size;
use lacuna_planner::placement::blocks::BlockPlacer;
use lacuna_planner::placement::columns::{
    Answer, Column, Error, Instance, Options, Pricing, Shape, Situation, Source, decide, instance,
    solve,
};
use lacuna_planner::placement::{Assignment, Member, Request, Scenarios, Settings, value_among};
use lacuna_planner::{Far, Item};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{far, on_leaves, uplinks_hold};

/// A clock that never advances, so that limits on time have no effect.
const STILL: &dyn Fn() -> f64 = &|| 0.0;

const SETTINGS: Settings = Settings {
    horizon_s: 200.0,
    hysteresis: 2.0,
    replace: true,
    refuse: true,
    crossing: None,
    uplink: None,
    limited: false,
};

type Owners = Vec<Option<u32>>;

/// Bounded by work, however slow the machine is: the solver's own clock does not stand still.
fn by_work() -> Options<'static> {
    Options {
        time_limit: Duration::from_secs(300),
        ..Options::new(STILL)
    }
}

fn exact() -> Options<'static> {
    Options {
        gap: 0.0,
        ..by_work()
    }
}

/// The places of a trainer.
fn set(owners: &[Option<u32>], j: u32) -> Vec<usize> {
    let places = owners.iter().enumerate();
    let own = places.filter(|(_, owner)| **owner == Some(j));
    own.map(|(place, _)| place).collect()
}

/// The value of a plan by the definition of the model; nothing if the plan is not allowed.
fn judged(request: &Request<'_>, shadow_price: f64, plan: &[Option<u32>]) -> Option<f64> {
    let mut sum = 0.0;
    let owned = plan.iter().copied().enumerate();
    let crowds = request
        .scenarios
        .switches()
        .crowds(owned, request.trainers.len());
    for (j, item) in (0_u32..).zip(request.trainers) {
        let hit = request.hit.get(j as usize).copied().unwrap_or(false);
        let start_s = request.start_s.get(j as usize).copied().unwrap_or(0.0);
        let member = Member { item, hit, start_s };
        let (old, new) = (set(request.owners, j), set(plan, j));
        let n = new.len() as u32;
        if !item.is_size(n) {
            return None;
        }
        let within = |a: &[usize], b: &[usize]| a.iter().all(|place| b.contains(place));
        let charge = if hit {
            let tier = request.scenarios.switches().tier(new.iter().copied());
            let more = item.value_on(n, tier) - item.rate_now;
            let waits = f64::from(u8::from(n > item.current));
            item.pilot_s * more.max(0.0) * waits
        } else if item.current < item.min {
            let tier = request.scenarios.switches().tier(new.iter().copied());
            start_s * item.value_on(n, tier)
        } else {
            if !within(&old, &new) && !within(&new, &old) {
                return None;
            }
            2.0 * item.change_cost(n)
        };
        let places = new.iter().copied();
        let crowd = crowds[j as usize];
        let worth = value_among(
            &member,
            request.scenarios,
            places,
            200.0,
            shadow_price,
            crowd,
        );
        sum += worth - charge;
    }
    uplinks_hold(request.scenarios.switches(), request.owners, plan).then_some(sum)
}

/// A small pool with few scenarios and trainers, some hit, some without nodes.
fn small(seed: u64) -> Instance {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let nodes = rng.random_range(1..8);
    let trainers = rng.random_range(1..4_u32);
    let mut owners: Owners = (0..nodes)
        .map(|_| rng.random_bool(0.5).then(|| rng.random_range(0..trainers)))
        .collect();
    let moments = [10.0, 50.0, 50.0, 120.0, 400.0, f64::INFINITY];
    let leave = (0..nodes * rng.random_range(1..4))
        .map(|_| moments[rng.random_range(0..moments.len())])
        .collect();
    let mut items = Vec::new();
    for j in 0..trainers {
        let mut value = vec![0.0];
        for _ in 0..rng.random_range(3..9) {
            // Neither concave nor convex, and of no use at some sizes.
            let more = rng.random_range(0.0..10.0) * f64::from(u8::from(rng.random_bool(0.8)));
            value.push(value[value.len() - 1] + more);
        }
        let max = value.len() as u32 - 1;
        for &place in set(&owners, j).iter().skip(max as usize) {
            owners[place] = None;
        }
        let current = set(&owners, j).len() as u32;
        items.push(Item {
            current,
            min: rng.random_range(1..3).min(max),
            max,
            rate_now: value[current as usize],
            value: value.into(),
            up_s: rng.random_range(0.0..20.0),
            pilot_s: if seed.is_multiple_of(2) { 15.0 } else { 0.0 },
            far: Far::default(),
            kinds: None,
            down_s: rng.random_range(0.0..30.0),
            lost: lacuna_planner::Lost::default(),
        });
    }
    Instance {
        hit: (0..trainers).map(|_| rng.random_bool(0.3)).collect(),
        trainers: items,
        scenarios: Scenarios::new(nodes, leave),
        owners,
    }
}

/// The same with its nodes on leaves, and trainers that lose by distance. The nodes lie leaf by leaf,
/// the leaf whose nodes stay shortest first, since intervals are those of this line.
fn small_apart(seed: u64) -> Instance {
    let mut instance = small(seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let leaves: Vec<u32> = instance
        .owners
        .iter()
        .map(|_| rng.random_range(0..3))
        .collect();
    let stay = |leaf: u32| {
        let on = (0..leaves.len()).filter(|&place| leaves[place] == leaf);
        let stays: Vec<f64> = on
            .map(|place| instance.scenarios.stay_s(place, 200.0))
            .collect();
        stays.iter().sum::<f64>() / stays.len() as f64
    };
    let mut line: Vec<u32> = (0..leaves.len() as u32).collect();
    let leaf = |place: &u32| leaves[*place as usize];
    line.sort_by(|a, b| {
        let (a, b) = (leaf(a), leaf(b));
        stay(a).total_cmp(&stay(b)).then(a.cmp(&b))
    });
    instance.owners = line
        .iter()
        .map(|&place| instance.owners[place as usize])
        .collect();
    let on: Vec<u32> = line.iter().map(leaf).collect();
    let switches = on_leaves(&on);
    instance.scenarios = instance.scenarios.only(&line);
    for (j, item) in (0..).zip(&mut instance.trainers) {
        item.far = far(&mut rng, item.max);
        let tier = switches.tier(set(&instance.owners, j));
        *item = item.clone().at_its_rate(tier);
    }
    instance.scenarios = instance.scenarios.below(switches);
    instance
}

/// The same, with one trainer or none that may cross a leaf.
fn small_and_narrow(seed: u64) -> Instance {
    let mut instance = small_apart(seed);
    let switches = instance.scenarios.switches().clone();
    let most = Some((seed % 2) as u32);
    instance.scenarios = instance.scenarios.below(switches.carrying(most));
    instance
}

/// The same, with uplinks that one crossing trainer fills.
fn small_and_shared(seed: u64) -> Instance {
    let mut instance = small_apart(seed);
    let switches = instance.scenarios.switches().clone();
    instance.scenarios = instance.scenarios.below(switches.sharing(Some(1)));
    instance
}

/// Every plan that gives each node to a trainer or leaves it idle.
pub(crate) fn every_plan(nodes: usize, trainers: u32) -> impl Iterator<Item = Owners> {
    let choices = u64::from(trainers) + 1;
    (0..choices.pow(nodes as u32)).map(move |mut code| {
        (0..nodes)
            .map(|_| {
                let owner = (code % choices) as u32;
                code /= choices;
                owner.checked_sub(1)
            })
            .collect()
    })
}

/// Whether a plan consists of patterns: each trainer takes an interval of free nodes, or gives back
/// nodes from the front that no other trainer takes.
fn is_of_patterns(request: &Request<'_>, plan: &[Option<u32>]) -> bool {
    let is_flexible = |j: u32| {
        let item = &request.trainers[j as usize];
        request.hit[j as usize] || item.current < item.min
    };
    let free: Vec<usize> = (0..plan.len())
        .filter(|&place| request.owners[place].is_none_or(is_flexible))
        .collect();
    (0_u32..).zip(request.trainers).all(|(j, _)| {
        let old = if is_flexible(j) {
            Vec::new()
        } else {
            set(request.owners, j)
        };
        let new = set(plan, j);
        let taken: Vec<usize> = new.iter().copied().filter(|p| !old.contains(p)).collect();
        let at: Option<Vec<usize>> = taken.iter().map(|p| free.binary_search(p).ok()).collect();
        let run = at.is_some_and(|at| at.windows(2).all(|pair| pair[1] == pair[0] + 1));
        run && (taken.len() + old.len() == new.len() || old.ends_with(&new))
    }) && {
        // Flexible trainers take uplinks as new ones do.
        let pinned = request
            .owners
            .iter()
            .map(|owner| owner.filter(|&j| !is_flexible(j)));
        let pinned: Owners = pinned.collect();
        uplinks_hold(request.scenarios.switches(), &pinned, plan)
    }
}

fn assert_sound(request: &Request<'_>, shadow_price: f64, owners: &[Option<u32>], answer: &Answer) {
    let right = judged(request, shadow_price, owners).expect("an allowed plan");
    let close = 1e-9 * right.abs().max(1.0);
    assert!(
        (right - answer.objective).abs() <= close,
        "{right} {answer:?}"
    );
}

#[test]
fn small_pools_agree_with_trying_everything() {
    agree_with_trying_everything(small);
}

#[test]
fn small_pools_on_several_leaves_agree_with_trying_everything() {
    agree_with_trying_everything(small_apart);
}

#[test]
fn small_pools_with_narrow_uplinks_agree_with_trying_everything() {
    agree_with_trying_everything(small_and_narrow);
}

#[test]
fn small_pools_with_shared_uplinks_lie_below_the_bound() {
    // The program charges nothing for uplinks, so it may miss an answer in which fewer cross.
    let missed = misses_of_trying_everything(small_and_shared);
    assert!(missed > 0, "no uplink was shared");
}

/// The program does not know that limit, which lowers values alone.
#[test]
fn the_bound_holds_where_nodes_are_worth_no_more_than_their_trainer_makes_of_them() {
    let settings = Settings {
        limited: true,
        ..SETTINGS
    };
    let mut lowered = 0;
    for seed in 0..150 {
        let instance = small_apart(seed);
        let request = instance.request();
        let shadow_price = 2.0 * BlockPlacer::new(settings).decide(&request).shadow_price;
        let worth =
            |settings, plan: &[Option<u32>]| value(&request, settings, |_| shadow_price, plan);
        let plans = every_plan(instance.owners.len(), instance.trainers.len() as u32);
        let allowed = |plan: &Owners| {
            judged(&request, shadow_price, plan).is_some() && is_of_patterns(&request, plan)
        };
        let values = plans.filter(allowed).map(|plan| {
            let limited = worth(&settings, &plan);
            lowered += usize::from(limited < worth(&SETTINGS, &plan) - 1e-9);
            limited
        });
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        let (_, answer) = decide(&request, &settings, shadow_price, &exact());
        let close = 1e-6 * most.abs().max(1.0);
        assert!(
            answer.bound >= most - close,
            "seed {seed}: {most} {answer:?}"
        );
    }
    assert!(lowered > 100, "{lowered}");
}

fn agree_with_trying_everything(instance: impl Fn(u64) -> Instance) {
    let missed = misses_of_trying_everything(instance);
    assert!(missed <= 5, "{missed}");
}

/// How often of 150 the answer misses the best of patterns.
fn misses_of_trying_everything(instance: impl Fn(u64) -> Instance) -> usize {
    let (mut missed, mut beyond, mut dp_missed) = (0, 0, 0);
    for seed in 0..150 {
        let instance = instance(seed);
        let request = instance.request();
        let dp = BlockPlacer::new(SETTINGS).decide(&request);
        let shadow_price = dp.shadow_price;
        let (mut most, mut right) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for plan in every_plan(instance.owners.len(), instance.trainers.len() as u32) {
            let Some(value) = judged(&request, shadow_price, &plan) else {
                continue;
            };
            most = most.max(value);
            if value > right && is_of_patterns(&request, &plan) {
                right = value;
            }
        }
        let (plan, answer) = decide(&request, &SETTINGS, shadow_price, &exact());
        assert_sound(&request, shadow_price, &plan.owners, &answer);
        let close = 1e-6 * right.abs().max(1.0);
        let seen = format!("seed {seed}: {right}, {most} of all plans: {plan:?} {answer:?}");
        assert!(
            answer.objective <= most + close,
            "above the optimum, {seen}"
        );
        assert!(answer.bound >= right - close, "no bound, {seen}");
        // Columns come from the relaxation, so the program over them may miss the optimum;
        // then it says so.
        let gap = (right - answer.objective) / answer.objective.abs().max(1e-9);
        assert!(gap <= answer.gap() + 1e-9, "{seen}");
        missed += usize::from(gap > 1e-6);
        beyond += usize::from(answer.objective < most - close);
        dp_missed += usize::from(dp.value < right - close);
    }
    println!(
        "of 150: patterns miss the best of patterns in {missed}, the best plan at all in {beyond}; \
         the dynamic program the best of patterns in {dp_missed}"
    );
    missed
}

fn shape(trainers: u32, nodes: u32, situation: Situation) -> Shape {
    Shape {
        size: Size::of(trainers, nodes),
        classes: 12,
        scenarios: 8,
        situation,
    }
}

const SITUATIONS: [Situation; 3] = [Situation::Event, Situation::Storm, Situation::Start];

#[test]
fn larger_pools_come_near_the_bound_and_the_same_twice() {
    let mut gaps = Vec::new();
    let mut better = 0;
    for (seed, situation) in (0..8).flat_map(|seed| SITUATIONS.map(|s| (seed, s))) {
        let instance = instance(shape(10, 300, situation), seed).unwrap();
        let request = instance.request();
        let dp = BlockPlacer::new(SETTINGS).decide(&request);
        let run = || decide(&request, &SETTINGS, dp.shadow_price, &by_work());
        let (plan, answer) = run();
        assert_sound(&request, dp.shadow_price, &plan.owners, &answer);
        assert!(answer.converged, "seed {seed}");
        let again = run();
        assert_eq!(again, (plan, answer.clone()), "seed {seed}: the same twice");
        gaps.push(answer.gap());
        better += usize::from(answer.objective > dp.value * (1.0 + 1e-6));
    }
    gaps.sort_by(f64::total_cmp);
    println!("gaps {gaps:.5?}, better than the dynamic program in {better} of 24");
    assert!(gaps[12] <= 2e-3 && gaps[23] <= 0.1, "{gaps:?}");
}

#[test]
fn where_nothing_may_be_refused_no_node_idles_beside_a_trainer_with_room() {
    let settings = Settings {
        refuse: false,
        ..SETTINGS
    };
    let mut refused = 0;
    for (seed, situation) in (0..4).flat_map(|seed| SITUATIONS.map(|s| (seed, s))) {
        let mut instance = instance(shape(4, 120, situation), seed).unwrap();
        for item in &mut instance.trainers {
            // A hit costs so much that most holes do not pay.
            item.down_s *= 40.0;
        }
        let request = instance.request();
        let shadow_price = BlockPlacer::highest_price(&instance.trainers);
        let idle = |settings: &Settings| {
            let (plan, _) = decide(&request, settings, shadow_price, &by_work());
            let room = |&j: &u32| {
                let item = &request.trainers[j as usize];
                let nodes = set(&plan.owners, j).len() as u32;
                let bound = !request.hit[j as usize] && item.current >= item.min;
                nodes > 0 && nodes < item.max && (!bound || nodes >= item.current)
            };
            let any = (0..request.trainers.len() as u32).any(|j| room(&j));
            let free = plan.owners.iter().filter(|owner| owner.is_none()).count();
            if any { free } else { 0 }
        };
        refused += idle(&SETTINGS);
        assert_eq!(idle(&settings), 0, "seed {seed}, {situation:?}");
    }
    assert!(refused > 0, "no hole was worth refusing");
}

#[test]
fn out_of_time_is_feasible_and_says_so() {
    let mut stops = 0;
    for seed in 0..4 {
        let instance = instance(shape(10, 300, Situation::Start), seed).unwrap();
        let request = instance.request();
        let shadow_price = BlockPlacer::highest_price(&instance.trainers);
        // A clock that advances by a millisecond a look, with time for a number of looks.
        for limit in [0, 1, 5, 20, 80, 1_000, 100_000] {
            let ticks = Cell::new(0.0);
            let stopwatch = || {
                ticks.set(ticks.get() + 1e-3);
                ticks.get()
            };
            let options = Options {
                gap: 0.0,
                time_limit: Duration::from_millis(limit),
                ..Options::new(&stopwatch)
            };
            let (plan, answer) = decide(&request, &SETTINGS, shadow_price, &options);
            assert_sound(&request, shadow_price, &plan.owners, &answer);
            match answer.outcome {
                Outcome::Feasible { gap } => assert!(gap > 0.0 && gap == answer.gap()),
                Outcome::Optimal => assert!(answer.gap() == 0.0),
                other => panic!("seed {seed}, {limit} ms: {other:?}"),
            }
            stops += usize::from(answer.stopped_by_clock);
            if limit == 0 {
                assert!(answer.stopped_by_clock);
                assert_eq!((answer.source, answer.rounds), (Source::Keep, 0));
            }
        }
    }
    // Those without any time always are, those with plenty never.
    assert!((8..=24).contains(&stops), "{stops} of 28 were stopped");
}

#[test]
fn a_solve_ends_by_its_work_with_what_it_has() {
    for (seed, situation) in (0..2).flat_map(|seed| SITUATIONS.map(|s| (seed, s))) {
        let instance = instance(shape(10, 300, situation), seed).unwrap();
        let request = instance.request();
        let dp = BlockPlacer::new(SETTINGS).decide(&request);
        let run = |options: &Options<'_>| decide(&request, &SETTINGS, dp.shadow_price, options);
        let (_, whole) = run(&by_work());
        for less in [
            Options {
                iterations: 1,
                ..by_work()
            },
            Options {
                rounds: 1,
                ..by_work()
            },
            Options {
                max_columns: 1,
                ..by_work()
            },
            Options {
                tree_nodes: 1,
                ..by_work()
            },
        ] {
            let (plan, answer) = run(&less);
            assert_sound(&request, dp.shadow_price, &plan.owners, &answer);
            let most = less.rounds.min(whole.rounds);
            assert!(
                answer.rounds <= most && !answer.stopped_by_clock,
                "{less:?}"
            );
            // As text: a relaxation without a value is no number, and that equals nothing.
            let text = |run: (Assignment, Answer)| format!("{run:?}");
            assert_eq!(text(run(&less)), text((plan, answer)), "twice: {less:?}");
        }
        // The relaxation never came to an end, so there was nothing to round.
        let (_, none) = run(&Options {
            iterations: 1,
            ..by_work()
        });
        assert!(none.relaxation.is_nan() && !none.converged, "{none:?}");
    }
}

/// A pricing with one fault.
struct Wrong(fn(&mut Column));

impl Pricing for Wrong {
    fn trainers(&self) -> usize {
        1
    }

    fn keep(&mut self, _: usize) -> Column {
        Column {
            trainer: 0,
            take: Vec::new(),
            value: 1.0,
            tag: 0,
        }
    }

    fn price(&mut self, _: usize, _: &[f64], out: &mut Vec<Column>) {
        let mut column = Column {
            trainer: 0,
            take: vec![(0, 1)],
            value: 2.0,
            tag: 1,
        };
        (self.0)(&mut column);
        out.push(column);
    }
}

#[test]
fn unsound_columns_are_refused() {
    let run = |change| solve(&mut Wrong(change), &[3, 3], &Options::new(STILL));
    let right = run(|_| ()).unwrap();
    assert_eq!(right.objective, 2.0);
    assert_eq!(right.outcome, Outcome::Optimal);
    let nan = run(|c| c.value = f64::NAN);
    assert!(
        matches!(nan, Err(Error::Value { trainer: 0, .. })),
        "{nan:?}"
    );
    let far = run(|c| c.take = vec![(2, 1)]);
    assert_eq!(far, Err(Error::Classes { trainer: 0 }));
    let twice = run(|c| c.take = vec![(1, 1), (1, 1)]);
    assert_eq!(twice, Err(Error::Classes { trainer: 0 }));
    let other = run(|c| c.trainer = 7);
    assert_eq!(
        other,
        Err(Error::Trainer {
            trainer: 0,
            found: 7
        })
    );
}

#[test]
fn empty_requests_have_empty_answers() {
    let nothing = Scenarios::new(0, Vec::new());
    for owners in [Vec::new(), vec![None, Some(3)]] {
        let request = Request {
            trainers: &[],
            hit: &[],
            start_s: &[],
            owners: &owners,
            scenarios: &nothing,
        };
        let (plan, answer) = decide(&request, &SETTINGS, 1.0, &Options::new(STILL));
        assert_eq!(plan.owners, vec![None; owners.len()]);
        assert_eq!((answer.objective, answer.outcome), (0.0, Outcome::Optimal));
    }
}
