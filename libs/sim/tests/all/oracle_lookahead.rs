//! Oracle lookahead: revealed ends agree with the list of holes, and nothing else of the future
//! is visible.

use std::borrow::Cow;

use lacuna_model::{HoleRecord, Span, Timestamp};
use lacuna_sim::{HoleTrace, OracleWalk, PoolStep, PoolSteps, PoolTrace, SimError};
use lacuna_skip::or_skip;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{Summit, hole, machine};

/// A step with lists of its own.
#[derive(Debug, Clone, PartialEq)]
struct WalkedStep {
    at_s: f64,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
    ends: Vec<f64>,
}

fn walked_step(step: &PoolStep<'_>) -> WalkedStep {
    WalkedStep {
        at_s: step.at_s,
        closed: step.closed.to_vec(),
        opened: step.opened.to_vec(),
        ends: Vec::new(),
    }
}

/// All steps, each with the ends that are revealed at it.
fn walk(trace: &dyn PoolTrace, lookahead: Option<f64>) -> Vec<WalkedStep> {
    let mut oracle = OracleWalk::new(trace, lookahead).unwrap();
    let mut walked = Vec::new();
    while let Some(step) = oracle.next().unwrap().map(|step| walked_step(&step)) {
        assert_eq!(oracle.now_s(), step.at_s);
        let ends = oracle.ends().to_vec();
        walked.push(WalkedStep { ends, ..step });
    }
    assert_eq!(oracle.next_at_s().unwrap(), f64::INFINITY);
    assert!(oracle.next().unwrap().is_none());
    walked
}

fn trace(holes: &[HoleRecord]) -> HoleTrace {
    HoleTrace::new(holes, None, Timestamp::from_unix(0), None)
}

/// The ends to be revealed, from the list of holes.
fn by_hand(holes: &[HoleRecord], trace: &HoleTrace, now: f64, lookahead: f64) -> Vec<f64> {
    let mut ends = vec![f64::INFINITY; trace.nodes() as usize];
    let second = |at: Timestamp| at.since(trace.start()).as_secs_f64();
    for hole in holes {
        let (from, end) = (second(hole.from), second(hole.until));
        let present = from <= now && end > now;
        let known = end <= now + lookahead && end < trace.length_s() && !hole.censored;
        if present && known {
            let node = trace.names().iter().position(|name| *name == hole.node);
            ends[node.unwrap()] = end;
        }
    }
    ends
}

#[test]
fn an_end_is_revealed_when_it_is_near_enough_and_not_a_second_before() {
    let holes = [
        hole(1, 0, 100),
        hole(2, 0, 70),
        hole(3, 50, 80),
        hole(1, 100, 110),
        hole(4, 0, 200),
    ];
    let trace = trace(&holes);
    let mut oracle = OracleWalk::new(&trace, Some(60.0)).unwrap();
    let none = f64::INFINITY;
    // Nodes are numbered by first hole: n1, n2, n4, n3.
    let first = oracle.next().unwrap().unwrap();
    assert_eq!((first.at_s, first.opened.len()), (0.0, 3));
    assert_eq!(oracle.ends(), [none, none, none, none]);
    assert_eq!(oracle.next_at_s().unwrap(), 50.0);
    oracle.advance(9.9).unwrap();
    assert_eq!(oracle.ends(), [none, none, none, none]);
    oracle.advance(10.0).unwrap();
    assert_eq!(oracle.ends(), [none, 70.0, none, none]);
    // Time goes neither back nor past the next step, and NaN changes nothing.
    oracle.advance(3.0).unwrap();
    oracle.advance(f64::NAN).unwrap();
    assert_eq!(oracle.now_s(), 10.0);
    oracle.advance(1000.0).unwrap();
    assert_eq!(oracle.now_s(), 50.0);
    // The hole that opens at 50 is not present yet.
    assert_eq!(oracle.ends(), [100.0, 70.0, none, none]);
    assert_eq!(oracle.next().unwrap().unwrap().opened, [(3, 50_000)]);
    assert_eq!(oracle.ends(), [100.0, 70.0, none, 80.0]);
    assert_eq!(oracle.next().unwrap().unwrap().closed, [1]);
    assert_eq!(oracle.ends(), [100.0, none, none, 80.0]);
    assert_eq!(oracle.next().unwrap().unwrap().at_s, 80.0);
    // At 100 node 1 leaves and comes back: the end is that of the new hole.
    let step = oracle.next().unwrap().unwrap();
    assert_eq!((step.closed, step.opened), (&[0][..], &[(0, 100_000)][..]));
    assert_eq!(oracle.ends(), [110.0, none, none, none]);
    assert_eq!(oracle.next().unwrap().unwrap().at_s, 110.0);
    // The last hole lasts until the trace ends, so its end is unknown.
    oracle.advance(190.0).unwrap();
    assert_eq!(oracle.ends(), [none; 4]);
}

