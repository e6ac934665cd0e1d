//! Shares of nodes over owners: an owner's share does not depend on the requests of others.

use lacuna_model::{NodeChoice, Plan, Policy, ScalingCurve};
use lacuna_planner::fair::{Claim, max_min, share};
use lacuna_planner::{
    Candidate, Decider, Decision, Far, Item, Settings, Situation, Slot, Switches, Users, explain,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::forecast::{plan_with, points, settings, with_forecasts};
use crate::language::{Case, case};

/// A trainer that works as fast on n nodes as `worth` times n, and that changes free.
fn item(current: u32, min: u32, max: u32, worth: f64) -> Item {
    Item {
        current,
        min,
        max,
        value: (0..=max).map(|n| worth * f64::from(n)).collect(),
        rate_now: 0.0,
        up_s: 0.0,
        pilot_s: 0.0,
        far: Far::default(),
        kinds: None,
        down_s: 0.0,
        lost: lacuna_planner::Lost::default(),
    }
}

fn claims(nodes: u32, owners: &[&[Item]]) -> Vec<Claim> {
    let claim = |items: &&[Item]| Claim::new(nodes, 1.0, items.iter(), 0);
    owners.iter().map(claim).collect()
}

#[test]
fn owners_with_unequal_needs_are_filled_like_vessels() {
    let [small, large, larger] = [item(0, 1, 2, 1.0), item(0, 1, 9, 1.0), item(0, 1, 20, 1.0)];
    let three = claims(12, &[&[small], &[large], &[larger]]);
    assert_eq!(share(12, &three), [2, 5, 5]);
    // Enough for all.
    let two = claims(12, &[&[item(0, 1, 2, 1.0)], &[item(0, 1, 9, 1.0)]]);
    assert_eq!(share(12, &two), [2, 9]);
}

#[test]
fn a_remainder_stays_with_its_holder() {
    for (held, given) in [([0, 0], [3, 2]), ([2, 3], [2, 3]), ([3, 2], [3, 2])] {
        let [a, b] = held.map(|held| [item(held, 1, 9, 1.0)]);
        assert_eq!(share(5, &claims(5, &[&a, &b])), given, "{held:?}");
    }
}

#[test]
fn larger_parts_have_more() {
    let items = [item(0, 1, 20, 1.0)];
    let parts = |parts: [f64; 2]| {
        let claims = parts.map(|part| Claim::new(12, part, items.iter(), 0));
        share(12, &claims)
    };
    assert_eq!(parts([1.0, 3.0]), [3, 9]);
    assert_eq!(parts([20.0, 60.0]), [3, 9]);
    assert_eq!(parts([f64::NAN, -3.0]), [6, 6]);
}

#[test]
fn a_large_minimum_makes_no_larger_share() {
    let (greedy, honest) = ([item(0, 11, 12, 1.0)], [item(0, 1, 12, 1.0)]);
    assert_eq!(share(12, &claims(12, &[&greedy, &honest])), [0, 12]);
    // It fits into its share, or into what others leave.
    assert_eq!(share(24, &claims(24, &[&greedy, &honest])), [12, 12]);
    let little = [item(0, 1, 1, 1.0)];
    assert_eq!(share(12, &claims(12, &[&greedy, &little])), [11, 1]);
}

/// The node counts up to `nodes` that these trainers can use together, by trying all sizes.
fn usable(nodes: u32, items: &[Item]) -> Vec<u32> {
    let mut sums = vec![0];
    for item in items {
        let sizes = (0..=item.max).filter(|&n| item.is_size(n));
        let sizes: Vec<u32> = sizes.collect();
        let more = sums
            .iter()
            .flat_map(|sum| sizes.iter().map(move |n| sum + n));
        sums = more.filter(|&n| n <= nodes).collect();
        sums.sort_unstable();
        sums.dedup();
    }
    sums
}

#[test]
fn no_owner_is_below_a_usable_share_and_no_usable_node_is_left() {
    let seed = 23;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..2_000 {
        let nodes = rng.random_range(0..30);
        let owners: Vec<Vec<Item>> = (0..rng.random_range(2..5))
            .map(|_| {
                let trainers = rng.random_range(1..4);
                let one = |_| {
                    let min = rng.random_range(1..6);
                    item(
                        rng.random_range(0..4),
                        min,
                        min + rng.random_range(0..8),
                        1.0,
                    )
                };
                (0..trainers).map(one).collect()
            })
            .collect();
        let list: Vec<&[Item]> = owners.iter().map(Vec::as_slice).collect();
        let claims = claims(nodes, &list);
        let (fair, given) = (max_min(nodes, &claims), share(nodes, &claims));
        let left = nodes - given.iter().sum::<u32>();
        for (u, items) in owners.iter().enumerate() {
            let sizes = usable(nodes, items);
            let fitting = sizes
                .iter()
                .copied()
                .filter(|&n| n <= fair[u])
                .max()
                .unwrap();
            assert!(sizes.contains(&given[u]), "{given:?} {owners:?}");
            assert!(given[u] >= fitting, "{given:?} {fair:?} {owners:?}");
            let next = sizes.iter().copied().find(|&n| n > given[u]);
            assert!(
                next.is_none_or(|next| next - given[u] > left),
                "{given:?} {owners:?}"
            );
            // An owner with less cannot use the nodes beyond the level of another.
            let most = *sizes.last().unwrap();
            let higher = fair.iter().any(|&other| other > fair[u] + 1);
            assert!(!higher || fair[u] == most, "{fair:?} {owners:?}");
        }
    }
}

/// Two owners with a trainer each that could use all of twelve nodes, which `grabs` holds; it says
/// that it is worth a million times as much.
fn greedy() -> Case {
    let mut case = case()
        .hole(12, "30m")
        .trainer("grabs")
        .nodes(1..=12)
        .trainer("honest")
        .nodes(1..=12);
    let million = (1..=12).map(|n| (n, 1e6 * f64::from(n)));
    case.trainers[0].spec.objective = Some(ScalingCurve::new(million).unwrap());
    case.trainers[0].spec.weight = Some(1e6);
    case.trainers[0].spec.owner = Some("mallory".to_owned());
    case.trainers[1].spec.owner = Some("ann".to_owned());
    let holes = case
        .pool
        .holes
        .iter()
        .map(|pooled| pooled.hole.node.clone());
    case.trainers[0].nodes = holes.collect();
    case
}

fn size(plan: &Plan, name: &str) -> u32 {
    let mut verdicts = plan.report.trainers.iter();
    verdicts.find(|v| v.trainer.as_str() == name).unwrap().after
}

#[test]
fn a_greedy_owner_gets_no_more_than_its_share_whatever_the_policy() {
    let forecasts = vec![points(&[(600.0, 0.6), (1800.0, 0.1)]); 12];
    for policy in Policy::ALL {
        for joint in [None, Some(0.5)] {
            let case = with_forecasts(greedy(), &forecasts, joint);
            let by = Settings {
                policy,
                ..settings(true)
            };
            let plan = plan_with(&case, &by, false);
            let sizes = (size(&plan, "grabs"), size(&plan, "honest"));
            assert_eq!(
                sizes,
                (6, 6),
                "{policy:?} {joint:?}: {}",
                explain::plan(&plan)
            );
            let why = explain::trainer(&plan, &case.trainers[1].spec.id).unwrap();
            assert!(
                why.contains("its owner ann has 6 nodes, and a fair share of 6"),
                "{why}"
            );
        }
    }
}

#[test]
fn plans_for_several_owners_are_sound_and_come_out_the_same_again() {
    let seed = 31;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut shared, mut cut) = (0, 0);
    for round in 0..300 {
        let mut case = crate::forecast::messy(&mut rng);
        for trainer in &mut case.trainers {
            let owner = ["", "ann", "bob"][rng.random_range(0..3)];
            trainer.spec.owner = (!owner.is_empty()).then(|| owner.to_owned());
        }
        if rng.random_bool(0.2) {
            // Who holds such a hole keeps what it has.
            case.pool.forecasts[0] = points(&[]);
        }
        let policies = [Policy::Forecast, Policy::Dp, Policy::EqualShare];
        let by = Settings {
            policy: policies[round % 3],
            ..settings(rng.random_bool(0.5))
        };
        let plan = plan_with(&case, &by, false);
        assert_eq!(plan, plan_with(&case, &by, false));
        for verdict in &plan.report.trainers {
            shared += u32::from(verdict.share.is_some());
            cut += u32::from(verdict.share.is_some() && verdict.after < verdict.before);
        }
    }
    println!("{shared} in shares, {cut} of them shrink");
    assert!(shared > 300 && cut > 50, "{shared}, {cut}");
}

