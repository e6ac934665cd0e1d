//! Lists of planned starts: accepted and refused lines, and the messages of errors.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;

use lacuna_model::{HoleRecord, NodeId, PlannedStart, Timestamp};
use lacuna_trace::{
    Compression, PlannedList, PlannedWriter, ReadError, Window, event_batches, read_planned,
};
use proptest::prelude::*;

const HEAD: &str = "at,node,start\n";

fn hole(node: &str, from: i64, until: i64, censored: bool) -> HoleRecord {
    HoleRecord {
        node: NodeId::new(node).unwrap(),
        from: Timestamp::from_unix(from),
        until: Timestamp::from_unix(until),
        censored,
    }
}

fn planned(at: i64, node: &str, start: Option<i64>) -> PlannedStart {
    PlannedStart {
        at: Timestamp::from_unix(at),
        node: NodeId::new(node).unwrap(),
        start: start.map(Timestamp::from_unix),
    }
}

/// Node `a` has holes in 10..20 and in 30..40, `b` a censored hole until 50.
fn holes() -> Vec<HoleRecord> {
    vec![
        hole("a", 10, 20, false),
        hole("a", 30, 40, false),
        hole("b", 10, 50, true),
    ]
}

fn read(bytes: &[u8]) -> Result<PlannedList, ReadError> {
    let dir = tempfile::tempdir().unwrap();
    // The first bytes decide on the compression, not the name.
    let path = dir.path().join("planned");
    std::fs::write(&path, bytes).unwrap();
    read_planned(&path, &holes())
}

