//! Messages between an agent and a program that regroups: JSON lines over a Unix socket. Each worker
//! of the node has a connection of its own, and all get the same lines.
//!
//! | Worker to agent | |
//! |---|---|
//! | `{"say":"hello","pid":1,"version":2,"local_rank":0}` | the worker runs; its first line |
//! | `{"say":"ready"}` | its model is built, and it can join an incarnation |
//! | `{"say":"alive"}` | once a second |
//! | `{"say":"progress","run","base","samples",...}` | from rank 0 of the group, see [`Report`] |
//! | `{"say":"broken","run"}` | this incarnation's group is broken; it waits for another one |
//! | `{"say":"whole","run"}` | the members of that incarnation have met again |
//! | `{"say":"done"}` | its work is done; only code of its own may follow, and its exit |
//! | `{"say":"exiting"}` | that code has ended too, well or not: its interpreter ends |
//!
//! | Agent to worker | |
//! |---|---|
//! | `{"tell":"run","run","rank","members","store","token"}` | its newest incarnation, by nodes; what it shows to the store |
//! | `{"tell":"leave","deadline"}` | end at the next step; killed at `deadline` |
//!
//! Version 1 knew one worker a node. A program of that version is refused if there are several.
//!
//! The agent reads at a limited rate. A program that sends faster waits.
//!
//! The socket is in a folder that only the program's user may enter, under a short path: the name of
//! a Unix socket has at most 107 bytes.
//!
//! A program is killed if a worker is silent for `agent.hang_after`, or for `agent.start_limit` after
//! its start. A worker that has said `done` or `exiting`, or has closed its connection, may be silent
//! for `agent.grace`: an interpreter says nothing while it ends. A new `hello` takes both words back.
//!
//! A program all of whose workers have said both words has ended well (exit code 0) if a signal ends it,
//! or its agent for its silence: libraries crash while interpreters end. Between the two words its own
//! code runs, and such an end is a failure.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use lacuna_model::{Assignment, NodeId, Timestamp, Token};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::crew::{LastMessages, LastWord};
use crate::removal::{Remover, Temporary};
use crate::worth::BatchReport;
use lacuna_owner::Account;

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
    /// The times of the newest steps, now and then. What is wrong in them is no error of the report.
    #[serde(default)]
    pub(super) stalls: Option<serde_json::Value>,
    /// The noise scale of the gradient and the batch, now and then, as the package reports them.
    #[serde(flatten)]
    pub(super) worth: BatchReport,
}

/// The version of `hello` since which workers name their local ranks.
const LOCAL_RANKS: u32 = 2;

/// A line of a program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
enum Line {
    Hello {
        #[serde(default)]
        version: u32,
        #[serde(default)]
        local_rank: u32,
    },
    Ready {},
    Alive {},
    Progress(Report),
    Broken {
        run: u64,
    },
    Whole {
        run: u64,
    },
    Done {},
    Exiting {},
}

/// A message of one worker of a program to its agent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    /// Its local rank.
    pub(super) worker: u32,
    pub(super) what: FromProgram,
}

/// What a worker says.
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
    /// How far its end has come; `None` if it begins.
    Ends(Option<LastWord>),
    /// A line that is not valid.
    Garbage,
    /// It is none of the workers, for this reason.
    Stranger(String),
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
        token: Option<Token>,
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

/// The agent's end of the connections with the workers of one program.
#[derive(Debug)]
pub(super) struct Talk {
    _dir: Temporary,
    path: PathBuf,
    state: watch::Sender<State>,
    messages: mpsc::Receiver<Message>,
    server: tokio::task::JoinHandle<()>,
}

