use std::collections::BTreeSet;

use lacuna_wire::HeaderText;

use super::*;

fn ledger() -> Ledger {
    Ledger::new(0, UnknownNodes::Accept, 3, Span::from_secs(60))
}

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn external(id: &str, what: &str, name: &str, at: i64) -> External {
    let node = node(name);
    External {
        kind: match what {
            "idle" => EventKind::NodeIdle { node },
            "busy" => EventKind::NodeBusy { node },
            "wanted" => EventKind::NodeWanted {
                node,
                deadline: Timestamp::from_unix(at),
            },
            _ => EventKind::NodeDown {
                node,
                reason: what.to_owned(),
            },
        },
        at: Some(Timestamp::from_unix(at)),
        id: Some(HeaderText::of(id)),
        source: None,
    }
}

fn take(ledger: &mut Ledger, event: &External) -> Result<Vec<u64>, &'static str> {
    let now = Timestamp::from_unix(1000);
    match ledger.external(event, now) {
        Ok(events) => Ok(events.iter().map(|e| e.seq).collect()),
        Err(refusal) => Err(refusal.label()),
    }
}

#[test]
fn numbers_have_no_gaps_after_refusals() {
    let mut l = ledger();
    assert_eq!(take(&mut l, &external("1", "idle", "a", 10)), Ok(vec![1]));
    assert_eq!(
        take(&mut l, &external("1", "idle", "a", 10)),
        Err("duplicate")
    );
    assert_eq!(
        take(&mut l, &external("2", "idle", "a", 11)),
        Err("unchanged")
    );
    assert_eq!(take(&mut l, &external("3", "busy", "a", 5)), Err("late"));
    assert_eq!(
        take(&mut l, &external("4", "busy", "a", 2000)),
        Err("ahead")
    );
    assert_eq!(take(&mut l, &external("5", "busy", "a", 20)), Ok(vec![2]));
    assert_eq!(take(&mut l, &external("6", "broken", "a", 30)), Ok(vec![3]));
    assert_eq!(take(&mut l, &external("7", "idle", "b", 1)), Ok(vec![4]));
    assert_eq!((l.seq(), l.idle()), (4, 1));
}

#[test]
fn ids_are_remembered_within_the_window_and_by_source() {
    let mut l = ledger();
    for (n, id) in ["1", "2", "3", "4"].iter().enumerate() {
        let at = 10 + i64::try_from(n).unwrap();
        take(
            &mut l,
            &external(id, if n % 2 == 0 { "idle" } else { "busy" }, "a", at),
        )
        .unwrap();
    }
    // "1" has left the window, but its state is still refused.
    assert_eq!(take(&mut l, &external("1", "idle", "a", 10)), Err("late"));
    let mut other = external("4", "idle", "a", 50);
    other.source = Some(HeaderText::of("pbs"));
    assert_eq!(take(&mut l, &other), Ok(vec![5]));
}

#[test]
fn nodes_off_the_list_are_refused() {
    let nodes = UnknownNodes::Refuse(BTreeSet::from([node("a")]));
    let mut l = Ledger::new(0, nodes, 10, Span::from_secs(60));
    assert_eq!(
        take(&mut l, &external("1", "idle", "ghost", 1)),
        Err("unknown_node")
    );
    assert_eq!(take(&mut l, &external("2", "idle", "a", 1)), Ok(vec![1]));
}

#[test]
fn a_request_from_a_clock_that_is_behind_counts() {
    let mut l = ledger();
    take(&mut l, &external("1", "idle", "a", 100)).unwrap();
    assert_eq!(take(&mut l, &external("2", "wanted", "a", 98)), Ok(vec![2]));
    assert_eq!(l.keeper.state(&node("a")), Some(NodeState::Busy));
}

#[test]
fn an_external_snapshot_becomes_its_differences() {
    let mut l = ledger();
    take(&mut l, &external("1", "idle", "a", 10)).unwrap();
    take(&mut l, &external("2", "idle", "b", 20)).unwrap();
    let hole = |name: &str, since| Hole {
        node: node(name),
        since: Timestamp::from_unix(since),
    };
    let snapshot = External {
        kind: EventKind::Snapshot {
            idle: vec![hole("b", 15), hole("c", 25)],
        },
        at: Some(Timestamp::from_unix(30)),
        id: None,
        source: None,
    };
    let events = l.external(&snapshot, Timestamp::from_unix(30)).unwrap();
    let texts: Vec<String> = events
        .iter()
        .map(|e| format!("{} {} {:?}", e.seq, e.at.unix_seconds(), e.kind))
        .collect();
    assert_eq!(
        texts,
        [
            "3 30 NodeBusy { node: \"a\" }",
            "4 25 NodeIdle { node: \"c\" }"
        ]
    );
    let again = l.external(&snapshot, Timestamp::from_unix(31));
    assert!(again.unwrap().is_empty());
}

