//! Hole lists: accepted and refused lines, and the messages of errors.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::Write;
use std::path::{Path, PathBuf};

use lacuna_model::{HoleRecord, NodeId, Timestamp};
use lacuna_skip::{data, or_skip};
use lacuna_trace::{
    Compression, HoleList, HoleReader, HoleWriter, ReadError, Refused, read_holes, read_nodes,
};

const HEAD: &str = "node,idle_from,idle_until,censored\n";

fn read(text: &str) -> Result<HoleList, ReadError> {
    HoleList::collect(HoleReader::new(Path::new("holes.csv"), text.as_bytes())?)
}

fn complaint(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

fn hole(node: &str, from_ms: i64, until_ms: i64, censored: bool) -> HoleRecord {
    HoleRecord {
        node: NodeId::new(node).unwrap(),
        from: Timestamp::from_unix_ms(from_ms),
        until: Timestamp::from_unix_ms(until_ms),
        censored,
    }
}

#[test]
fn a_well_formed_list_is_read() {
    let list = read(&format!("{HEAD}a,10,20,0\nb.x, 11.5 ,30,1\r\n")).unwrap();
    let expected = [
        hole("a", 10_000, 20_000, false),
        hole("b.x", 11_500, 30_000, true),
    ];
    assert_eq!(list.records, expected);
    assert_eq!(list.refused, Refused::default());
    assert_eq!(list.end(), Some(Timestamp::from_unix(30)));
}

#[test]
fn errors_name_line_column_expectation_and_finding() {
    for (text, expected) in [
        (
            String::new(),
            "holes.csv: the file is empty: expected node,idle_from,idle_until,censored",
        ),
        (
            "host,from\n".into(),
            "holes.csv: line 1: expected the header \"node,idle_from,idle_until,censored\", \
             found \"host,from\"",
        ),
        (
            format!("{HEAD}a,10,20,0\n\na,30,40\n"),
            "holes.csv: line 4: expected 4 columns (node,idle_from,idle_until,censored), found 3",
        ),
        (
            format!("{HEAD}a,10,20,0,7\n"),
            "holes.csv: line 2: expected 4 columns (node,idle_from,idle_until,censored), found 5",
        ),
        (
            format!("{HEAD}a,10,20,0\na,soon,40,0\n"),
            "holes.csv: line 3, column 2 (idle_from): expected a time in Unix seconds, found \"soon\"",
        ),
        (
            format!("{HEAD}a,1612918128000,40,0\n"),
            "holes.csv: line 2, column 2 (idle_from): expected a time in Unix seconds, \
             found \"1612918128000\"",
        ),
        (
            format!("{HEAD}a,10,-20,0\n"),
            "holes.csv: line 2, column 3 (idle_until): expected a time in Unix seconds, found \"-20\"",
        ),
        (
            format!("{HEAD}a,10,NaN,0\n"),
            "holes.csv: line 2, column 3 (idle_until): expected a time in Unix seconds, found \"NaN\"",
        ),
        (
            format!("{HEAD}a,10,20,yes\n"),
            "holes.csv: line 2, column 4 (censored): expected 0 or 1, found \"yes\"",
        ),
        (
            format!("{HEAD}two words,10,20,0\n"),
            "holes.csv: line 2, column 1 (node): expected a node name of 1 to 255 of A-Z \
             a-z 0-9 _ - . and no - or . in front, found \"two words\"",
        ),
    ] {
        assert_eq!(complaint(&text), expected);
    }
}

#[test]
fn contradictions_are_counted_and_refused() {
    let list = read(&format!(
        "{HEAD}a,10,20,0\na,10,20,0\na,15,30,0\nb,40,40,0\nb,40,30,0\nc,5,6,0\na,20,25,0\n"
    ))
    .unwrap();
    let expected = Refused {
        not_positive: 2,
        duplicates: 1,
        overlaps: 1,
        out_of_order: 1,
    };
    assert_eq!(list.refused, expected);
    assert_eq!(list.refused.total(), 4);
    let kept: Vec<_> = list
        .records
        .iter()
        .map(|r| (r.node.as_str(), r.from.unix_ms()))
        .collect();
    assert_eq!(kept, [("c", 5_000), ("a", 10_000), ("a", 20_000)]);
}

fn packed(records: &[HoleRecord], compression: Compression) -> Vec<u8> {
    let mut writer = HoleWriter::new(Vec::new(), compression).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap()
}

fn file(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::File::create(&path)
        .unwrap()
        .write_all(bytes)
        .unwrap();
    path
}

#[test]
fn written_lists_are_read_back_plain_or_packed() {
    let dir = tempfile::tempdir().unwrap();
    let records = [
        hole("a", 1_500, 20_000, false),
        hole("b", 2_000, 30_000, true),
    ];
    for compression in [Compression::Plain, Compression::Gzip] {
        // The first bytes decide on the compression, not the name.
        let path = file(&dir, "holes", &packed(&records, compression));
        assert_eq!(read_holes(&path).unwrap().records, records);
    }
}

#[test]
fn a_packed_list_that_is_cut_short_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let records: Vec<_> = (0..5_000)
        .map(|i| hole("n", i * 7919, i * 7919 + 5 + i % 100, false))
        .collect();
    let bytes = packed(&records, Compression::Gzip);
    for keep in [bytes.len() - 1, bytes.len() / 2, 5] {
        let path = file(&dir, "cut.csv.gz", &bytes[..keep]);
        let error = read_holes(&path).unwrap_err();
        assert!(
            matches!(error, ReadError::Truncated { .. }),
            "{keep} bytes: {error}"
        );
        assert!(
            error.to_string().contains("is cut short after line"),
            "{error}"
        );
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = read_holes(Path::new("/nowhere/holes.csv"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot open /nowhere/holes.csv: "),
        "{error}"
    );
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        read_holes(dir.path()),
        Err(ReadError::Open { .. })
    ));
}

#[test]
fn a_list_of_nodes_keeps_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "nodes.txt", b"b2\n\n# comment\na1\n");
    let names: Vec<_> = read_nodes(&path)
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(names, ["b2", "a1"]);
    let path = file(&dir, "twice.txt", b"a\nb\na\n");
    let error = read_nodes(&path).unwrap_err().to_string();
    assert!(
        error.contains("line 3, column 1 (node): expected a name that does not stand there yet"),
        "{error}"
    );
}

#[test]
fn the_trace_has_the_number_of_holes_of_its_description() {
    let path = or_skip!(data("summit-2021-02/holes.csv.gz"));
    let list = read_holes(&path).unwrap();
    assert_eq!(list.records.len(), 354_196);
    assert_eq!(list.refused, Refused::default());
    let nodes = read_nodes(&path.with_file_name("nodes.txt")).unwrap();
    assert_eq!(nodes.len(), 4_734);
}
