//! Planned starts of a recorded machine: a trace agrees with a naive reading of the list.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use lacuna_batchsim::workload::generated_trace;
use lacuna_model::{HoleRecord, NodeId, PlannedStart, Timestamp};
use lacuna_sim::{HoleTrace, PoolSteps, PoolTrace};
use lacuna_trace::PlannedList;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::common::hole;

/// Time for which a planned start holds after it has passed, seconds.
const LAPSE_S: i64 = 3600;

/// A step: its second, and changes of planned starts by node.
type WalkedStep = (i64, BTreeMap<String, Option<i64>>);

/// The steps of a walk, in Unix seconds of a trace that starts at `start`.
fn walked_steps(trace: &HoleTrace, steps: &mut dyn PoolSteps, start: i64) -> Vec<WalkedStep> {
    let mut walked = Vec::new();
    while let Some(step) = steps.next().unwrap() {
        let numbers: Vec<u32> = step.planned.iter().map(|hint| hint.node).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert!(step.planned.iter().all(|hint| hint.at_s > step.at_s));
        let changes = step.planned.iter().map(|hint| {
            let at = hint.at_s.is_finite().then(|| hint.at_s as i64 + start);
            (trace.node_name(hint.node).into_owned(), at)
        });
        walked.push((step.at_s as i64 + start, changes.collect()));
    }
    walked
}

/// The planned starts of the present holes at second `now`, within the window from `first` on, by
/// the lists alone.
fn planned_at(
    holes: &[&HoleRecord],
    planned: &[&PlannedStart],
    first: i64,
    now: i64,
) -> BTreeMap<String, (i64, Option<i64>)> {
    let at = |time: Timestamp| time.unix_ms() / 1000;
    // A hole that ended before the window is left out, even if it is censored.
    let present = |hole: &&&HoleRecord| {
        at(hole.from) <= now && at(hole.until) > first && (hole.censored || now < at(hole.until))
    };
    let of_hole = |hole: &&HoleRecord| {
        let of_hole =
            |one: &&PlannedStart| one.node == hole.node && hole.from <= one.at && at(one.at) <= now;
        // The last entry of the newest moment.
        let newest = planned
            .iter()
            .copied()
            .filter(of_hole)
            .max_by_key(|one| one.at);
        let start = newest.and_then(|one| {
            let start = at(one.start?);
            let lapsed = at(one.at) < first && start + LAPSE_S < first;
            (!lapsed).then_some(if start <= first { first + 1 } else { start })
        });
        let start = start.filter(|start| start + LAPSE_S >= now);
        (hole.node.to_string(), (at(hole.from), start))
    };
    holes.iter().filter(present).map(of_hole).collect()
}

/// The steps as changes between states.
fn expected(
    holes: &[HoleRecord],
    planned: &[PlannedStart],
    nodes: Option<&HashSet<NodeId>>,
    first: Option<i64>,
    last: i64,
) -> Vec<WalkedStep> {
    let known = |node: &NodeId| nodes.is_none_or(|nodes| nodes.contains(node));
    let holes: Vec<_> = holes.iter().filter(|hole| known(&hole.node)).collect();
    let planned: Vec<_> = planned.iter().filter(|one| known(&one.node)).collect();
    let at = |time: Timestamp| time.unix_ms() / 1000;
    let begin = first.unwrap_or(i64::MIN);
    let ends = holes.iter().filter(|hole| !hole.censored);
    let times = ends.map(|hole| at(hole.until));
    let times = times.chain(holes.iter().map(|hole| at(hole.from)));
    let times = times
        .chain(planned.iter().map(|one| at(one.at)))
        .chain(first);
    let times: BTreeSet<i64> = times.filter(|at| (begin..=last).contains(at)).collect();
    let mut before = BTreeMap::new();
    let mut steps = Vec::new();
    for now in times {
        let state = planned_at(&holes, &planned, begin, now);
        let changes: BTreeMap<String, Option<i64>> = state
            .iter()
            .filter_map(|(node, &(since, start))| {
                let was: Option<&(i64, Option<i64>)> = before.get(node);
                let was = was.filter(|was| was.0 == since).and_then(|was| was.1);
                (was != start).then(|| (node.clone(), start))
            })
            .collect();
        let since = |state: &BTreeMap<String, (i64, Option<i64>)>| -> Vec<(String, i64)> {
            state
                .iter()
                .map(|(node, hole)| (node.clone(), hole.0))
                .collect()
        };
        if !changes.is_empty() || since(&before) != since(&state) || Some(now) == first {
            steps.push((now, changes));
        }
        before = state;
    }
    steps
}