#[test]
fn without_lookahead_nothing_is_revealed_and_clairvoyance_reveals_all() {
    let holes = [hole(1, 0, 100), hole(2, 20, 70), hole(3, 0, 200)];
    let trace = trace(&holes);
    for none in [Some(0.0), Some(-5.0), Some(f64::NAN)] {
        for step in walk(&trace, none) {
            assert!(step.ends.iter().all(|end| *end == f64::INFINITY));
        }
    }
    for all in [None, Some(f64::INFINITY), Some(1e9)] {
        let steps = walk(&trace, all);
        assert_eq!(steps[0].ends, [100.0, f64::INFINITY, f64::INFINITY]);
        assert_eq!(steps[1].ends, [100.0, f64::INFINITY, 70.0]);
    }
}

const SEED: u64 = 20_261_120;

fn seeded() -> ProptestConfig {
    println!("seed {SEED}");
    ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn revealed_ends_are_those_of_the_list_of_holes(
        holes in machine(), lookahead in 0_u32..700, all in any::<bool>(),
        between in proptest::collection::vec(0_u32..1000, 0..40),
    ) {
        let trace = trace(&holes);
        let lookahead = (!all).then_some(f64::from(lookahead));
        let reach = lookahead.unwrap_or(f64::INFINITY);
        let mut plain = trace.steps().unwrap();
        let mut oracle = OracleWalk::new(&trace, lookahead).unwrap();
        let mut between = between.into_iter();
        loop {
            let next = oracle.next_at_s().unwrap();
            let (a, b) = (plain.next().unwrap(), oracle.next().unwrap());
            prop_assert_eq!(a, b);
            if b.is_none() {
                break;
            }
            prop_assert_eq!(oracle.ends(), by_hand(&holes, &trace, next, reach));
            // And at a moment before the next step.
            let next = oracle.next_at_s().unwrap().min(trace.length_s());
            let share = f64::from(between.next().unwrap_or(500)) / 1000.0;
            let now = oracle.now_s() + share * (next - oracle.now_s());
            oracle.advance(now).unwrap();
            prop_assert_eq!(oracle.ends(), by_hand(&holes, &trace, now, reach));
        }
    }

    #[test]
    fn later_steps_change_no_earlier_ones(
        before in machine(), after in machine(), cut in 1_i64..900, lookahead in 0_u32..400,
    ) {
        // Two traces that are alike until `cut`, and arbitrary afterwards.
        let changed = changed_after(&before, &after, cut);
        let end = Some(Timestamp::from_unix(5000));
        let start = Timestamp::from_unix(0);
        let one = HoleTrace::new(&before, None, start, end);
        let two = HoleTrace::new(&changed, None, start, end);
        let lookahead = f64::from(lookahead);
        let upto = |trace: &HoleTrace| -> Vec<WalkedStep> {
            let walked = walk(trace, Some(lookahead)).into_iter();
            let early = walked.take_while(|step| step.at_s < cut as f64);
            early.map(|mut step| {
                if step.at_s + lookahead >= cut as f64 {
                    // An end beyond the cut may be revealed, and differ.
                    step.ends.iter_mut().filter(|end| **end >= cut as f64).for_each(|end| *end = f64::INFINITY);
                }
                step.ends.retain(|end| *end != f64::INFINITY);
                step
            }).collect()
        };
        prop_assert_eq!(upto(&one), upto(&two));
        // Further than the lookahead before the cut, revealed ends are alike too.
        let clear = |trace: &HoleTrace| -> Vec<Vec<f64>> {
            let walked = walk(trace, Some(lookahead)).into_iter();
            walked.take_while(|step| step.at_s + lookahead < cut as f64)
                .map(|mut step| {
                    while step.ends.last() == Some(&f64::INFINITY) {
                        step.ends.pop();
                    }
                    step.ends
                })
                .collect()
        };
        prop_assert_eq!(clear(&one), clear(&two));
    }
}

/// The holes of one list until second `cut`, and those of another after it.
fn changed_after(before: &[HoleRecord], after: &[HoleRecord], cut: i64) -> Vec<HoleRecord> {
    let at = Timestamp::from_unix(cut);
    let mut changed: Vec<HoleRecord> = before.iter().filter(|h| h.from < at).cloned().collect();
    for hole in &mut changed {
        if hole.until >= at {
            // It ends at another moment, but not before the cut.
            let other = after.iter().find(|other| other.node == hole.node);
            let more = other.map_or(7, |other| other.length().as_ms() / 1000);
            hole.until = Timestamp::from_unix(cut + more % 50);
        }
    }
    let shifted = after.iter().map(|hole| HoleRecord {
        from: hole.from + Span::from_secs(cut + 60),
        until: hole.until + Span::from_secs(cut + 60),
        ..hole.clone()
    });
    changed.extend(shifted);
    changed
}

