//! Reads the progress that a program appends to a file, one JSON object per line:
//! `{"t","step","samples","world_size","loss","checkpoint"}`, the last two optional. `samples`
//! counts from the program's start. `"done": true` says that the work is done, as in `talk`.
//! `{"t","rank","failed"}` says how a worker under torchrun failed (`torchrun_site.py`).

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde::Deserialize;

use crate::untrusted;
use crate::worth::BatchReport;

/// Most bytes of one read.
const READ: u64 = 1 << 20;
/// Longest valid line, in bytes.
const LINE: usize = 64 << 10;
/// Failures that are kept, at most.
const FAILED: usize = 256;

/// One line of progress.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Line {
    /// The program's own time, in Unix seconds.
    pub t: f64,
    /// Optimiser step.
    #[serde(default)]
    pub step: Option<u64>,
    /// Samples since the program's start.
    pub samples: f64,
    /// Number of processes that took part.
    #[serde(default)]
    pub world_size: Option<u32>,
    /// Training loss.
    #[serde(default)]
    pub loss: Option<f64>,
    /// A complete checkpoint.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// Whether the work is done.
    #[serde(default)]
    pub done: bool,
    /// The times of the newest steps, now and then.
    #[serde(default)]
    pub stalls: Option<serde_json::Value>,
    /// The noise scale of the gradient and the batch, now and then, as the package reports them.
    #[serde(flatten)]
    pub worth: BatchReport,
}

/// The failure of one worker of the node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Failed {
    /// When it was, in Unix seconds.
    pub t: f64,
    /// The worker.
    pub rank: u32,
    /// Its words.
    pub failed: String,
    /// Whether they name no cause.
    #[serde(default)]
    pub bare: bool,
}

/// A valid line.
enum Said {
    Progress(Line),
    Failed(Failed),
}

/// Follows one file.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    offset: u64,
    partial: Vec<u8>,
    /// Number of invalid lines.
    garbage: u64,
    /// The first failures of workers.
    failed: Vec<Failed>,
}

impl Tail {
    /// Follows a file from its beginning. It need not exist yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            partial: Vec::new(),
            garbage: 0,
            failed: Vec::new(),
        }
    }

    /// The lines that were completed since the last call. An incomplete line waits. A file that has
    /// become shorter is read from its beginning. A file that is not a regular file of this user
    /// has no lines, and is never waited for.
    pub fn read(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        let Ok(mut file) = untrusted::open(&self.path) else {
            return lines;
        };
        let length = file.metadata().map_or(0, |m| m.len());
        if length < self.offset {
            self.offset = 0;
            self.partial.clear();
        }
        if file.seek(SeekFrom::Start(self.offset)).is_err() {
            return lines;
        }
        let mut bytes = Vec::new();
        let Ok(read) = file.take(READ).read_to_end(&mut bytes) else {
            return lines;
        };
        self.offset += read as u64;
        for byte in bytes {
            if byte != b'\n' {
                if self.partial.len() <= LINE {
                    self.partial.push(byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.partial);
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match parse(&line) {
                Some(Said::Progress(line)) => lines.push(line),
                Some(Said::Failed(failed)) if self.failed.len() < FAILED => {
                    self.failed.push(failed);
                }
                Some(Said::Failed(_)) => {}
                None => self.garbage += 1,
            }
        }
        lines
    }

    /// The failures of workers so far.
    #[must_use]
    pub fn failed(&self) -> &[Failed] {
        &self.failed
    }

    /// Number of invalid lines so far.
    #[must_use]
    pub const fn garbage(&self) -> u64 {
        self.garbage
    }
}

fn parse(line: &[u8]) -> Option<Said> {
    if line.len() > LINE {
        return None;
    }
    if let Ok(failed) = serde_json::from_slice(line) {
        return Some(Said::Failed(failed));
    }
    let line: Line = serde_json::from_slice(line).ok()?;
    (line.samples.is_finite() && line.samples >= 0.0).then_some(Said::Progress(line))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn partial_lines_wait_garbage_is_counted_truncation_starts_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress.jsonl");
        let mut tail = Tail::new(path.clone());
        assert!(tail.read().is_empty());
        let mut file = File::create(&path).unwrap();
        write!(
            file,
            "{{\"t\":1,\"samples\":10,\"world_size\":2}}\n{{\"t\":2,\"sam"
        )
        .unwrap();
        let lines = tail.read();
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].samples, lines[0].world_size), (10.0, Some(2)));
        assert!(tail.read().is_empty());
        writeln!(
            file,
            "ples\":20,\"loss\":0.5,\"checkpoint\":\"c1\",\"new\":1}}"
        )
        .unwrap();
        let lines = tail.read();
        assert_eq!((lines[0].samples, lines[0].loss), (20.0, Some(0.5)));
        assert_eq!(lines[0].checkpoint.as_deref(), Some("c1"));
        write!(file, "Epoch 3: loss 0.4\n\n[1,2]\n{{\"t\":3,\"samples\":-5}}\n{{\"t\":4,\"samples\":1e999}}\n").unwrap();
        file.write_all(&[0xff, 0xfe, b'\n']).unwrap();
        assert!(tail.read().is_empty());
        assert_eq!(tail.garbage(), 5);
        let long = "x".repeat(LINE + 10);
        writeln!(file, "{long}").unwrap();
        assert!(tail.read().is_empty());
        assert_eq!(tail.garbage(), 6);
        std::fs::write(&path, "{\"t\":9,\"samples\":3}\n").unwrap();
        assert_eq!(tail.read().first().map(|l| l.samples), Some(3.0));
    }
}
