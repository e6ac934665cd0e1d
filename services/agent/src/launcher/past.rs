//! What is known of an output beside its text: when it had which length, and where each start of the
//! program begins and how it ended. One line each in a file beside the output:
//! `<Unix ms> <bytes of the output> [start <run> | end <words>]`.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use lacuna_model::{RunId, Span, Timestamp};
use lacuna_runtime::clock::wall;

use crate::untrusted;

/// Time between two notes of the output's length.
pub(super) const EVERY: Span = Span::from_secs(10);
/// Most bytes that are read of the notes: those of a month.
const MOST: u64 = 8 << 20;

/// The file of notes of an output.
fn beside(output: &Path) -> std::path::PathBuf {
    output.with_extension("notes")
}

/// Notes the length of an output now, with what has happened.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn note(output: &Path, what: &str) -> io::Result<()> {
    let length = untrusted::open(output)?.metadata()?.len();
    let what = what.replace('\n', " ");
    let line = format!("{} {length} {what}\n", wall().unix_ms());
    untrusted::append(&beside(output))?.write_all(line.as_bytes())
}

/// Notes the length of an output that has grown since the last note.
pub(super) fn note_length(output: &Path) {
    let Ok(found) = untrusted::open(output).and_then(|file| file.metadata()) else {
        return;
    };
    let written = Timestamp::from_unix_ms(found.mtime() * 1000);
    if wall().since(written) <= EVERY + EVERY {
        let _ = note(output, "");
    }
}

/// The note of a start.
pub(super) fn start(run: RunId) -> String {
    format!("start {}", run.0)
}

/// The notes of an output.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Times and lengths, as they were noted.
    lengths: Vec<(i64, u64)>,
    starts: Vec<Start>,
}

/// A start of the program.
#[derive(Debug)]
struct Start {
    at: i64,
    from: u64,
    run: String,
    end: Option<(i64, String)>,
}

impl Past {
    /// Reads the notes of an output; none if there are none.
    pub(super) fn of(output: &Path) -> Self {
        let mut past = Self::default();
        let Ok(mut file) = untrusted::open(&beside(output)) else {
            return past;
        };
        let length = file.metadata().map_or(0, |found| found.len());
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(length.saturating_sub(MOST)))
            .and_then(|_| file.take(MOST).read_to_end(&mut bytes));
        if read.is_ok() {
            let text = String::from_utf8_lossy(&bytes);
            text.lines().for_each(|line| past.read(line));
        }
        past
    }

    fn read(&mut self, line: &str) {
        let mut fields = line.splitn(3, ' ');
        let (Some(Ok(at)), Some(Ok(length))) = (
            fields.next().map(str::parse::<i64>),
            fields.next().map(str::parse::<u64>),
        ) else {
            return;
        };
        self.lengths.push((at, length));
        match fields.next().and_then(|what| what.split_once(' ')) {
            Some(("start", run)) => self.starts.push(Start {
                at,
                from: length,
                run: run.to_owned(),
                end: None,
            }),
            Some(("end", how)) => {
                if let Some(last) = self.starts.last_mut() {
                    last.end = Some((at, how.to_owned()));
                }
            }
            _ => {}
        }
    }

    /// The length that an output had at a time at the most.
    pub(super) fn length_at(&self, time: Timestamp) -> u64 {
        let before = self.lengths.iter().rev();
        let mut before = before.skip_while(|(at, _)| *at > time.unix_ms());
        before.next().map_or(0, |(_, length)| *length)
    }

    /// The rules between starts of the program, with the places in the output before which they stand.
    pub(super) fn rules(&self, node: &str) -> Vec<(u64, String)> {
        let pairs = self.starts.iter().zip(self.starts.iter().skip(1));
        let rule = |(before, next): (&Start, &Start)| {
            let end = match &before.end {
                Some((at, how)) => format!("run {} ended {}: {how}", before.run, moment(*at)),
                None => format!("run {} was left", before.run),
            };
            let text = format!(
                "--- {end}; run {} on {node} from {} ---",
                next.run,
                moment(next.at)
            );
            (next.from, text)
        };
        pairs.map(rule).collect()
    }
}

/// A time to the second, in UTC.
fn moment(unix_ms: i64) -> String {
    Timestamp::from_unix(unix_ms.div_euclid(1000)).to_string()
}
