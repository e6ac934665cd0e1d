//! Which member of a group that ends together is to blame.

use lacuna_model::{NodeId, Span, Timestamp, TrainerRecord, TrainerSpec, Work};
use lacuna_trainer::agent::Exit;

use crate::common::{World, node, regrouping, spec};
use crate::controller::{apply, world};
use crate::elsewhere::beat;
use crate::ending::ORDERS;

const MEMBERS: usize = 3;

/// `a` trains on nodes 0 to 2 of four.
fn training(spec: TrainerSpec) -> World {
    let mut w = world(vec![spec]);
    (0..4).for_each(|n| w.open(n));
    apply(&mut w, &[("a", &[0, 1, 2])]);
    w.all_ready();
    w.deliver(usize::MAX);
    w.pass(Span::from_secs(10));
    w.renew();
    w.report_all();
    w.deliver(usize::MAX);
    w
}

fn started_each_time() -> World {
    training(spec("a", MEMBERS as u32, 4, Work::UntilExit))
}

/// A failure `ms` after a time that all nodes know.
fn failure(ms: i64, lost_peer: bool) -> Exit {
    let at = Timestamp::from_unix_ms(1_000_000 + ms);
    Exit {
        lost_peer,
        ..Exit::new(1, format!("after {ms} ms"), Some(at))
    }
}

fn exit(w: &mut World, n: usize, exit: Exit) {
    w.exit_for(&node(n), exit);
    w.deliver(usize::MAX);
}

fn record(w: &World) -> &TrainerRecord {
    w.record("a")
}

/// Failures in a row, and the nodes that are blamed for them.
fn blamed(w: &World) -> (u32, Vec<NodeId>) {
    let tries = &record(w).tries;
    (record(w).failures, tries.row().cloned().collect())
}

#[test]
fn the_member_that_failed_first_is_blamed_in_whatever_order_they_exit() {
    for fault in 0..MEMBERS {
        for order in ORDERS {
            let mut w = started_each_time();
            for n in order {
                // The clock of the node with the fault is late, and the others lost their peer.
                exit(
                    &mut w,
                    n,
                    failure(if n == fault { 900 } else { 0 }, n != fault),
                );
                assert_eq!(blamed(&w), (0, vec![]), "it is not known yet");
                w.pass(Span::from_ms(10));
            }
            beat(&mut w, 400);
            assert_eq!(blamed(&w), (1, vec![node(fault)]), "{order:?}");
            assert!(record(&w).reason.contains("after 900 ms"));
            // Where no words help, the time does.
            let mut w = started_each_time();
            for n in order {
                exit(&mut w, n, failure(if n == fault { 0 } else { 90 }, false));
            }
            beat(&mut w, 400);
            assert_eq!(blamed(&w), (1, vec![node(fault)]), "{order:?}");
        }
    }
}

#[test]
fn members_that_lost_a_peer_wait_for_its_exit() {
    let mut w = started_each_time();
    exit(&mut w, 0, failure(0, true));
    exit(&mut w, 1, failure(1, true));
    (0..4).for_each(|_| beat(&mut w, 200));
    assert_eq!((blamed(&w), w.nodes_of("a")), ((0, vec![]), 3));
    exit(&mut w, 2, failure(900, false));
    beat(&mut w, 1);
    assert_eq!((blamed(&w), w.nodes_of("a")), ((1, vec![node(2)]), 0));
    // It never comes: no node is blamed, and the failure is counted and told.
    let mut w = started_each_time();
    exit(&mut w, 0, failure(0, true));
    (0..6).for_each(|_| beat(&mut w, 200));
    assert_eq!(blamed(&w), (1, vec![]));
    let reason = &record(&w).reason;
    assert!(reason.contains("no other member has said why"), "{reason}");
    // All lost one: the first of them is as near to it as can be known.
    let mut w = started_each_time();
    (0..MEMBERS).for_each(|n| exit(&mut w, n, failure(10 - n as i64, true)));
    beat(&mut w, 400);
    assert_eq!(blamed(&w), (1, vec![node(2)]));
}

#[test]
fn a_node_that_is_taken_explains_the_exits_of_members_that_lost_it() {
    let mut w = started_each_time();
    exit(&mut w, 0, failure(0, true));
    w.pass(Span::from_ms(500));
    w.close(2);
    w.deliver(usize::MAX);
    (0..15).for_each(|_| beat(&mut w, 200));
    assert_eq!(blamed(&w), (0, vec![]));
}

#[test]
fn a_member_that_regroups_and_lost_a_peer_is_left_out_and_not_blamed() {
    let mut w = training(TrainerSpec {
        launch: regrouping(),
        ..spec("a", 1, 4, Work::UntilExit)
    });
    exit(&mut w, 0, failure(1, true));
    assert_eq!((blamed(&w), w.nodes_of("a")), ((0, vec![]), 2));
    exit(&mut w, 2, failure(0, false));
    assert_eq!((blamed(&w), w.nodes_of("a")), ((1, vec![node(2)]), 1));
    // The last one has no peer to lose.
    exit(&mut w, 1, failure(2, true));
    assert_eq!(blamed(&w), (2, vec![node(1), node(2)]));
}
