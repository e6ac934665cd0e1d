//! Decisions where distance costs trainers something, and where it does not.

use lacuna_model::{NodeChoice, Policy};
use lacuna_planner::placement::{Member, Scenarios, set_value};
use lacuna_planner::{Candidate, Decider, Far, Item, Settings, Situation, Slot, Switches};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::on_leaves;

/// A trainer with linear rates that holds `current` nodes at `tier`.
pub(crate) fn candidate(max: u32, current: u32, tier: usize, far: Far) -> Candidate {
    let value: Vec<f64> = (0..=max).map(|n| 10.0 * f64::from(n)).collect();
    let item = Item {
        current,
        min: 1,
        max,
        value: value.into(),
        rate_now: 0.0,
        up_s: 5.0,
        pilot_s: 0.0,
        down_s: 5.0,
        lost: lacuna_planner::Lost::default(),
        far,
        kinds: None,
    };
    Candidate {
        starting: item.value.clone(),
        item: item.at_its_rate(tier),
        start_s: 0.0,
        hit: false,
    }
}

/// All tiers from 1 on leave `share` of the rate.
pub(crate) fn share(max: u32, share: f64) -> Far {
    Far::new([(0..=max).map(|n| if n < 2 { 1.0 } else { share }).collect()])
}

fn decide(
    candidates: &[Candidate],
    owners: &[Option<u32>],
    switches: &Switches,
    policy: Policy,
) -> Vec<Option<u32>> {
    let slots: Vec<Slot> = owners
        .iter()
        .map(|&owner| Slot { since_ms: 0, owner })
        .collect();
    let situation = Situation {
        candidates,
        slots: &slots,
        switches,
        kinds: &[],
        users: None,
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
    let broken = lacuna_planner::check::check_decision(&situation, &decision);
    assert_eq!(broken, []);
    decision.owners
}

const SIZES: [Policy; 3] = [Policy::Dp, Policy::Milp, Policy::EqualShare];

#[test]
fn a_node_set_is_worth_its_rate_at_its_tier_until_its_first_departure() {
    // Ten units a second on each node, of which half is left over two leaves. The nodes leave after
    // 100, 60 and 30 s, the last is of another kind, and a hit costs 5 s.
    let trainer = candidate(2, 0, 0, share(2, 0.5));
    let member = Member {
        item: &trainer.item,
        hit: false,
        start_s: 0.0,
    };
    let leave = Scenarios::new(3, vec![100.0, 60.0, 30.0]);
    let leave = leave
        .below(on_leaves(&[0, 0, 1]))
        .of_kinds(vec![0, 0, 1], Vec::new());
    let value = |nodes: [usize; 2]| set_value(&member, &leave, nodes, 100.0, 0.0);
    assert_eq!(value([0, 1]), 20.0 * (60.0 - 5.0));
    assert_eq!(value([0, 2]), 10.0 * (30.0 - 5.0));
}

#[test]
fn sizes_take_near_nodes_and_no_more_than_pay() {
    for policy in [Policy::Dp, Policy::Milp] {
        // Three nodes on leaf 0, two on leaf 1, one on leaf 2.
        let switches = on_leaves(&[0, 1, 0, 2, 1, 0]);
        let far = || share(6, 0.3);
        let alone = [candidate(6, 0, 0, far())];
        let owners = decide(&alone, &[None; 6], &switches, policy);
        assert_eq!(
            owners,
            [0, 1, 0, 1, 1, 0].map(|other| (other == 0).then_some(0))
        );
        // It keeps two of leaf 1, and grows to no other.
        let holds = [None, Some(0), None, None, Some(0), None];
        let held = [candidate(6, 2, 0, far())];
        assert_eq!(decide(&held, &holds, &switches, policy), holds);
        // Apart it is worth less than the two of one leaf.
        let holds = [None, Some(0), None, Some(0), Some(0), None];
        let held = [candidate(6, 3, 1, far())];
        let owners = decide(&held, &holds, &switches, policy);
        assert_eq!(owners, [None, Some(0), None, None, Some(0), None]);
    }
}

#[test]
fn a_topology_that_changes_while_it_runs_brings_a_trainer_together_in_two_decisions() {
    let far = || share(6, 0.3);
    let holds = [Some(0), Some(0), Some(0), Some(0), None, None];
    let before = on_leaves(&[0, 0, 0, 0, 1, 1]);
    for policy in [Policy::Dp, Policy::Milp] {
        let held = [candidate(4, 4, 0, far())];
        assert_eq!(decide(&held, &holds, &before, policy), holds);
        // Recabled, or a corrected file: one of its nodes is elsewhere. 4 nodes apart bring 12, the
        // three of one leaf 30.
        let after = on_leaves(&[1, 0, 0, 0, 0, 1]);
        let held = [candidate(4, 4, 1, far())];
        let first = decide(&held, &holds, &after, policy);
        assert_eq!(first, [None, Some(0), Some(0), Some(0), None, None]);
        let held = [candidate(4, 3, 0, far())];
        let second = decide(&held, &first, &after, policy);
        assert_eq!(second, [None, Some(0), Some(0), Some(0), Some(0), None]);
        let held = [candidate(4, 4, 0, far())];
        assert_eq!(decide(&held, &second, &after, policy), second);
        // The topology is gone: distance is not known any more, and nothing moves.
        let none = Switches::default();
        assert_eq!(decide(&held, &second, &none, policy), second);
    }
}

#[test]
fn without_a_cost_of_distance_decisions_are_as_without_topology() {
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    for round in 0..200 {
        let nodes = rng.random_range(1..24_usize);
        let trainers = rng.random_range(1..5_u32);
        let owners: Vec<Option<u32>> = (0..nodes)
            .map(|_| rng.random_bool(0.5).then(|| rng.random_range(0..trainers)))
            .collect();
        let leaves: Vec<u32> = (0..nodes).map(|_| rng.random_range(0..5)).collect();
        let of = |tier: usize, far: &Far| -> Vec<Candidate> {
            let held = |j| owners.iter().filter(|owner| **owner == Some(j)).count() as u32;
            let one = |j| candidate(24, held(j), tier, far.clone());
            (0..trainers).map(one).collect()
        };
        for policy in SIZES {
            let flat = decide(
                &of(0, &Far::default()),
                &owners,
                &Switches::default(),
                policy,
            );
            let free = decide(
                &of(2, &Far::default()),
                &owners,
                &on_leaves(&leaves),
                policy,
            );
            assert_eq!(
                flat, free,
                "round {round}, {policy:?}: distance costs nothing"
            );
            let one = on_leaves(&vec![3; nodes]);
            let one_leaf = decide(&of(0, &share(24, 0.2)), &owners, &one, policy);
            assert_eq!(flat, one_leaf, "round {round}, {policy:?}: one leaf");
        }
    }
}
