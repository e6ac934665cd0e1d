//! Hole lists and node states.

use lacuna_model::HoleRecord;
use lacuna_skip::{data, or_skip};
use lacuna_trace::{Damage, Format, Log, ReadError, Reading, read_holes};

use crate::logs::{as_format, located, text};

fn holes(log: Log) -> Result<(Vec<HoleRecord>, Damage), ReadError> {
    let Log::Holes(mut log) = log else {
        panic!("a log of jobs");
    };
    let records = log.by_ref().collect::<Result<_, _>>()?;
    Ok((records, log.damage().clone()))
}

fn shown(records: &[HoleRecord]) -> Vec<String> {
    let one = |hole: &HoleRecord| {
        let (from, until) = (hole.from.unix_seconds(), hole.until.unix_seconds());
        let open = if hole.censored { " open" } else { "" };
        format!("{} {from} {until}{open}", hole.node)
    };
    records.iter().map(one).collect()
}

const STATES: &str = "\
time,node,state
0,n1,idle
0,n2,ALLOCATED
0,n3,idle
1970-01-01T00:00:10Z,n1,busy
1970-01-01T00:00:10,n2,IDLE
15.5,n2,idle
20,n2,down
20,n1,free
20,n1,job-busy
30,n1,\"IDLE+DRAIN\"
30,n2,ok
35,n4,idle*
40,n4,idle
40,n2,idle-
45,n4,down,offline
50,n1,idle
60,n5,idle
";

#[test]
fn a_hole_lasts_from_idle_to_the_next_other_state() {
    let log = text(STATES, &Reading::default()).unwrap();
    assert_eq!(log.format(), Format::NodeStates);
    let (records, damage) = holes(log).unwrap();
    assert_eq!(damage.lines, 0, "{damage:?}");
    let expected = [
        "n1 0 10",
        "n2 10 20",
        "n2 30 40",
        "n4 40 45",
        "n1 50 60 open",
        "n3 0 60 open",
    ];
    assert_eq!(shown(&records), expected);
}

#[test]
fn damage_in_states_is_counted_with_line_and_column_or_refused() {
    for (bad, place) in [
        ("20,n2", "line"),
        ("soon,n2,idle", "column 1 (time)"),
        ("9,n2,idle", "column 1 (time)"),
        ("20,,idle", "column 2 (node)"),
        ("20,a b,idle", "column 2 (node)"),
        ("20,n2,asleep", "column 3 (state)"),
        ("20,n2,idle+asleep", "column 3 (state)"),
        ("20,n2,", "column 3 (state)"),
    ] {
        let log = format!("time,node,state\n10,n1,idle\n{bad}\n30,n1,busy\n");
        let (records, damage) = holes(text(&log, &Reading::default()).unwrap()).unwrap();
        assert_eq!(shown(&records), ["n1 10 30"], "{bad}");
        assert_eq!(located(&damage), [format!("3 {place}")], "{bad}");
        let strict = Reading {
            strict: true,
            ..as_format(Format::NodeStates)
        };
        let error = holes(text(&log, &strict).unwrap()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("log: line 3, {place}: expected ")),
            "{error}"
        );
    }
}

#[test]
fn a_log_of_states_has_a_first_and_a_last_observation() {
    let states = "time,node,state\n10,n1,busy\n20,n1,idle\n30,n1,busy\n90,n2,busy\n";
    let list = "node,idle_from,idle_until,censored\na,10,20,0\n";
    let at = lacuna_model::Timestamp::from_unix;
    // n2 was never idle, but the machine has it.
    for (log, expected, nodes) in [
        (states, Some((at(10), at(90))), Some(2)),
        (list, None, None),
    ] {
        let Log::Holes(mut log) = text(log, &Reading::default()).unwrap() else {
            panic!("a log of jobs");
        };
        assert_eq!(log.span(), None);
        assert_eq!(log.by_ref().count(), 1);
        assert_eq!(log.span(), expected);
        assert_eq!(log.nodes(), nodes);
    }
}

#[test]
fn hole_lists_are_logs_too_and_their_damage_is_located() {
    let head = "node,idle_from,idle_until,censored\n";
    let log = format!("{head}a,10,20,0\nb,11,x,0\nb,11\n\n{head}b,11,30.5,1\n");
    let opened = text(&log, &Reading::default()).unwrap();
    assert_eq!(opened.format(), Format::Holes);
    let (records, damage) = holes(opened).unwrap();
    assert_eq!(shown(&records), ["a 10 20", "b 11 30.5 open"]);
    assert_eq!(located(&damage), ["3 column 3 (idle_until)", "4 line"]);
    let found = damage.first[1].at.to_string();
    let expected = "line: expected 4 columns (node,idle_from,idle_until,censored), found 2";
    assert_eq!(found, expected);
}

#[test]
fn both_readers_of_holes_give_the_same_records() {
    let path = or_skip!(data("summit-2021-02/holes.csv.gz"));
    let (records, damage) = holes(Log::open(&path, &Reading::default()).unwrap()).unwrap();
    assert_eq!((records.len(), damage.lines), (354_196, 0));
    let list = read_holes(&path).unwrap();
    assert_eq!(list.records.len() as u64 + list.refused.total(), 354_196);
    assert!(
        list.records
            .iter()
            .eq(records.iter().filter(|hole| hole.until > hole.from))
    );
}
