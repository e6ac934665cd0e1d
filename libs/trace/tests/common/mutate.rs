//! Damaged logs: real lines with bytes flipped, fields dropped, doubled and swapped, numbers
//! enlarged, texts cut, and bytes that are no text; and properties of every log that is read.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic"
)]

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use lacuna_model::Timestamp;
use lacuna_skip::data;
use lacuna_trace::{Damage, Format, JobRecord, Log, ReadError, Reading};

/// Number of damaged lines of each test: `LACUNA_FUZZ_CASES`, else 20,000.
pub(crate) fn cases() -> u64 {
    let wanted = std::env::var("LACUNA_FUZZ_CASES").ok();
    wanted.map_or(20_000, |wanted| wanted.parse().unwrap())
}

/// About `most` lines of a sample, evenly from its beginning to its end. Without the sample there
/// are none, and this part of the test is omitted.
pub(crate) fn real(name: &str, most: usize) -> Vec<Vec<u8>> {
    let path = match data(name) {
        Ok(path) => path,
        Err(missing) => {
            missing.skip_part();
            return Vec::new();
        }
    };
    let mut plain = Vec::new();
    lacuna_trace::open(&path)
        .unwrap()
        .read_to_end(&mut plain)
        .unwrap();
    let lines: Vec<&[u8]> = plain
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .collect();
    let step = (lines.len() / most).max(1);
    lines
        .into_iter()
        .step_by(step)
        .map(<[u8]>::to_vec)
        .collect()
}

/// A reading of one format.
pub(crate) fn as_format(format: Format) -> Reading {
    Reading {
        format: Some(format),
        ..Reading::default()
    }
}

/// Random numbers, the same for the same seed (Vigna, SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    /// Seeded by `LACUNA_FUZZ_SEED`, else by 1; prints the seed.
    pub(crate) fn new(test: &str) -> Self {
        let seed = std::env::var("LACUNA_FUZZ_SEED").ok();
        let seed: u64 = seed.map_or(1, |seed| seed.parse().unwrap());
        println!("{test}: LACUNA_FUZZ_SEED={seed}");
        // Tests use the same seed in different ways.
        Self(
            test.bytes()
                .fold(seed, |seed, byte| seed.rotate_left(7) ^ u64::from(byte)),
        )
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.below(of.len());
        &of[at]
    }
}

/// Texts that have caused faults of parsers.
const NASTY: [&[u8]; 26] = [
    b"",
    b"0",
    b"-1",
    b"-0",
    b"1e9",
    b"NaN",
    b"inf",
    b"99999999999999999999",
    b"18446744073709551615",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"4294967296",
    b"253402300799",
    b"1.7976931348623157e308",
    b"0000-00-00T00:00:00",
    b"9999-12-31T23:59:59",
    b"0001-01-01T00:00:00",
    b"999999999-99:99:99",
    b"n[0-18446744073709551615]",
    b"n[1-1000][1-1000][1-1000]",
    b"n[[[",
    b"Unknown",
    b"\xff\xfe\x80",
    b"\xc3",
    b"\0",
    b"\"",
];

/// Makes one damaged line of several good ones.
pub(crate) struct Mutator<'a> {
    random: Random,
    good: &'a [Vec<u8>],
    delimiters: &'a [u8],
}

