//! Snapshots of `sinfo`: starts and ends of holes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests may panic"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};
use std::path::Path;

use lacuna_model::HoleRecord;
use lacuna_skip::{data, or_skip};
use lacuna_trace::{Damage, Format, Log, ReadError, Reading};

fn read(text: &str, strict: bool) -> Result<(Vec<HoleRecord>, Damage), ReadError> {
    let reading = Reading {
        format: Some(Format::Sinfo),
        strict,
        ..Reading::default()
    };
    let stream = Cursor::new(text.as_bytes().to_vec());
    all(Log::from_stream(
        Path::new("log"),
        Box::new(stream),
        &reading,
    )?)
}

fn all(log: Log) -> Result<(Vec<HoleRecord>, Damage), ReadError> {
    let Log::Holes(mut log) = log else {
        panic!("a log of jobs");
    };
    let records: Result<Vec<_>, _> = log.by_ref().collect();
    Ok((records?, log.damage().clone()))
}

fn shown(records: &[HoleRecord]) -> Vec<String> {
    let one = |hole: &HoleRecord| {
        let (from, until) = (hole.from.unix_seconds(), hole.until.unix_seconds());
        let end = if hole.censored { "..." } else { "" };
        format!("{} {from}-{until}{end}", hole.node)
    };
    records.iter().map(one).collect()
}

fn good(text: &str) -> Vec<String> {
    let (records, damage) = read(text, false).unwrap();
    assert_eq!(damage, Damage::default());
    shown(&records)
}

#[test]
fn a_full_machine_has_observations_too() {
    let idle = "lowprio up 12:00:00 1 idle p1\n";
    let text = format!("1000\n----\n1010\n{idle}----\n1020\n----\n1030\n----\n9000\n----\n");
    let reading = Reading::default();
    let stream = Box::new(Cursor::new(text.into_bytes()));
    let Log::Holes(mut log) = Log::from_stream(Path::new("log"), stream, &reading).unwrap() else {
        panic!("a log of jobs");
    };
    assert_eq!(log.by_ref().count(), 1);
    // A leap in time without confirmation is not accepted.
    let seconds = log
        .span()
        .map(|(from, until)| (from.unix_seconds(), until.unix_seconds()));
    assert_eq!(seconds, Some((1000.0, 1030.0)));
}

#[test]
fn only_idle_nodes_and_those_of_pilots_are_holes() {
    let text = "1000\n\
        invokers: p1,p2\n\
        lowprio      up   12:00:00      3   idle p[0003-0005]\n\
        lowprio      up   12:00:00      1  idle~ p6\n\
        lowprio      up   12:00:00      1  idle# p7\n\
        lowprio      up   12:00:00      1  idle% p8\n\
        lowprio      up   12:00:00      1  idle* p9\n\
        lowprio      up   12:00:00      1  idle- p10\n\
        lowprio      up   12:00:00      2  alloc p[11-12]\n\
        closed     down   12:00:00      1   idle p13\n\
        ----\n\
        1010\n\
        invokers: p3\n\
        PARTITION AVAIL TIMELIMIT NODES STATE NODELIST\n\
        lowprio      up   infinite      1   idle p2\n\
        other        up   infinite      1   idle p2\n\
        ----\n\
        1020\n\
        invokers:\n\
        ----\n\
        1030\n\
        ----\n\
        1040\n\
        invokers: p1\n\
        ----\n\
        1050\n\
        invokers: p1,p5\n\
        ----\n";
    // p5 is only in the last block, so its hole has no length yet.
    assert_eq!(
        good(text),
        [
            "p1 1000-1010",
            "p0003 1000-1010",
            "p0004 1000-1010",
            "p0005 1000-1010",
            "p2 1000-1020",
            "p3 1010-1020",
            "p1 1040-1050..."
        ]
    );
}

