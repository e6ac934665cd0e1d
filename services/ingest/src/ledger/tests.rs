use std::collections::BTreeSet;

use super::*;

fn ledger() -> Ledger {
    Ledger::new(0, UnknownNodes::Accept, 3, Span::from_secs(60))
}

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn said(id: &str, what: &str, name: &str, at: i64) -> External {
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
        id: Some(id.to_owned()),
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
fn numbers_have_no_gaps_whatever_is_refused() {
    let mut l = ledger();
    assert_eq!(take(&mut l, &said("1", "idle", "a", 10)), Ok(vec![1]));
    assert_eq!(take(&mut l, &said("1", "idle", "a", 10)), Err("duplicate"));
    assert_eq!(take(&mut l, &said("2", "idle", "a", 11)), Err("unchanged"));
    assert_eq!(take(&mut l, &said("3", "busy", "a", 5)), Err("late"));
    assert_eq!(take(&mut l, &said("4", "busy", "a", 2000)), Err("ahead"));
    assert_eq!(take(&mut l, &said("5", "busy", "a", 20)), Ok(vec![2]));
    assert_eq!(take(&mut l, &said("6", "broken", "a", 30)), Ok(vec![3]));
    assert_eq!(take(&mut l, &said("7", "idle", "b", 1)), Ok(vec![4]));
    assert_eq!((l.seq(), l.idle()), (4, 1));
}

#[test]
fn ids_are_remembered_within_the_window_and_by_source() {
    let mut l = ledger();
    for (n, id) in ["1", "2", "3", "4"].iter().enumerate() {
        let at = 10 + i64::try_from(n).unwrap();
        take(
            &mut l,
            &said(id, if n % 2 == 0 { "idle" } else { "busy" }, "a", at),
        )
        .unwrap();
    }
    // "1" has left the window; its state is refused all the same.
    assert_eq!(take(&mut l, &said("1", "idle", "a", 10)), Err("late"));
    let mut other = said("4", "idle", "a", 50);
    other.source = Some("pbs".to_owned());
    assert_eq!(take(&mut l, &other), Ok(vec![5]));
}

#[test]
fn nodes_off_the_list_are_refused() {
    let nodes = UnknownNodes::Refuse(BTreeSet::from([node("a")]));
    let mut l = Ledger::new(0, nodes, 10, Span::from_secs(60));
    assert_eq!(
        take(&mut l, &said("1", "idle", "ghost", 1)),
        Err("unknown_node")
    );
    assert_eq!(take(&mut l, &said("2", "idle", "a", 1)), Ok(vec![1]));
}

#[test]
fn a_wish_from_a_clock_that_is_behind_is_heeded() {
    let mut l = ledger();
    take(&mut l, &said("1", "idle", "a", 100)).unwrap();
    assert_eq!(take(&mut l, &said("2", "wanted", "a", 98)), Ok(vec![2]));
    assert_eq!(l.keeper.state(&node("a")), Some(NodeState::Busy));
}

#[test]
fn an_external_snapshot_becomes_its_differences() {
    let mut l = ledger();
    take(&mut l, &said("1", "idle", "a", 10)).unwrap();
    take(&mut l, &said("2", "idle", "b", 20)).unwrap();
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
    let told: Vec<String> = events
        .iter()
        .map(|e| format!("{} {} {:?}", e.seq, e.at.unix_seconds(), e.kind))
        .collect();
    assert_eq!(
        told,
        [
            "3 30 NodeBusy { node: \"a\" }",
            "4 25 NodeIdle { node: \"c\" }"
        ]
    );
    let again = l.external(&snapshot, Timestamp::from_unix(31));
    assert!(again.unwrap().is_empty());
}

#[test]
fn after_a_restart_an_old_word_brings_no_node_back() {
    let mut first = ledger();
    take(&mut first, &said("1", "idle", "a", 10)).unwrap();
    take(&mut first, &said("2", "idle", "b", 20)).unwrap();
    take(&mut first, &said("3", "busy", "a", 30)).unwrap();
    let snapshot = first.snapshot(Timestamp::from_unix(50));
    let mut second = ledger();
    second.recall(&snapshot);
    second.restart();
    let jumped = 3 + RESTART_JUMP;
    assert_eq!(
        (second.seq(), second.snapshot(Timestamp::default()).seq),
        (jumped, jumped)
    );
    assert_eq!(take(&mut second, &said("1", "idle", "a", 10)), Err("late"));
    assert_eq!(
        take(&mut second, &said("4", "busy", "b", 40)),
        Ok(vec![jumped + 1])
    );
    assert_eq!(
        take(&mut second, &said("5", "idle", "a", 60)),
        Ok(vec![jumped + 2])
    );
    // Where the stream still tells when a node was taken, only what is older than that is.
    let mut third = ledger();
    third.recall(&snapshot);
    let taken = NodeEvent {
        seq: 3,
        at: Timestamp::from_unix(30),
        kind: EventKind::NodeBusy { node: node("a") },
    };
    third.recall_past(&taken);
    third.restart();
    assert_eq!(take(&mut third, &said("1", "idle", "a", 10)), Err("late"));
    assert_eq!(
        take(&mut third, &said("6", "idle", "a", 35)),
        Ok(vec![jumped + 1])
    );
    // A snapshot of the sender's is believed from then on, not before.
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
fn a_recalled_ledger_goes_on_where_the_other_was() {
    let mut first = ledger();
    take(&mut first, &said("1", "idle", "a", 10)).unwrap();
    let snapshot = first.snapshot(Timestamp::from_unix(12));
    let later = first.external(&said("2", "idle", "b", 20), Timestamp::from_unix(20));
    let mut second = ledger();
    second.recall(&snapshot);
    second.recall(&later.unwrap()[0]);
    assert_eq!((second.seq(), second.idle()), (2, 2));
    assert_eq!(
        take(&mut second, &said("2", "idle", "b", 20)),
        Err("unchanged")
    );
    assert_eq!(take(&mut second, &said("3", "busy", "b", 30)), Ok(vec![3]));
}

#[test]
fn where_keys_are_in_use_a_name_is_a_node_when_its_scheduler_has_it() {
    let mut l = ledger();
    l.restrict_to_observed();
    assert_eq!(
        take(&mut l, &said("1", "idle", "a", 10)),
        Err("unknown_node")
    );
    l.sight([node("a")].iter());
    assert_eq!(take(&mut l, &said("2", "idle", "a", 10)), Ok(vec![1]));
    assert_eq!(
        take(&mut l, &said("3", "idle", "b", 10)),
        Err("unknown_node")
    );
    // After a restart what was published is known.
    let mut second = ledger();
    second.restrict_to_observed();
    second.recall(&l.snapshot(Timestamp::from_unix(12)));
    assert!(take(&mut second, &said("4", "busy", "a", 20)).is_ok());
}
