use lacuna_model::{Hole, NodeId};
use proptest::prelude::*;

use super::*;

const JSON: (&str, &str) = ("content-type", "application/json");

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn refused(headers: &[(&str, &str)], body: &str) -> String {
    read(headers.iter().copied(), body.as_bytes())
        .unwrap_err()
        .to_string()
}

#[test]
fn a_bare_object_is_enough() {
    let body = br#"{"type":"node.idle","node":"n1.x","time":"2021-02-10T00:08:00Z"}"#;
    let event = read([], body).unwrap();
    assert_eq!(event.kind, EventKind::NodeIdle { node: node("n1.x") });
    assert_eq!(event.at, Some(Timestamp::from_unix(1_612_915_680)));
    let body = br#" {"type":"node.down","node":"n1","time":12.5,"reason":"fan"}"#;
    let event = read([JSON], body).unwrap();
    assert_eq!(event.at, Some(Timestamp::from_unix_ms(12_500)));
    let event = read([], br#"{"type":"node.busy","node":"n1"}"#).unwrap();
    assert_eq!((event.at, event.id), (None, None));
}

#[test]
fn cloud_events_come_in_both_modes() {
    let headers = [
        ("Ce-Id", "a%20b"),
        ("ce-type", "node.busy"),
        ("CE-SOURCE", "slurm/%C3%A9"),
        ("ce-time", "2021-02-10T00:08:00Z"),
        JSON,
    ];
    let binary = read(headers, br#"{"node":"n1"}"#).unwrap();
    assert_eq!(binary.id.as_deref(), Some("a b"));
    assert_eq!(binary.source.as_deref(), Some("slurm/\u{e9}"));
    let body = br#"{"specversion":"1.0","id":"a b","source":"slurm/\u00e9","type":"node.busy",
        "time":"2021-02-10T00:08:00Z","data":{"node":"n1"}}"#;
    let structured = [(
        "content-type",
        "application/cloudevents+json; charset=utf-8",
    )];
    assert_eq!(read(structured, body).unwrap(), binary);
}

#[test]
fn a_list_is_read_element_by_element() {
    let list = serde_json::json!([
        {"specversion": "1.0", "id": "1", "source": "s", "type": "node.busy", "data": {"node": "a"}},
        {"type": "node.idle", "node": "b"},
        {"type": "node.idle"},
        [],
    ]);
    let (json, pack) = (list.to_string(), rmp_serde::to_vec_named(&list).unwrap());
    let batch = [
        ("content-type", "application/cloudevents-batch+json"),
        ("ce-id", "of the list, which is no event"),
    ];
    let read = [
        read_all(batch, json.as_bytes()),
        read_all([], json.as_bytes()),
        read_all([], &pack),
    ];
    for parts in read {
        let kinds: Vec<_> = parts
            .iter()
            .map(|p| p.event.as_ref().map(|e| (e.id.as_deref(), e.kind.clone())))
            .collect();
        let (a, b) = (node("a"), node("b"));
        assert_eq!(kinds[0], Ok((Some("1"), EventKind::NodeBusy { node: a })));
        assert_eq!(kinds[1], Ok((None, EventKind::NodeIdle { node: b })));
        assert!(matches!(
            kinds[2],
            Err(ExternalError::Missing { field: "node", .. })
        ));
        assert!(matches!(kinds[3], Err(ExternalError::NotAnObject { .. })));
        assert_eq!(kinds.len(), 4);
        // A refused event carries its own payload only.
        assert_eq!(*parts[2].payload, *br#"{"type":"node.idle"}"#);
    }
    assert_eq!(read_all([JSON], b"[]"), []);
}

#[test]
fn message_pack_is_read_too() {
    let body = serde_json::json!({"type": "job.planned", "job": 7, "nodes": ["a", "b"],
        "start": 100});
    let bytes = rmp_serde::to_vec_named(&body).unwrap();
    let expected = EventKind::JobPlanned {
        job: "7".to_owned(),
        nodes: vec![node("a"), node("b")],
        start: Timestamp::from_unix(100),
    };
    assert_eq!(read([], &bytes).unwrap().kind, expected);
    let typed = [("content-type", "application/msgpack")];
    assert_eq!(read(typed, &bytes).unwrap().kind, expected);
}

#[test]
fn a_wanted_node_needs_no_deadline() {
    let deadline = |body: &str| match read([], body.as_bytes()).unwrap().kind {
        EventKind::NodeWanted { deadline, .. } => deadline,
        other => panic!("{other:?}"),
    };
    let given = r#"{"type":"node.wanted","node":"a","time":50,"deadline":80}"#;
    assert_eq!(deadline(given), Timestamp::from_unix(80));
    let own = r#"{"type":"node.wanted","node":"a","time":50}"#;
    assert_eq!(deadline(own), Timestamp::from_unix(50));
    let bare = r#"{"type":"node.wanted","node":"a","dataversion":"1"}"#;
    assert_eq!(deadline(bare), Timestamp::default());
}

#[test]
fn a_snapshot_lists_holes_or_names() {
    let body = br#"{"type":"snapshot","time":50,"idle":["a",{"node":"b","since":20}]}"#;
    let hole = |name: &str, since| Hole {
        node: node(name),
        since: Timestamp::from_unix(since),
    };
    let idle = vec![hole("a", 50), hole("b", 20)];
    assert_eq!(read([], body).unwrap().kind, EventKind::Snapshot { idle });
    let error = refused(&[], r#"{"type":"snapshot","idle":["a"]}"#);
    assert!(error.contains("since"), "{error}");
}

#[test]
fn refusals_name_the_accepted_values() {
    for (headers, body, expected) in [
        (&[][..], "{", "cannot be read"),
        (&[], "[1]", "a list"),
        (&[], "{}", "no field \"type\""),
        (&[], r#"{"type":"node.idle"}"#, "no field \"node\""),
        (&[], r#"{"type":"node.idle","node":7}"#, "a node name"),
        (
            &[],
            r#"{"type":"node.idle","node":"two words"}"#,
            "of A-Z a-z 0-9",
        ),
        (&[], r#"{"type":"node.gone","node":"a"}"#, "node.wanted"),
        (
            &[],
            r#"{"type":"node.released","node":"a"}"#,
            "unknown event type",
        ),
        (
            &[],
            r#"{"type":"node.idle","node":"a","time":"noon"}"#,
            "seconds since 1970",
        ),
        (
            &[],
            r#"{"type":"node.wanted","node":"a","deadline":"soon"}"#,
            "deadline",
        ),
        (&[], "", "empty"),
        (&[], "node.idle a01", "neither JSON nor"),
        (&[], "7", "neither JSON nor"),
        (
            &[("ce-specversion", "0.3"), JSON],
            r#"{"type":"node.idle","node":"a"}"#,
            "ce-specversion is \"0.3\"",
        ),
        (
            &[],
            r#"{"specversion":"2.0","type":"node.idle","data":{"node":"a"}}"#,
            "ce-specversion is \"2.0\"",
        ),
        (
            &[],
            r#"{"type":"node.idle","node":"a","dataversion":"2"}"#,
            "version \"2\"",
        ),
        (
            &[],
            r#"{"type":"node.idle","node":"a","version":2}"#,
            "version \"2\"",
        ),
        (
            &[("ce-dataversion", "3"), JSON],
            r#"{"type":"node.idle"}"#,
            "version \"3\"",
        ),
        (&[("content-type", "text/xml")], "<a/>", "text/xml"),
    ] {
        let error = refused(headers, body);
        assert!(error.contains(expected), "{body}: {error}");
    }
}

proptest! {
    #[test]
    fn reading_never_panics(bytes: Vec<u8>, kind in "\\PC{0,20}") {
        let _ = read([("content-type", kind.as_str())], &bytes);
        let _ = read([JSON], &bytes);
        let _ = read([], &bytes);
    }

    #[test]
    fn reading_never_panics_on_nearly_right_events(
        name in "[a-z.]{0,12}", field in "[a-z]{0,8}", value in any::<i64>(), text in "\\PC{0,9}"
    ) {
        let body = serde_json::json!({"type": name, field: value, "node": text, "idle": [value]});
        let _ = read([], body.to_string().as_bytes());
    }
}
