//! The invariants of nodes, after any operations in any order.

use lacuna_model::{AgentStatus, Epoch, Hole, NodeId, Span, Timestamp, TrainerId, TroubleKind};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn at(second: i64) -> Now {
    let at = Timestamp::from_unix(second);
    Now {
        cluster: at,
        wall: at,
    }
}

fn name(number: u32) -> NodeId {
    NodeId::new(format!("n{number}")).unwrap()
}

fn status(node: &NodeId, epoch: Epoch, seq: u64) -> AgentStatus {
    AgentStatus {
        node: node.clone(),
        epoch,
        seq,
        activity: Activity::Free,
        released: None,
        leaving: false,
        gave_back_in: None,
        broken: None,
        ending: None,
        terms: None,
        place: None,
        serves: None,
    }
}

/// Counted again from the nodes.
fn check(nodes: &Nodes) {
    let count = |holds: fn(&Node) -> bool| nodes.by_id.values().filter(|n| holds(n)).count();
    assert_eq!(nodes.in_pool() as usize, count(Node::is_idle));
    assert_eq!(nodes.leased as usize, count(|n| n.lease.owner().is_some()));
    let harvested = count(|n| n.is_idle() && n.lease.owner().is_some());
    assert_eq!(nodes.count.harvested as usize, harvested);
    // One of the six nodes has no kind.
    let mut of_kinds: BTreeMap<KindName, Count> = BTreeMap::new();
    for (id, node) in nodes.by_id.iter().filter(|(_, node)| node.is_idle()) {
        if let Some(kind) = nodes.kind(id) {
            let held = i32::from(node.lease.owner().is_some());
            of_kinds.entry(kind.clone()).or_default().add(1, held);
        }
    }
    let counted = nodes.of_kinds.iter().filter(|(_, count)| count.in_pool > 0);
    assert!(counted.eq(&of_kinds));
    for id in &nodes.unacknowledged {
        assert!(nodes.by_id[id].agent.command().is_some(), "{id}");
    }
    for id in &nodes.releasing {
        assert!(nodes.by_id[id].lease.is_released(), "{id}");
    }
    for id in &nodes.unwritten {
        assert!(nodes.by_id[id].lease.write_again(id).is_some(), "{id}");
    }
    for (id, node) in &nodes.by_id {
        if node.lease.is_released() {
            assert!(node.lease.owner().is_none(), "{id} is released and owned");
            assert!(
                !node.is_ready(),
                "{id} is given away before its release is confirmed"
            );
        }
    }
}

#[test]
fn a_node_without_an_agent_is_no_trouble_while_it_is_withheld() {
    let mut config = ControllerConfig::default();
    config.control.require_agents = true;
    let (mut nodes, id) = (Nodes::default(), name(1));
    let hole = Hole {
        node: id.clone(),
        since: at(5).cluster,
    };
    nodes.open(hole, &config);
    let kind = |nodes: &Nodes| {
        let others = nodes.counterparts(at(10));
        nodes
            .trouble(&id, &others, at(10))
            .map(|trouble| trouble.kind)
    };
    assert_eq!(kind(&nodes), Some(TroubleKind::Unheard));
    let _ = nodes.withhold(&[(id.clone(), WithheldBy::Reserve)].into());
    assert_eq!(kind(&nodes), None);
}

/// A bucket that may refuse a write, or not answer.
fn write(nodes: &mut Nodes, write: &LeaseWrite, rng: &mut ChaCha8Rng, config: &ControllerConfig) {
    let known = nodes
        .get(&write.node)
        .map_or(Epoch(0), |n| n.lease().epoch());
    let owner = nodes.owner(&write.node).cloned();
    let (entry, written) = match rng.random_range(0..4) {
        0 => (None, false),
        1 => (Some((owner, known)), false),
        _ => (Some((write.trainer.clone(), Epoch(known.0 + 1))), true),
    };
    let result = LeaseResult {
        node: write.node.clone(),
        entry,
        written,
    };
    if nodes.written(&result) == Written::Released {
        let action = nodes.open_release(&write.node, config, at(0));
        let _ = nodes.command(&write.node, 1, action, at(0));
    }
}