#[test]
fn after_a_restart_an_old_event_opens_no_hole() {
    let mut first = ledger();
    take(&mut first, &external("1", "idle", "a", 10)).unwrap();
    take(&mut first, &external("2", "idle", "b", 20)).unwrap();
    take(&mut first, &external("3", "busy", "a", 30)).unwrap();
    let snapshot = first.snapshot(Timestamp::from_unix(50));
    let mut second = ledger();
    second.recall(&snapshot);
    second.restart();
    let jumped = 3 + RESTART_JUMP;
    assert_eq!(
        (second.seq(), second.snapshot(Timestamp::default()).seq),
        (jumped, jumped)
    );
    assert_eq!(
        take(&mut second, &external("1", "idle", "a", 10)),
        Err("late")
    );
    assert_eq!(
        take(&mut second, &external("4", "busy", "b", 40)),
        Ok(vec![jumped + 1])
    );
    assert_eq!(
        take(&mut second, &external("5", "idle", "a", 60)),
        Ok(vec![jumped + 2])
    );
    // If the stream has the event that took the node, only older events are late.
    let mut third = ledger();
    third.recall(&snapshot);
    let taken = NodeEvent {
        seq: 3,
        at: Timestamp::from_unix(30),
        kind: EventKind::NodeBusy { node: node("a") },
    };
    third.recall_past(&taken);
    third.restart();
    assert_eq!(
        take(&mut third, &external("1", "idle", "a", 10)),
        Err("late")
    );
    assert_eq!(
        take(&mut third, &external("6", "idle", "a", 35)),
        Ok(vec![jumped + 1])
    );
    // An external snapshot counts from its own time on.
    let of = |at| External {
        kind: EventKind::Snapshot {
            idle: ["a", "c"]
                .map(|name| Hole {
                    node: node(name),
                    since: Timestamp::from_unix(5),
                })
                .into(),
        },
        at: Some(Timestamp::from_unix(at)),
        id: None,
        source: None,
    };
    let now = Timestamp::from_unix(1000);
    assert_eq!(second.external(&of(45), now), Ok(vec![]));
    assert_eq!(second.external(&of(70), now).unwrap().len(), 1);
}

#[test]
fn after_a_restart_a_request_that_comes_again_takes_no_node() {
    let mut first = ledger();
    take(&mut first, &external("1", "idle", "a", 10)).unwrap();
    let snapshot = first.snapshot(Timestamp::from_unix(15));
    let queued = [
        external("2", "wanted", "a", 20),
        external("3", "idle", "a", 30),
        external("4", "idle", "b", 40),
    ];
    let now = Timestamp::from_unix(1000);
    let published = queued
        .each_ref()
        .map(|event| first.external(event, now).unwrap());
    let mut second = ledger();
    second.recall(&snapshot);
    published
        .iter()
        .flatten()
        .for_each(|event| second.recall(event));
    second.restart();
    for event in &queued {
        assert!(take(&mut second, event).is_err(), "{event:?}");
    }
    let idle_since = second.keeper.idle_since(&node("a"));
    assert_eq!(idle_since, Some(Timestamp::from_unix(30)));
    assert!(take(&mut second, &external("5", "wanted", "a", 50)).is_ok());
}

#[test]
fn a_restored_ledger_continues_the_one_before() {
    let mut first = ledger();
    take(&mut first, &external("1", "idle", "a", 10)).unwrap();
    let snapshot = first.snapshot(Timestamp::from_unix(12));
    let later = first.external(&external("2", "idle", "b", 20), Timestamp::from_unix(20));
    let mut second = ledger();
    second.recall(&snapshot);
    second.recall(&later.unwrap()[0]);
    assert_eq!((second.seq(), second.idle()), (2, 2));
    assert_eq!(
        take(&mut second, &external("2", "idle", "b", 20)),
        Err("unchanged")
    );
    assert_eq!(
        take(&mut second, &external("3", "busy", "b", 30)),
        Ok(vec![3])
    );
}

#[test]
fn in_a_secured_cluster_only_observed_nodes_are_known() {
    let mut l = ledger();
    l.restrict_to_observed();
    assert_eq!(
        take(&mut l, &external("1", "idle", "a", 10)),
        Err("unknown_node")
    );
    l.observe([node("a")].iter());
    assert_eq!(take(&mut l, &external("2", "idle", "a", 10)), Ok(vec![1]));
    assert_eq!(
        take(&mut l, &external("3", "idle", "b", 10)),
        Err("unknown_node")
    );
    // After a restart, nodes of published events are known.
    let mut second = ledger();
    second.restrict_to_observed();
    second.recall(&l.snapshot(Timestamp::from_unix(12)));
    assert!(take(&mut second, &external("4", "busy", "a", 20)).is_ok());
}
