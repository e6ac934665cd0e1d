//! Idle nodes that stay free.

use std::collections::BTreeSet;

use lacuna_model::{HoleRecord, Timestamp};
use lacuna_sim::{HoleTrace, Kept, PoolTrace};
use proptest::prelude::*;

use crate::common::{hole, machine};

fn trace(holes: &[HoleRecord]) -> HoleTrace {
    HoleTrace::new(holes, None, Timestamp::from_unix(0), None)
}

/// The idle nodes after each step.
fn idle(trace: &dyn PoolTrace) -> Vec<(f64, BTreeSet<u32>)> {
    let mut steps = trace.steps().unwrap();
    let (mut all, mut idle) = (Vec::new(), BTreeSet::new());
    while let Some(step) = steps.next().unwrap() {
        for node in step.closed {
            assert!(idle.remove(node), "{node} was not idle");
        }
        for (node, _) in step.opened {
            assert!(idle.insert(*node), "{node} was idle");
        }
        all.push((step.at_s, idle.clone()));
    }
    all
}

#[test]
fn a_free_node_that_a_batch_job_takes_is_replaced_by_the_youngest_hole() {
    let holes = [hole(0, 0, 50), hole(1, 10, 100), hole(2, 20, 100)];
    let trace = trace(&holes);
    let kept = Kept::new(&trace, 1);
    let steps = idle(&kept);
    let names = |nodes: &BTreeSet<u32>| -> Vec<String> {
        nodes
            .iter()
            .map(|n| kept.node_name(*n).into_owned())
            .collect()
    };
    let seen: Vec<(f64, Vec<String>)> = steps
        .iter()
        .map(|(at, nodes)| (*at, names(nodes)))
        .collect();
    let of = |at, names: &[&str]| {
        (
            at,
            names.iter().map(ToString::to_string).collect::<Vec<_>>(),
        )
    };
    let expected = [
        of(0.0, &[]),
        of(10.0, &["n1"]),
        of(20.0, &["n1", "n2"]),
        of(50.0, &["n1"]),
        of(100.0, &[]),
    ];
    assert_eq!(seen, expected);
}

proptest! {
    /// At each moment as many fewer are idle, of those that are idle.
    #[test]
    fn so_many_idle_nodes_are_missing(holes in machine(), nodes in 0_usize..4) {
        let trace = trace(&holes);
        let (all, rest) = (idle(&trace), idle(&Kept::new(&trace, nodes)));
        prop_assert_eq!(all.len(), rest.len());
        for ((at, all), (same, rest)) in all.iter().zip(&rest) {
            prop_assert_eq!(at, same);
            prop_assert!(rest.is_subset(all));
            prop_assert_eq!(rest.len(), all.len().saturating_sub(nodes));
        }
    }
}