#[test]
fn counts_and_sets_are_those_of_the_nodes_whatever_happens() {
    let config = ControllerConfig::default();
    let mut strict = config.clone();
    strict.control.require_agents = true;
    let trainer = TrainerId::new("a").unwrap();
    for seed in 0..50 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut nodes = Nodes::default();
        let of = |n: u32| ["cpu", "gpu"][n as usize % 2];
        let kinds = (0..5).map(|n| (name(n), KindName::new(of(n)).unwrap()));
        let kinds = NodeKinds::new(kinds.collect());
        for second in 0..400 {
            let id = name(rng.random_range(0..6));
            let now = at(1000 + second * 3);
            if second % 100 == 50 {
                nodes.tell_kinds(&kinds);
            }
            let epoch = nodes.get(&id).map_or(Epoch(0), |node| node.lease().epoch());
            match rng.random_range(0..10) {
                0 | 1 => nodes.open(
                    Hole {
                        node: id.clone(),
                        since: now.cluster,
                    },
                    [&config, &strict][usize::from(rng.random_bool(0.5))],
                ),
                2 => {
                    let _ = nodes.close(&id, Taken::Busy, now);
                }
                3 | 4 if nodes.get(&id).is_some_and(Node::is_ready) => {
                    let grant = nodes.grant(&id, &trainer);
                    write(&mut nodes, &grant, &mut rng, &config);
                }
                5 => {
                    if let Some(release) = nodes.release(&id, "test", |_| None) {
                        write(&mut nodes, &release, &mut rng, &config);
                    }
                }
                6 => {
                    for again in nodes.write_again() {
                        write(&mut nodes, &again, &mut rng, &config);
                    }
                }
                7 => {
                    let said = status(&id, epoch, 1);
                    let _ = nodes.hear(&said, &config, now);
                    if nodes.is_confirmed_by(&said) {
                        let _ = nodes.confirm(&id, now);
                    }
                }
                8 => {
                    for id in nodes.find_overdue(&config, now).unheard {
                        let _ = nodes.stop_waiting(&id);
                    }
                }
                _ => {
                    let _ = nodes.resend(Span::from_secs(2), now);
                }
            }
            check(&nodes);
        }
        assert!(
            nodes.leased() + nodes.in_pool() > 0,
            "seed {seed} did nothing"
        );
    }
}

#[test]
fn a_node_that_is_taken_is_answered_for_once_when_it_is_free() {
    let config = ControllerConfig::default();
    let trainer = TrainerId::new("a").unwrap();
    let id = name(1);
    let mut nodes = Nodes::default();
    nodes.restore(&id, Some(trainer), Epoch(3), &config, at(0));
    let closed = nodes.close(&id, Taken::Busy, at(10)).unwrap();
    assert!(closed.was_held && !closed.is_free);
    let release = nodes.release(&id, "taken", |_| None).unwrap();
    let result = LeaseResult {
        node: release.node,
        entry: Some((None, Epoch(4))),
        written: true,
    };
    assert_eq!(nodes.written(&result), Written::Released);
    let _ = nodes.open_release(&id, &config, at(11));
    let freed = nodes.confirm(&id, at(12)).unwrap();
    assert!(freed.is_wanted && freed.after == Span::from_secs(1));
    assert_eq!(
        nodes.given_back(&id, true, false, at(12)),
        Some(("taken", Span::from_secs(2)))
    );
    assert_eq!(
        nodes.given_back(&id, true, false, at(13)),
        None,
        "counted once"
    );
    let again = nodes.close(&id, Taken::Busy, at(20)).unwrap();
    assert!(!again.was_held && !again.is_free);
}