/// Checks walk and past of a trace that begins at `start`, and counts its changes.
fn check(
    holes: &[HoleRecord],
    planned: &[PlannedStart],
    nodes: Option<&HashSet<NodeId>>,
    (start, end): (i64, i64),
) -> usize {
    let (from, until) = (Timestamp::from_unix(start), Timestamp::from_unix(end));
    let trace = HoleTrace::with_planned(holes, planned, nodes, from, Some(until));
    let walked = walked_steps(&trace, &mut *trace.steps().unwrap(), start);
    assert_eq!(walked, expected(holes, planned, nodes, Some(start), end));
    let past = walked_steps(&trace, &mut *trace.past().unwrap().unwrap(), start);
    assert_eq!(past, expected(holes, planned, nodes, None, start - 1));
    walked.iter().chain(&past).map(|step| step.1.len()).sum()
}

const SEED: u64 = 20_261_122;

fn seeded() -> ProptestConfig {
    println!("seed {SEED}");
    ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Holes of five nodes, some without a gap between them, some with a censored last hole.
fn holes() -> impl Strategy<Value = Vec<HoleRecord>> {
    let lengths = proptest::collection::vec((0_i64..3, 1_i64..8), 0..6);
    proptest::collection::vec((lengths, any::<bool>()), 5).prop_map(|nodes| {
        let mut holes = Vec::new();
        for (node, (lengths, open)) in (0..).zip(nodes) {
            let mut at = 0;
            let last = lengths.len();
            for (number, (gap, length)) in (1..).zip(lengths) {
                let from = at + gap * 700;
                at = from + length * 700;
                let censored = open && number == last;
                holes.push(HoleRecord {
                    censored,
                    ..hole(node, from, at)
                });
            }
        }
        holes
    })
}

fn planned() -> impl Strategy<Value = Vec<PlannedStart>> {
    let start = proptest::option::weighted(0.7, 1_i64..60);
    let one = (0_i64..200, 0_u32..6, start);
    let one = one.prop_map(|(at, node, after)| PlannedStart {
        at: Timestamp::from_unix(at * 175),
        node: hole(node, 0, 1).node,
        start: after.map(|after| Timestamp::from_unix(at * 175 + after * 100)),
    });
    proptest::collection::vec(one, 0..60)
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn planned_starts_of_a_trace_are_the_changes_between_naive_states(
        holes in holes(), planned in planned(), start in 0_i64..150, length in 0_i64..200,
        only in any::<bool>(),
    ) {
        let few: HashSet<NodeId> = (0..3).map(|node| hole(node, 0, 1).node).collect();
        let window = (start * 100, (start + length) * 100);
        check(&holes, &planned, only.then_some(&few), window);
        // The order of the list matters only for one node at one moment.
        let list = PlannedList::of(planned.clone(), &holes);
        prop_assert!(list.starts.len() as u64 + list.without_hole <= planned.len() as u64);
        let trace = |planned: &[PlannedStart]| {
            let from = Timestamp::from_unix(window.0);
            let trace = HoleTrace::with_planned(&holes, planned, None, from, None);
            walked_steps(&trace, &mut *trace.steps().unwrap(), window.0)
        };
        let steps = trace(&list.starts);
        let kept: HashSet<_> = list.starts.iter().map(|one| (one.at, one.node.clone())).collect();
        let of_holes = planned.into_iter().filter(|one| kept.contains(&(one.at, one.node.clone())));
        prop_assert_eq!(&steps, &trace(&of_holes.collect::<Vec<_>>()));
        let reversed: Vec<PlannedStart> = list.starts.into_iter().rev().collect();
        prop_assert_eq!(steps, trace(&reversed));
    }
}

#[test]
fn a_generated_machine_s_planned_starts_are_all_of_present_holes() {
    let (holes, planned) = generated_trace(96, 2, SEED).unwrap();
    let list = PlannedList::of(planned.clone(), &holes);
    assert_eq!(list.without_hole, 0);
    let start = holes.iter().map(|hole| hole.from).min().unwrap();
    let middle = start.unix_ms() / 1000 + 86_400;
    let changes = check(&holes, &planned, None, (middle, middle + 86_400));
    println!(
        "{} holes, {} planned starts, {changes} changes",
        holes.len(),
        planned.len()
    );
    assert!(changes > 300 && changes <= planned.len() + 96);
}
