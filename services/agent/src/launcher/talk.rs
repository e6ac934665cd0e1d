//! Messages between an agent and a program that regroups: JSON lines over a Unix socket.
//!
//! | Program to agent | |
//! |---|---|
//! | `{"say":"hello","pid":1,"version":1}` | the program runs |
//! | `{"say":"ready"}` | its model is built, and it can join an incarnation |
//! | `{"say":"alive"}` | once a second |
//! | `{"say":"progress","run","base","samples",...}` | from rank 0, see [`Report`] |
//! | `{"say":"broken","run"}` | this incarnation's group is broken; it waits for another one |
//! | `{"say":"whole","run"}` | the members of that incarnation have met again |
//!
//! | Agent to program | |
//! |---|---|
//! | `{"tell":"run","run","rank","members","store"}` | its newest incarnation |
//! | `{"tell":"leave","deadline"}` | end at the next step; killed at `deadline` |
//!
//! The agent reads at a limited rate. A program that sends faster waits.
//!
//! The socket is in a folder that only its owner may enter, under a short path: the name of a Unix
//! socket has at most 107 bytes.
//!
//! A program is killed if it is silent for `agent.hang_after`, or for `agent.start_limit` after its
//! start.

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
/// Most lines that are read from a program within this time.
const LINES: u32 = 50;
const LINES_TIME: Duration = Duration::from_millis(100);
/// Most messages that wait for the agent.
const MESSAGES: usize = 64;

/// Progress of a group, reported by its rank 0.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Report {
    /// The incarnation.
    pub(super) run: u64,
    /// Samples since the trainer's beginning that the state contained when the incarnation began.
    pub(super) base: f64,
    /// Samples of this incarnation.
    pub(super) samples: f64,
    /// Optimiser step.
    #[serde(default)]
    pub(super) step: Option<u64>,
    /// Number of members of the group.
    pub(super) world_size: u32,
    /// Training loss.
    #[serde(default)]
    pub(super) loss: Option<f64>,
    /// The newest complete checkpoint.
    #[serde(default)]
    pub(super) checkpoint: Option<String>,
}

/// A line of a program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
enum Line {
    Hello {},
    Ready {},
    Alive {},
    Progress(Report),
    Broken { run: u64 },
    Whole { run: u64 },
}

/// A message of a program to its agent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FromProgram {
    /// It can join an incarnation.
    Ready,
    /// A group has made progress.
    Progress(Report),
    /// The group of an incarnation is broken, or is whole again.
    Group {
        /// The incarnation.
        run: u64,
        /// Whether it is broken.
        broken: bool,
    },
    /// A line that is not valid.
    Garbage,
    /// The connection has ended, and all its messages were read.
    Gone,
}

/// A line to a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "tell")]
enum ToProgram {
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

/// The present state: the newest incarnation, and whether to leave.
#[derive(Debug, Clone, Default)]
struct State {
    run: Option<ToProgram>,
    leave: Option<ToProgram>,
}

/// The time of a program's last message.
#[derive(Debug, Clone, Default)]
pub(super) struct LastMessage(Arc<Mutex<Option<Instant>>>);

impl LastMessage {
    /// The time; nothing before the first message.
    pub(super) fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }
}

/// The agent's end of the connection with one program.
#[derive(Debug)]
pub(super) struct Talk {
    _dir: tempfile::TempDir,
    path: PathBuf,
    state: watch::Sender<State>,
    messages: mpsc::Receiver<FromProgram>,
    server: tokio::task::JoinHandle<()>,
}

impl Talk {
    /// Opens a socket. `last` takes the time of each message.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub(super) fn listen(last: LastMessage) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("lacuna-").tempdir()?;
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path)?;
        let (state, states) = watch::channel(State::default());
        let (into, messages) = mpsc::channel(MESSAGES);
        let server = tokio::spawn(serve(listener, states, into, last));
        Ok(Self {
            _dir: dir,
            path,
            state,
            messages,
            server,
        })
    }

    /// The path of the socket.
    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Sends the newest incarnation and its members.
    pub(super) fn run(&self, assignment: &Assignment, members: &[NodeId]) {
        let order = ToProgram::Run {
            run: assignment.run.0,
            rank: assignment.rank,
            members: members.iter().map(ToString::to_string).collect(),
            store: assignment.store.clone().unwrap_or_default(),
        };
        self.state.send_modify(|s| s.run = Some(order));
    }

    /// Tells the program to leave.
    pub(super) fn leave(&self, deadline: Timestamp) {
        let order = ToProgram::Leave {
            deadline: deadline.unix_seconds(),
        };
        self.state.send_modify(|s| s.leave = Some(order));
    }

    /// The next message.
    pub(super) async fn next(&mut self) -> FromProgram {
        match self.messages.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Serves one connection after the other. Every connection is the program's.
async fn serve(
    listener: UnixListener,
    states: watch::Receiver<State>,
    into: mpsc::Sender<FromProgram>,
    last: LastMessage,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let ended = converse(stream, states.clone(), &into, &last).await;
        if let Err(error) = ended {
            tracing::debug!(%error, "program's connection ended");
        }
        let _ = into.send(FromProgram::Gone).await;
    }
}

async fn converse(
    stream: UnixStream,
    mut states: watch::Receiver<State>,
    into: &mpsc::Sender<FromProgram>,
    last: &LastMessage,
) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read).take(LINE);
    let mut line = Vec::new();
    states.mark_changed();
    let (mut window, mut count) = (Instant::now(), 0);
    loop {
        tokio::select! {
            // An incomplete line stays in `line`.
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
                if let Some(message) = parse(&line) {
                    let _ = into.send(message).await;
                }
                line.clear();
                count += 1;
                if window.elapsed() >= LINES_TIME {
                    (window, count) = (Instant::now(), 0);
                } else if count >= LINES {
                    tokio::time::sleep_until(window + LINES_TIME).await;
                }
            }
            changed = states.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                let state = states.borrow_and_update().clone();
                for order in [state.run, state.leave].into_iter().flatten() {
                    let mut text = serde_json::to_vec(&order)?;
                    text.push(b'\n');
                    write.write_all(&text).await?;
                }
            }
        }
    }
}

fn parse(line: &[u8]) -> Option<FromProgram> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    match serde_json::from_slice(line) {
        Ok(Line::Hello {} | Line::Alive {}) => None,
        Ok(Line::Ready {}) => Some(FromProgram::Ready),
        Ok(Line::Progress(report)) => Some(FromProgram::Progress(report)),
        Ok(Line::Broken { run }) => Some(FromProgram::Group { run, broken: true }),
        Ok(Line::Whole { run }) => Some(FromProgram::Group { run, broken: false }),
        Err(_) => Some(FromProgram::Garbage),
    }
}