#[test]
fn the_ends_of_a_recorded_machine_are_revealed() {
    let summit = or_skip!(Summit::open());
    println!("seed {SEED}");
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let trace = summit.trace(1024, 1_613_347_732, None);
    let known: Vec<HoleRecord> = {
        let nodes = summit.nodes(1024);
        let records = summit.holes.records.iter();
        let kept = records.filter(|hole| nodes.contains(&hole.node) && hole.until > trace.start());
        kept.cloned().collect()
    };
    for lookahead in [Some(300.0), Some(900.0), None] {
        let mut oracle = OracleWalk::new(&trace, lookahead).unwrap();
        let mut revealed = 0;
        while let Some(step) = oracle.next().unwrap() {
            let now = step.at_s;
            if rng.random_bool(0.02) {
                let reach = lookahead.unwrap_or(f64::INFINITY);
                let expected = by_hand(&known, &trace, now, reach);
                assert_eq!(oracle.ends(), expected, "at {now}, {lookahead:?}");
                revealed += expected.iter().filter(|end| end.is_finite()).count();
            }
        }
        println!("{lookahead:?}: {revealed} ends compared");
        assert!(revealed > 500);
    }
}

/// A trace of given steps, with damage after them.
struct Scripted(&'static [PoolStep<'static>]);

impl PoolTrace for Scripted {
    fn start(&self) -> Timestamp {
        Timestamp::from_unix(0)
    }

    fn end(&self) -> Timestamp {
        Timestamp::from_unix(100)
    }

    fn nodes(&self) -> u32 {
        2
    }

    fn node_name(&self, node: u32) -> Cow<'_, str> {
        Cow::Owned(node.to_string())
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        Ok(Box::new(Script(self.0.iter())))
    }
}

/// A walk over a script. Damage is an arbitrary error.
struct Script(std::slice::Iter<'static, PoolStep<'static>>);

impl PoolSteps for Script {
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError> {
        self.0.next().copied().map(Some).ok_or(SimError::NoTrainers)
    }
}

const fn step(
    at_s: f64,
    closed: &'static [u32],
    opened: &'static [(u32, i64)],
) -> PoolStep<'static> {
    PoolStep {
        at_s,
        closed,
        opened,
        planned: &[],
    }
}

#[test]
fn contradictory_steps_are_given_unchanged_and_damage_is_an_error_when_reached() {
    // Node 0 opens twice, node 1 closes without a hole, there is no node 7, and two steps are
    // at one moment.
    const STEPS: &[PoolStep<'static>] = &[
        step(0.0, &[1, 7], &[(0, 0), (7, 0)]),
        step(10.0, &[], &[(0, 5), (1, 10)]),
        step(30.0, &[0, 0], &[(0, 30), (0, 30)]),
        step(30.0, &[0, 1], &[]),
        step(50.0, &[], &[(1, 50)]),
    ];
    let scripted = Scripted(STEPS);
    assert!(matches!(
        OracleWalk::new(&scripted, None).err(),
        Some(SimError::NoTrainers)
    ));
    let none = f64::INFINITY;
    for lookahead in [0.0, 1.0, 20.0, 1e6] {
        let mut oracle = OracleWalk::new(&scripted, Some(lookahead)).unwrap();
        let reveal = |end: f64, now: f64| match lookahead > 0.0 && end <= now + lookahead {
            true => end,
            false => none,
        };
        let expected = [
            [reveal(30.0, 0.0), none],
            [reveal(30.0, 10.0), reveal(30.0, 10.0)],
            [reveal(30.0, 30.0), reveal(30.0, 30.0)],
            [none, none],
            [none, none],
        ];
        for (step, expected) in STEPS.iter().zip(expected) {
            assert_eq!(oracle.next_at_s().unwrap(), step.at_s);
            assert_eq!(oracle.next().unwrap().as_ref(), Some(step));
            assert_eq!(oracle.ends(), expected, "{lookahead} at {}", step.at_s);
        }
        // The error comes after all steps before it, and once.
        assert!(matches!(oracle.next(), Err(SimError::NoTrainers)));
        assert!(oracle.next().unwrap().is_none());
        oracle.advance(60.0).unwrap();
        assert_eq!(oracle.ends(), [none, none]);
    }
}