#[test]
fn trainers_without_an_owner_have_one_in_common() {
    let mut case = case().hole(8, "1h");
    for name in ["a", "b", "c"] {
        case = case.trainer(name).nodes(1..=8);
    }
    case.trainers[2].spec.owner = Some("ann".to_owned());
    let plan = plan_with(&case, &Settings::default(), false);
    assert_eq!(size(&plan, "c"), 4);
    assert_eq!(size(&plan, "a") + size(&plan, "b"), 4);
}

/// A decision over idle slots, the first of which candidates hold.
fn decide(policy: Policy, items: &[Item], nodes: u32, of: Option<Vec<u32>>) -> Decision {
    let candidates: Vec<Candidate> = items
        .iter()
        .map(|item| Candidate {
            starting: item.value.clone(),
            item: item.clone().at_its_rate(0),
            start_s: 0.0,
            hit: false,
        })
        .collect();
    let held = items
        .iter()
        .zip(0..)
        .flat_map(|(item, j)| vec![Some(j); item.current as usize]);
    let owners: Vec<Option<u32>> = held
        .chain(std::iter::repeat(None))
        .take(nodes as usize)
        .collect();
    let slots: Vec<Slot> = owners
        .into_iter()
        .map(|owner| Slot { since_ms: 0, owner })
        .collect();
    let users = of.map(|of| Users {
        of,
        parts: Vec::new(),
    });
    let situation = Situation {
        candidates: &candidates,
        slots: &slots,
        switches: &Switches::default(),
        kinds: &[],
        users: users.as_ref(),
        pool_forecast: None,
        history: None,
        doubt: None,
    };
    let settings = Settings {
        policy,
        node_choice: NodeChoice::Together,
        ..Settings::default()
    };
    let decision = Decider::new(settings).decide(&situation);
    assert_eq!(
        lacuna_planner::check::check_decision(&situation, &decision),
        []
    );
    decision
}