#[test]
fn a_damaged_block_ends_no_hole_and_is_located() {
    let begin = "1000\ninvokers: a,b\n----\n";
    let end = "1020\ninvokers: a\n----\n";
    for (block, place) in [
        ("1010\ninvokers: a,b[1-\n----\n", "5 invokers"),
        ("1010\nx up 1:00 2 idle a\n----\n", "5 column 6 (NODELIST)"),
        ("1010\nx up 1:00 n idle a\n----\n", "5 column 4 (NODES)"),
        (
            "1010\nslurm_load_partitions: Unable to contact slurm controller\n----\n",
            "5 column 4 (NODES)",
        ),
        ("1010\nx up 1:00 1 idle\n----\n", "5 line of sinfo"),
        ("x1010\ninvokers: a\n----\n", "4 time"),
        ("invokers: a\n----\n", "4 time"),
        ("999\ninvokers: c\n----\n", "4 time"),
        ("1000\ninvokers: c\n----\n", "4 time"),
        ("99999999999999\ninvokers: c\n----\n", "4 time"),
        // The end mark is missing: the block is skipped, the next one counts.
        ("1010\ninvokers: c\n", "6 end of block"),
        // A time that leaps ahead, which the next block contradicts.
        ("9000\ninvokers: c\n----\n", "9 time of the block before"),
    ] {
        let text = format!("{begin}{block}{end}");
        let (records, damage) = read(&text, false).unwrap();
        let line = &damage.first[0];
        assert_eq!(format!("{} {}", line.line, line.at.place), place);
        assert_eq!(damage.lines, 1, "{block}");
        assert_eq!(
            shown(&records),
            ["b 1000-1020", "a 1000-1020..."],
            "{block}"
        );
        let error = read(&text, true).unwrap_err().to_string();
        assert!(error.starts_with("log: line "), "{error}");
        assert!(error.contains(&place[2..]), "{error}");
    }
}

#[test]
fn a_gap_ends_holes_with_the_last_block_before_it() {
    let text = "1000\ninvokers: a,b\n----\n1600\ninvokers: a,b\n----\n\
        3000\ninvokers: a\n----\n3010\ninvokers: a\n----\n";
    assert_eq!(good(text), ["a 1000-1600", "b 1000-1600", "a 3000-3010..."]);
    // The last time is not confirmed: the states after it are unknown.
    let text = "1000\ninvokers: a\n----\n1010\ninvokers: a\n----\n9000\ninvokers: a\n----\n";
    assert_eq!(good(text), ["a 1000-1010..."]);
}

#[test]
fn a_block_that_is_cut_off_is_skipped() {
    let text = "1000\ninvokers: a,bcd\n----\n1010\ninvokers: a,bcd\n----\n1020\ninvokers: a,b";
    assert_eq!(good(text), ["a 1000-1010...", "bcd 1000-1010..."]);
}

#[test]
fn short_lists_of_many_nodes_do_not_take_all_memory() {
    let mut text =
        "1000\ninvokers: a[0-999998]\n----\n1010\ninvokers: a[0-999998]\n----\n".to_owned();
    for at in 0..2 {
        let time = 1020 + at * 10;
        text += &format!("{time}\ninvokers: b{at}[0-999999]\n----\n");
    }
    let (records, damage) = read(&text, false).unwrap();
    assert_eq!((records.len(), damage.lines), (999_999, 2));
    assert_eq!(damage.first[0].at.place, "invokers");
    assert!(records.iter().all(|hole| hole.censored));
}

#[test]
fn it_is_distinguished_from_other_formats() {
    let head = b"\n1647471604\ninvokers: p1\nlowprio up 12:00:00 1 idle p2\n----\n1647471618\n";
    assert_eq!(Format::detect(head), Some(Format::Sinfo));
    assert_ne!(
        Format::detect(b"1647471604\n1647471618\n"),
        Some(Format::Sinfo)
    );
    assert_ne!(Format::detect(b"----\n1647471618\n"), Some(Format::Sinfo));
}

/// The available nodes of each block, by another method than the parser's.
fn blocks(text: &str) -> Vec<(i64, BTreeSet<String>)> {
    let mut found = Vec::new();
    for block in text.split("\n----\n") {
        let mut lines = block.lines();
        let Some(time) = lines.next() else { continue };
        let mut nodes = BTreeSet::new();
        for line in lines {
            let list = match line.strip_prefix("invokers:") {
                Some(list) => list.trim(),
                None => {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    match words.as_slice() {
                        [.., "idle", list] => *list,
                        _ => continue,
                    }
                }
            };
            match list
                .strip_prefix("p[")
                .and_then(|list| list.strip_suffix(']'))
            {
                None => nodes.extend(list.split(',').filter(|n| !n.is_empty()).map(String::from)),
                Some(ranges) => {
                    for range in ranges.split(',') {
                        let (from, to) = range.split_once('-').unwrap_or((range, range));
                        let (from, to): (u32, u32) = (from.parse().unwrap(), to.parse().unwrap());
                        nodes.extend((from..=to).map(|number| format!("p{number:04}")));
                    }
                }
            }
        }
        found.push((time.parse().unwrap(), nodes));
    }
    found
}