fn packed(starts: &[PlannedStart], compression: Compression) -> Vec<u8> {
    let mut writer = PlannedWriter::new(Vec::new(), compression).unwrap();
    for planned in starts {
        writer.write(planned).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn written_lists_are_read_back_plain_or_packed() {
    let mut starts = vec![
        planned(10, "a", Some(25)),
        planned(10, "b", Some(60)),
        planned(12, "a", None),
    ];
    starts[2].at = Timestamp::from_unix_ms(12_500);
    for compression in [Compression::Plain, Compression::Gzip] {
        let list = read(&packed(&starts, compression)).unwrap();
        assert_eq!((list.starts, list.without_hole), (starts.clone(), 0));
    }
    let plain = packed(&starts, Compression::Plain);
    assert_eq!(
        String::from_utf8(plain).unwrap(),
        format!("{HEAD}10,a,25\n10,b,60\n12.5,a,\n")
    );
}

#[test]
fn lines_may_have_any_order_and_those_without_a_hole_are_counted() {
    let text = format!(
        "{HEAD}30,a,99\n20,a,99\n\n10,b,30\n9,a,99\n15,c,99\r\n12,a,50\n12,a,60\n12,a,55\n51,b,60\n"
    );
    let list = read(text.as_bytes()).unwrap();
    let expected = [
        planned(10, "b", Some(30)),
        planned(12, "a", Some(55)),
        planned(30, "a", Some(99)),
        planned(51, "b", Some(60)),
    ];
    assert_eq!(list.starts, expected);
    // The hole of 10..20 is over at 20; node c does not exist.
    assert_eq!(list.without_hole, 3);
}

#[test]
fn errors_name_line_column_expectation_and_finding() {
    for (text, expected) in [
        (String::new(), "the file is empty: expected at,node,start"),
        (
            "node,at,start\n".into(),
            "line 1: expected the header \"at,node,start\", found \"node,at,start\"",
        ),
        (
            format!("{HEAD}10,a,25\n\n10,a\n"),
            "line 4: expected 3 columns (at,node,start), found 2",
        ),
        (
            format!("{HEAD}soon,a,25\n"),
            "line 2, column 1 (at): expected a time in Unix seconds, found \"soon\"",
        ),
        (
            format!("{HEAD}10,two words,25\n"),
            "line 2, column 2 (node): expected a node name of 1 to 255 of A-Z a-z 0-9 _ - . \
             and no - or . in front, found \"two words\"",
        ),
        (
            format!("{HEAD}10,a,never\n"),
            "line 2, column 3 (start): expected a time in Unix seconds, found \"never\"",
        ),
        (
            format!("{HEAD}10,a,10\n"),
            "line 2, column 3 (start): expected a time after column 1 (at), or nothing, \
             found \"10\"",
        ),
    ] {
        let message = read(text.as_bytes()).unwrap_err().to_string();
        assert!(message.ends_with(expected), "{message}");
    }
    let bytes = packed(&vec![planned(10, "a", Some(25)); 999], Compression::Gzip);
    let cut = read(bytes.get(..bytes.len() / 2).unwrap()).unwrap_err();
    assert!(matches!(cut, ReadError::Truncated { .. }), "{cut}");
    let missing = read_planned(Path::new("/nowhere/planned.csv"), &[]).unwrap_err();
    assert!(matches!(missing, ReadError::Open { .. }), "{missing}");
}

/// Each batch as text: its second, the nodes that leave and come, the changes of planned starts.
fn texts(starts: &[PlannedStart], window: (Option<i64>, Option<i64>)) -> Vec<String> {
    let window = Window {
        start: window.0.map(Timestamp::from_unix),
        end: window.1.map(Timestamp::from_unix),
    };
    let batches = event_batches(&holes(), starts, None, window);
    let one = |m: &lacuna_trace::EventBatch| {
        let minus: String = m.closed.iter().map(|n| format!(" -{n}")).collect();
        let plus: String = m.opened.iter().map(|h| format!(" +{}", h.node)).collect();
        let second = |at: &Timestamp| at.unix_seconds().to_string();
        let planned = m.planned.iter().map(|(node, start)| {
            let start = start.as_ref().map_or("none".to_owned(), second);
            format!(" {node}:{start}")
        });
        let planned: String = planned.collect();
        format!("{}{minus}{plus}{planned}", m.at.unix_seconds())
    };
    batches.iter().map(one).collect()
}

#[test]
fn planned_starts_are_reported_as_changes_and_end_with_their_holes() {
    let starts = [
        planned(10, "b", Some(45)),
        planned(10, "a", Some(18)),
        planned(12, "b", Some(45)),
        planned(14, "b", None),
        planned(15, "b", None),
        planned(20, "a", Some(99)),
        planned(30, "a", Some(48)),
        planned(35, "a", Some(47)),
        planned(35, "b", Some(46)),
        planned(40, "a", Some(99)),
    ];
    assert_eq!(
        texts(&starts, (None, None)),
        [
            "10 +a +b a:18 b:45",
            // Second 12 has no change; the hole that ends in second 20 ends its planned start.
            "14 b:none",
            "20 -a",
            "30 +a a:48",
            "35 a:47 b:46",
            "40 -a",
        ]
    );
    // A planned start that holds at the start of a window is reported there, unless it is of an
    // earlier hole.
    assert_eq!(
        texts(&starts, (Some(13), Some(14))),
        ["13 +a +b a:18 b:45", "14 b:none"]
    );
    assert_eq!(texts(&starts, (Some(19), Some(19))), ["19 +a +b a:20"]);
    assert_eq!(texts(&starts, (Some(30), Some(34))), ["30 +a +b a:48"]);
    assert_eq!(texts(&starts, (Some(31), Some(34))), ["31 +a +b a:48"]);
    assert_eq!(texts(&starts, (Some(25), Some(25))), ["25 +b"]);
}

#[test]
fn a_planned_start_that_has_long_passed_is_withdrawn_in_the_next_batch() {
    let records = [
        hole("a", 0, 9_000, false),
        hole("b", 3_700, 3_701, false),
        hole("b", 8_000, 8_001, false),
    ];
    let starts = [planned(0, "a", Some(100))];
    let at = |start: i64| {
        let window = Window {
            start: Some(Timestamp::from_unix(start)),
            end: None,
        };
        let changes = event_batches(&records, &starts, None, window).into_iter();
        let changes = changes.flat_map(|m| m.planned.into_iter().map(move |p| (m.at, p.1)));
        let second = |at: Timestamp| at.unix_ms() / 1000;
        let changes = changes.map(|(at, start)| (second(at), start.map(second)));
        changes.collect::<Vec<_>>()
    };
    // Second 3700 is an hour after it, and no more.
    assert_eq!(at(0), [(0, Some(100)), (3_701, None)]);
    assert_eq!(at(3_700), [(3_700, Some(3_701)), (8_000, None)]);
    assert_eq!(at(3_702), []);
}

proptest! {
    #[test]
    fn mutated_lists_never_panic(
        at in 0_usize..60,
        with in proptest::collection::vec(any::<u8>(), 0..6),
        cut in 0_usize..6,
    ) {
        let starts = [planned(10, "a", Some(25)), planned(12, "b", None), planned(33, "a", Some(50))];
        let mut bytes = packed(&starts, Compression::Plain);
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, with);
        if let Ok(list) = read(&bytes) {
            prop_assert!(list.starts.len() <= 20);
            let of_holes = PlannedList::of(list.starts.clone(), &holes());
            prop_assert_eq!((of_holes.starts, of_holes.without_hole), (list.starts, 0));
        }
    }
}
