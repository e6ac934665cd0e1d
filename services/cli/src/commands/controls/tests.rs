//! Tests of patterns, days and caps, and of the reasons for withheld nodes.

use super::*;

#[test]
fn ranges_of_days_wrap_around_the_end_of_the_week() {
    let read = |text: &str| days(text).map(|days| days.0.join(" "));
    assert_eq!(read("mon-fri").unwrap(), "mon tue wed thu fri");
    assert_eq!(read("sun,tue").unwrap(), "tue sun");
    assert_eq!(read("sat-mon").unwrap(), "mon sat sun");
    assert_eq!(read("wed-wed").unwrap(), "wed");
    assert!(read("monday").unwrap_err().contains("expected one of"));
}

#[test]
fn lists_are_split_outside_brackets_and_none_is_an_empty_list() {
    let of = |texts: &[&str]| list(texts.iter().map(|t| (*t).to_owned()).collect());
    assert_eq!(of(&["a[1,3],b", "c"]), ["a[1,3]", "b", "c"]);
    assert!(of(&["none"]).is_empty());
}

#[test]
fn the_reason_for_a_withheld_node_is_named() {
    let node = NodeId::new("a").unwrap();
    let mut state = UseState::default();
    assert_eq!(why_withheld(None, &state, &node), None);
    state
        .withheld
        .insert(WithheldBy::Drained, vec![node.clone()]);
    let mut controls = Controls::default();
    controls.drained.insert(
        node.clone(),
        lacuna_model::Drain {
            by: "op".to_owned(),
            since: Timestamp::from_unix(0),
            reason: "fan".to_owned(),
        },
    );
    let why = why_withheld(Some(&controls), &state, &node).unwrap();
    assert!(why.contains("by op") && why.contains("fan"), "{why}");
}