impl<'a> Mutator<'a> {
    /// `delimiters`: bytes that separate the fields of a line.
    pub(crate) fn new(test: &str, good: &'a [Vec<u8>], delimiters: &'a [u8]) -> Self {
        assert!(!good.is_empty());
        Self {
            random: Random::new(test),
            good,
            delimiters,
        }
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Fills `line` with a good line, damaged in none to four places. It never holds an end of
    /// line, so that lines can be counted.
    pub(crate) fn line(&mut self, line: &mut Vec<u8>) {
        line.clear();
        let good: &Vec<u8> = self.random.pick(self.good);
        line.extend_from_slice(good);
        for _ in 0..self.random.below(5) {
            self.damage(line);
        }
        for byte in line.iter_mut().filter(|byte| **byte == b'\n') {
            *byte = b' ';
        }
    }

    fn damage(&mut self, line: &mut Vec<u8>) {
        let at = self.random.below(line.len());
        match self.random.below(16) {
            0 if !line.is_empty() => line[at] ^= 1 << self.random.below(8),
            1 if !line.is_empty() => line[at] = self.random.next() as u8,
            2 if !line.is_empty() => {
                line.remove(at);
            }
            3 => line.insert(at, self.random.next() as u8),
            4 => line.truncate(at),
            5 => {
                let until = at + self.random.below(line.len() - at);
                line.drain(at..until);
            }
            6 => {
                let until = at + self.random.below((line.len() - at).min(40));
                let twice = line[at..until].to_vec();
                line.splice(at..at, twice);
            }
            7 => line.insert(at, *self.random.pick(self.delimiters)),
            8 => {
                let other = self.random.pick(self.good);
                let from = self.random.below(other.len());
                line.truncate(at);
                line.extend_from_slice(&other[from..]);
            }
            9 => {
                // A digit for a digit keeps the form and changes the value.
                let digits: Vec<usize> = (0..line.len())
                    .filter(|&at| line[at].is_ascii_digit())
                    .collect();
                if !digits.is_empty() {
                    let at = *self.random.pick(&digits);
                    line[at] = b'0' + self.random.below(10) as u8;
                }
            }
            _ => self.damage_fields(line),
        }
    }

    fn damage_fields(&mut self, line: &mut Vec<u8>) {
        let delimiter = *self.random.pick(self.delimiters);
        let mut fields: Vec<Vec<u8>> = line
            .split(|&byte| byte == delimiter)
            .map(<[u8]>::to_vec)
            .collect();
        let (one, two) = (
            self.random.below(fields.len()),
            self.random.below(fields.len()),
        );
        match self.random.below(6) {
            0 => {
                fields.remove(one);
            }
            1 => fields.insert(one, fields[two].clone()),
            2 => fields.swap(one, two),
            3 => fields[one] = fields[two].clone(),
            4 => {
                let more: &&[u8] = self.random.pick(&NASTY);
                fields[one].extend_from_slice(more);
            }
            _ => fields[one] = self.random.pick(&NASTY).to_vec(),
        }
        *line = fields.join(&delimiter);
    }
}

/// Joins lines to a log.
pub(crate) fn log(lines: &[Vec<u8>]) -> Arc<[u8]> {
    let mut log = lines.join(&b'\n');
    log.push(b'\n');
    Arc::from(log)
}

/// Opens a log in memory.
pub(crate) fn open(log: &Arc<[u8]>, reading: &Reading) -> Result<Log, ReadError> {
    Log::from_stream(
        Path::new("fuzz"),
        Box::new(Cursor::new(Arc::clone(log))),
        reading,
    )
}

/// Whether a good line means the same after any other lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Each line is one record.
    Alone,
    /// Several lines make a record.
    Together,
}

/// Reads [`cases`] damaged lines in logs that begin with `head`, and checks each log. Prints the
/// results.
pub(crate) fn jobs(
    test: &str,
    reading: &Reading,
    head: &[&[u8]],
    good: &[Vec<u8>],
    delimiters: &[u8],
    lines: Lines,
) {
    let mut mutator = Mutator::new(test, good, delimiters);
    let (mut made, mut records, mut damaged) = (0, 0, 0);
    let mut line = Vec::new();
    let head: Vec<Vec<u8>> = head.iter().map(|line| line.to_vec()).collect();
    // Good lines behind damaged ones are read as without them.
    let behind: &[Vec<u8>] = match lines {
        Lines::Alone => &good[..good.len().min(16)],
        Lines::Together => &[],
    };
    let (_, no_damage, expected) = read(&self::log(&[&head, behind].concat()), reading, 16);
    assert_eq!(no_damage.lines, 0, "the lines are good: {no_damage:?}");
    while made < cases() {
        let mut log = head.clone();
        for _ in 0..256 {
            mutator.line(&mut line);
            log.push(line.clone());
        }
        made += 256;
        log.extend_from_slice(behind);
        let log = self::log(&log);
        let (found, damage, tail) = read(&log, reading, expected.len());
        assert_eq!(tail, expected, "behind damaged lines");
        strict(&log, reading, &damage);
        records += found;
        damaged += damage.lines;
    }
    println!("{test}: {made} damaged lines, {records} records, {damaged} refused");
    assert!(records > 0 && damaged > 0, "both happen");
}