#[test]
fn the_holes_of_the_sample_agree_with_a_second_computation() {
    let path = or_skip!(data("prometheus-2022-03/17_03_2022_idle_nodes.txt.gz"));
    let log = Log::open(&path, &Reading::default()).unwrap();
    assert_eq!(log.format(), Format::Sinfo);
    let (records, damage) = all(log).unwrap();
    assert_eq!(damage, Damage::default());

    let mut text = String::new();
    lacuna_trace::open(&path)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let blocks = blocks(&text);
    assert_eq!(blocks.len(), 8057);
    // Node by node over all blocks; the parser goes block by block over all nodes.
    let all: BTreeSet<&String> = blocks.iter().flat_map(|(_, nodes)| nodes).collect();
    let mut expected: BTreeMap<(String, i64), (i64, bool)> = BTreeMap::new();
    for node in all {
        let mut since = None;
        for (time, nodes) in &blocks {
            match (since, nodes.contains(node)) {
                (None, true) => since = Some(*time),
                (Some(from), false) => {
                    expected.insert((node.clone(), from), (*time, false));
                    since = None;
                }
                _ => {}
            }
        }
        let last = blocks[blocks.len() - 1].0;
        if let Some(from) = since.filter(|&from| from < last) {
            expected.insert((node.clone(), from), (last, true));
        }
    }
    let found: BTreeMap<(String, i64), (i64, bool)> = records
        .iter()
        .map(|hole| {
            let (from, until) = (hole.from.unix_ms() / 1000, hole.until.unix_ms() / 1000);
            ((hole.node.to_string(), from), (until, hole.censored))
        })
        .collect();
    assert_eq!(found.len(), records.len(), "no hole twice");
    assert!(
        found == expected,
        "{} holes, not {}",
        found.len(),
        expected.len()
    );

    // Conservation: the node time of the holes equals that of the blocks.
    let seconds: i64 = found
        .iter()
        .map(|((_, from), (until, _))| until - from)
        .sum();
    let pool: i64 = blocks
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0) * pair[0].1.len() as i64)
        .sum();
    assert_eq!(seconds, pool);
    let span = blocks[blocks.len() - 1].0 - blocks[0].0;
    let mean = seconds as f64 / span as f64;
    println!(
        "{} holes, {:.1} node-hours, {mean:.2} nodes on average over {:.2} h",
        found.len(),
        seconds as f64 / 3600.0,
        span as f64 / 3600.0
    );
    assert!(found.len() > 1000 && mean > 1.0);
}

#[test]
fn a_partition_without_nodes_says_nothing_of_any_node() {
    let path = lacuna_skip::or_skip!(lacuna_skip::data("cases/sinfo-empty-partition/input.txt"));
    let whole = std::fs::read_to_string(path).unwrap();
    let without: String = whole
        .lines()
        .filter(|line| !line.starts_with("future"))
        .map(|line| format!("{line}\n"))
        .collect();
    let read = |text: &str| {
        let stream = std::io::Cursor::new(text.as_bytes().to_vec());
        let reading = lacuna_trace::Reading::default();
        let path = std::path::Path::new("log");
        let log = lacuna_trace::Log::from_stream(path, Box::new(stream), &reading).unwrap();
        let lacuna_trace::Log::Holes(mut log) = log else {
            panic!("holes");
        };
        let holes: Vec<_> = (&mut log).map(Result::unwrap).collect();
        (holes, log.damage().lines)
    };
    let expected = read(&without);
    assert_eq!((expected.0.len(), expected.1), (2, 0));
    for line in [
        "future up infinite 0 n/a ",
        "future up infinite 0 n/a",
        "future up infinite 0 n/a n/a",
        "future inact 1:00:00 0 n/a (null)",
        "future* up infinite 0 n/a\t",
    ] {
        let text = whole.replace("future up infinite 0 n/a ", line);
        assert_eq!(read(&text), expected, "{line}");
    }
}

#[test]
fn lines_of_a_second_cluster_are_refused_or_left_out() {
    let block = |at: u32, west: &str| {
        format!(
            "{at}\nCLUSTER: east\nbatch* up 1:00:00 1 idle n1\nCLUSTER: west\n\
             batch* up 1:00:00 1 {west} n1\n----\n"
        )
    };
    let text = format!(
        "{}{}{}",
        block(10, "idle"),
        block(20, "alloc"),
        block(30, "alloc")
    );
    let read = |cluster: Option<&str>| {
        let stream = std::io::Cursor::new(text.as_bytes().to_vec());
        let reading = lacuna_trace::Reading {
            cluster: cluster.map(str::to_owned),
            ..lacuna_trace::Reading::default()
        };
        let path = std::path::Path::new("log");
        let log = lacuna_trace::Log::from_stream(path, Box::new(stream), &reading).unwrap();
        let lacuna_trace::Log::Holes(log) = log else {
            panic!("holes");
        };
        log.map(|hole| hole.map(|hole| hole.until.unix_seconds() as u32))
            .collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(read(Some("east")).unwrap(), [30]);
    assert_eq!(read(Some("west")).unwrap(), [20]);
    let error = read(None).unwrap_err().to_string();
    assert!(error.contains("clusters east, west"), "{error}");
    assert!(read(Some("north")).is_err());
}