impl Talk {
    /// Opens a socket, for an account if one is named. `heard` takes the time of each message.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub(super) fn listen(
        heard: LastMessages,
        account: Option<&Account>,
        remover: &Remover,
    ) -> io::Result<Self> {
        let dir = Temporary::new(remover, account)?;
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path)?;
        if let Some(account) = account {
            // The account may replace the socket once it has the folder.
            account.give_path(&path)?;
            dir.give()?;
        }
        let (state, states) = watch::channel(State::default());
        let (into, messages) = mpsc::channel(MESSAGES);
        let server = tokio::spawn(serve(listener, states, into, heard));
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
            token: assignment.token.clone(),
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
    pub(super) async fn next(&mut self) -> Message {
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

/// Serves as many connections at a time as there are workers. Every connection is the program's.
async fn serve(
    listener: UnixListener,
    states: watch::Receiver<State>,
    into: mpsc::Sender<Message>,
    heard: LastMessages,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < heard.workers() => {
                let Ok((stream, _)) = accepted else {
                    return;
                };
                connections.spawn(attend(stream, states.clone(), into.clone(), heard.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one connection until its end.
async fn attend(
    stream: UnixStream,
    states: watch::Receiver<State>,
    into: mpsc::Sender<Message>,
    heard: LastMessages,
) {
    let mut worker = None;
    let ended = converse(stream, states, &into, &heard, &mut worker).await;
    if let Err(error) = ended {
        tracing::debug!(%error, "program's connection ended");
    }
    if let Some(worker) = worker {
        heard.gone(worker);
        let what = FromProgram::Gone;
        let _ = into.send(Message { worker, what }).await;
    }
}

/// Reads and writes. The first line gives the worker.
async fn converse(
    stream: UnixStream,
    mut states: watch::Receiver<State>,
    into: &mpsc::Sender<Message>,
    heard: &LastMessages,
    worker: &mut Option<u32>,
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
                let from = match *worker {
                    Some(from) => from,
                    None => match place(&line, heard) {
                        Ok(from) => *worker.insert(from),
                        Err((worker, why)) => {
                            let what = FromProgram::Stranger(why);
                            let _ = into.send(Message { worker, what }).await;
                            return Ok(());
                        }
                    },
                };
                heard.set(from, Instant::now());
                if let Some(what) = parse(&line) {
                    if let FromProgram::Ends(word) = &what {
                        heard.ends(from, word.is_some());
                    }
                    let _ = into.send(Message { worker: from, what }).await;
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

/// The worker whose first line this is; or the local rank that it gave, and why it is none. The one
/// worker of a node may say anything first.
fn place(line: &[u8], heard: &LastMessages) -> Result<u32, (u32, String)> {
    let workers = heard.workers();
    if workers == 1 {
        heard.connected(0);
        return Ok(0);
    }
    match serde_json::from_slice(line) {
        Ok(Line::Hello {
            version: LOCAL_RANKS..,
            local_rank,
        }) => {
            if heard.connected(local_rank) {
                return Ok(local_rank);
            }
            let why = format!(
                "a process calls itself worker {local_rank} of {workers}, which is another one or \
                 none: the program must leave LACUNA_LOCAL_RANK as it is"
            );
            Err((local_rank, why))
        }
        _ => {
            let why = format!(
                "the program does not know that the node has {workers} workers: install the \
                 lacuna package of this release for it, or submit it with workers_per_node = 1"
            );
            Err((0, why))
        }
    }
}

fn parse(line: &[u8]) -> Option<FromProgram> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    match serde_json::from_slice(line) {
        Ok(Line::Alive {}) => None,
        Ok(Line::Hello { .. }) => Some(FromProgram::Ends(None)),
        Ok(Line::Done {}) => Some(FromProgram::Ends(Some(LastWord::Done))),
        Ok(Line::Exiting {}) => Some(FromProgram::Ends(Some(LastWord::Exiting))),
        Ok(Line::Ready {}) => Some(FromProgram::Ready),
        Ok(Line::Progress(report)) => Some(FromProgram::Progress(report)),
        Ok(Line::Broken { run }) => Some(FromProgram::Group { run, broken: true }),
        Ok(Line::Whole { run }) => Some(FromProgram::Group { run, broken: false }),
        Err(_) => Some(FromProgram::Garbage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(version: u32, local_rank: u32) -> Vec<u8> {
        format!(r#"{{"say":"hello","pid":1,"version":{version},"local_rank":{local_rank}}}"#)
            .into_bytes()
    }

    #[test]
    fn each_worker_says_who_it_is() {
        let two = LastMessages::new(2);
        assert_eq!(place(&hello(2, 1), &two), Ok(1));
        let (_, why) = place(&hello(2, 1), &two).unwrap_err();
        assert!(why.contains("calls itself worker 1 of 2"), "{why}");
        assert!(place(&hello(2, 7), &two).is_err());
        for line in [
            br#"{"say":"hello","pid":1,"version":1}"#.as_slice(),
            br#"{"say":"ready"}"#,
            b"training...",
        ] {
            let (_, why) = place(line, &two).unwrap_err();
            assert!(why.contains("workers_per_node = 1"), "{why}");
            assert_eq!(place(line, &LastMessages::new(1)), Ok(0));
        }
        assert_eq!(place(&hello(2, 0), &two), Ok(0));
    }
}