/// Reads a log to its end, and checks each record and the damage. Returns the number of records,
/// the damage and the last records.
fn read(log: &Arc<[u8]>, reading: &Reading, last: usize) -> (u64, Damage, Vec<JobRecord>) {
    let Log::Jobs(mut jobs) = open(log, reading).unwrap() else {
        panic!("jobs");
    };
    let mut record = JobRecord::default();
    let (mut found, mut tail) = (0, std::collections::VecDeque::new());
    while jobs.read(&mut record).unwrap() {
        sound(&record);
        found += 1;
        tail.push_back(record.clone());
        if tail.len() > last {
            tail.pop_front();
        }
    }
    // After the end, no record follows.
    assert!(!jobs.read(&mut record).unwrap());
    let lines = log.iter().filter(|&&byte| byte == b'\n').count() as u64;
    assert_eq!((jobs.lines(), jobs.bytes()), (lines, log.len() as u64));
    let damage = jobs.damage().clone();
    assert!(
        found + damage.lines <= lines,
        "{found} and {damage:?} of {lines}"
    );
    located(&damage, lines);
    (found, damage, tail.into())
}

/// Properties of every record of any log.
fn sound(record: &JobRecord) {
    assert!(!record.id.is_empty(), "{record:?}");
    assert!(record.end.is_none() || record.start.is_some(), "{record:?}");
    assert!(
        record.end >= record.start || record.end.is_none(),
        "{record:?}"
    );
    let latest = Timestamp::from_unix(253_402_300_800);
    let earliest = Timestamp::from_unix(-62_135_700_000);
    for time in [record.submit, record.start, record.end]
        .into_iter()
        .flatten()
    {
        assert!(earliest < time && time < latest, "{record:?}");
    }
    assert!(
        record.walltime.is_none_or(|walltime| walltime.as_ms() >= 0),
        "{record:?}"
    );
}

/// Damage has its line, its place and the expected value, and shows at most an excerpt.
pub(crate) fn located(damage: &Damage, lines: u64) {
    assert_eq!(damage.first.len() as u64, damage.lines.min(10));
    let mut before = 0;
    for damaged in &damage.first {
        assert!(
            before < damaged.line && damaged.line <= lines,
            "{damaged:?}"
        );
        before = damaged.line;
        assert!(!damaged.at.place.is_empty() && !damaged.at.expected.is_empty());
        assert!(damaged.at.found.chars().count() <= 61, "{damaged:?}");
    }
}

/// A strict reading stops at the first damaged line, at the same place, and stays there.
fn strict(log: &Arc<[u8]>, reading: &Reading, damage: &Damage) {
    let reading = Reading {
        strict: true,
        ..reading.clone()
    };
    let Log::Jobs(mut jobs) = open(log, &reading).unwrap() else {
        panic!("jobs");
    };
    let mut record = JobRecord::default();
    let stopped = loop {
        match jobs.read(&mut record) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(ReadError::Field { line, at, .. }) => break Some((line, at)),
            Err(other) => panic!("{other}"),
        }
    };
    let first = damage
        .first
        .first()
        .map(|damaged| (damaged.line, damaged.at.clone()));
    assert_eq!(stopped, first);
}
