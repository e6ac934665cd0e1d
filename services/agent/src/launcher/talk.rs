//! What an agent and a program that regroups say to each other: JSON lines over a Unix socket.
//!
//! | Program to agent | |
//! |---|---|
//! | `{"say":"hello","pid":1,"version":1}` | it is there |
//! | `{"say":"ready"}` | its model is built: it can be taken into a run |
//! | `{"say":"alive"}` | once a second |
//! | `{"say":"progress","run","base","samples",...}` | from rank 0, see [`Report`] |
//! | `{"say":"broken","run"}` | the group of this run is broken: it waits for another run |
//! | `{"say":"whole","run"}` | the members of that run have met again |
//!
//! | Agent to program | |
//! |---|---|
//! | `{"tell":"run","run","rank","members","store"}` | its newest run |
//! | `{"tell":"leave","deadline"}` | leave at the next step's end; killed at `deadline` |
//!
//! A program that says more than it may is heard as fast as it may speak, and waits meanwhile.
//!
//! The socket lies in a folder that only its owner may enter, under a short path: the name of
//! a Unix socket has room for 107 bytes.
//!
//! A program that is silent for `agent.hang_after`, or says nothing at all for `agent.start_limit`
//! since its start, is killed.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lacuna_model::{Assignment, NodeId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Longest line.
const LINE: u64 = 64 << 10;
/// So many lines are heard of a program in this time.
const LINES: u32 = 50;
const LINES_TIME: Duration = Duration::from_millis(100);
/// So many words wait for the agent at most.
const WORDS: usize = 64;

/// Progress of a group, told by its rank 0.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Report {
    /// Which run.
    pub(super) run: u64,
    /// Samples since the trainer's beginning that the state had absorbed when the run began.
    pub(super) base: f64,
    /// Samples of this run.
    pub(super) samples: f64,
    /// Optimiser step.
    #[serde(default)]
    pub(super) step: Option<u64>,
    /// Members of the group.
    pub(super) world_size: u32,
    /// Training loss.
    #[serde(default)]
    pub(super) loss: Option<f64>,
    /// The newest complete checkpoint.
    #[serde(default)]
    pub(super) checkpoint: Option<String>,
}

/// What a program says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
enum Word {
    Hello {},
    Ready {},
    Alive {},
    Progress(Report),
    Broken { run: u64 },
    Whole { run: u64 },
}

/// What is worth hearing of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// It can be taken into a run.
    Ready,
    /// A group has come so far.
    Progress(Report),
    /// The group of a run is broken, or is whole again.
    Group {
        /// Which run.
        run: u64,
        /// Whether it is broken.
        broken: bool,
    },
    /// A line that was nothing of this.
    Garbage,
    /// It has hung up: all that it said has been heard.
    Gone,
}

/// What a program is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "tell")]
enum Order {
    Run {
        run: u64,
        rank: u32,
        members: Vec<String>,
        store: String,
    },
    Leave {
        deadline: f64,
    },
}

/// What stands: the newest run, and whether to leave.
#[derive(Debug, Clone, Default)]
struct Standing {
    run: Option<Order>,
    leave: Option<Order>,
}

/// When a program last said anything.
#[derive(Debug, Clone, Default)]
pub(super) struct LastHeard(Arc<Mutex<Option<Instant>>>);

impl LastHeard {
    /// Nothing if it never did.
    pub(super) fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }
}

/// The agent's end of the talk with one program.
#[derive(Debug)]
pub(super) struct Talk {
    _dir: tempfile::TempDir,
    path: PathBuf,
    standing: watch::Sender<Standing>,
    said: mpsc::Receiver<Said>,
    server: tokio::task::JoinHandle<()>,
}

impl Talk {
    /// Opens a socket; `last` is told whenever the program says anything.
    ///
    /// # Errors
    /// If there is no place for it.
    pub(super) fn listen(last: LastHeard) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("lacuna-").tempdir()?;
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path)?;
        let (standing, told) = watch::channel(Standing::default());
        let (say, said) = mpsc::channel(WORDS);
        let server = tokio::spawn(serve(listener, told, say, last));
        Ok(Self {
            _dir: dir,
            path,
            standing,
            said,
            server,
        })
    }

    /// Where the program connects.
    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Tells it of its newest run, and who trains in it.
    pub(super) fn run(&self, assignment: &Assignment, members: &[NodeId]) {
        let order = Order::Run {
            run: assignment.run.0,
            rank: assignment.rank,
            members: members.iter().map(ToString::to_string).collect(),
            store: assignment.store.clone().unwrap_or_default(),
        };
        self.standing.send_modify(|s| s.run = Some(order));
    }

    /// Tells it to leave.
    pub(super) fn leave(&self, deadline: Timestamp) {
        let order = Order::Leave {
            deadline: deadline.unix_seconds(),
        };
        self.standing.send_modify(|s| s.leave = Some(order));
    }

    /// What it says next.
    pub(super) async fn next(&mut self) -> Said {
        match self.said.recv().await {
            Some(said) => said,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// One connection after the other: whoever connects is the program.
async fn serve(
    listener: UnixListener,
    told: watch::Receiver<Standing>,
    say: mpsc::Sender<Said>,
    last: LastHeard,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let ended = converse(stream, told.clone(), &say, &last).await;
        if let Err(error) = ended {
            tracing::debug!(%error, "program's connection ended");
        }
        let _ = say.send(Said::Gone).await;
    }
}

async fn converse(
    stream: UnixStream,
    mut told: watch::Receiver<Standing>,
    say: &mpsc::Sender<Said>,
    last: &LastHeard,
) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read).take(LINE);
    let mut line = Vec::new();
    told.mark_changed();
    let (mut window, mut heard) = (Instant::now(), 0);
    loop {
        tokio::select! {
            // What was read so far of a line stays in `line`.
            n = read.read_until(b'\n', &mut line) => {
                let more = n? > 0;
                if read.limit() > 0 && !more {
                    return Ok(());
                }
                if read.limit() > 0 && line.last() != Some(&b'\n') {
                    continue;
                }
                read.set_limit(LINE);
                last.set(Instant::now());
                if let Some(said) = understand(&line) {
                    let _ = say.send(said).await;
                }
                line.clear();
                heard += 1;
                if window.elapsed() >= LINES_TIME {
                    (window, heard) = (Instant::now(), 0);
                } else if heard >= LINES {
                    tokio::time::sleep_until(window + LINES_TIME).await;
                }
            }
            changed = told.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                let standing = told.borrow_and_update().clone();
                for order in [standing.run, standing.leave].into_iter().flatten() {
                    let mut text = serde_json::to_vec(&order)?;
                    text.push(b'\n');
                    write.write_all(&text).await?;
                }
            }
        }
    }
}

fn understand(line: &[u8]) -> Option<Said> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    match serde_json::from_slice(line) {
        Ok(Word::Hello {} | Word::Alive {}) => None,
        Ok(Word::Ready {}) => Some(Said::Ready),
        Ok(Word::Progress(report)) => Some(Said::Progress(report)),
        Ok(Word::Broken { run }) => Some(Said::Group { run, broken: true }),
        Ok(Word::Whole { run }) => Some(Said::Group { run, broken: false }),
        Err(_) => Some(Said::Garbage),
    }
}