#[test]
fn one_owner_is_decided_as_without_owners_and_names_do_not_matter() {
    let seed = 29;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for round in 0..300 {
        let mut left = rng.random_range(4..24);
        let nodes = left + rng.random_range(0..6);
        let count = rng.random_range(2..6);
        let items: Vec<Item> = (0..count)
            .map(|_| {
                let (min, worth) = (rng.random_range(1..4), rng.random_range(0.1..5.0));
                let max = min + rng.random_range(0..9);
                let current = rng.random_range(min..=max);
                let current = if current <= left { current } else { 0 };
                left -= current;
                Item {
                    up_s: 9.0,
                    down_s: 5.0,
                    ..item(current, min, max, worth)
                }
            })
            .collect();
        let policy = [Policy::Dp, Policy::EqualShare, Policy::Milp][round % 3];
        let plain = decide(policy, &items, nodes, None);
        let one = decide(policy, &items, nodes, Some(vec![7; count]));
        assert_eq!(one.owners, plain.owners);
        assert_eq!((one.sizes, one.solve), (plain.sizes, plain.solve));
        let of: Vec<u32> = (0..count as u32).map(|j| j % 2).collect();
        let other = of.iter().map(|u| 9 - u).collect();
        let (some, same) = (
            decide(policy, &items, nodes, Some(of)),
            decide(policy, &items, nodes, Some(other)),
        );
        assert_eq!(some.owners, same.owners);
        assert_eq!(some.shares, same.shares);
    }
}
