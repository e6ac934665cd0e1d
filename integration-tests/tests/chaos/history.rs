//! The history of a cluster: observations on the bus, in the order in which one observer saw them.

use std::sync::{Arc, Mutex};

use lacuna_model::{Activity, EventKind, Timestamp};
use lacuna_runtime::{Bus, BusError, Received, Start, Stopwatch};
use lacuna_wire::address;
use lacuna_wire::msg::{Action, Leader};
use tokio::task::JoinSet;

use super::cluster::LED;

/// One observation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Observation {
    /// The workload: the node is idle for the main scheduler.
    Idle(String),
    /// The workload: the node is wanted, and must be free at this time of the observer's clock.
    Wanted(String, f64),
    /// The workload: a batch job has the node.
    Busy(String),
    /// An event in its stream: its sender, its number, and its content in a few words.
    Event {
        sender: String,
        seq: u64,
        what: String,
    },
    /// A snapshot in its stream.
    Snapshot { sender: String, seq: u64 },
    /// A leadership in its stream, and when the server kept it (milliseconds).
    Lead {
        service: &'static str,
        instance: String,
        kept: i64,
    },
    /// A person has taken the lead from this instance.
    Usurped(String),
    /// A message, and when its sender sent it (milliseconds, by the sender's clock).
    Sent { sender: String, sent: i64 },
    /// A renewal of leases: nodes with their epochs, and when it was sent (milliseconds).
    Renewal {
        sender: String,
        sent: i64,
        leases: Vec<(String, u64)>,
    },
    /// A plan in its stream, and the sender's message number (`word`).
    Plan {
        sender: String,
        word: u64,
        generation: u64,
    },
    /// A command on its way to a node: the trainer, its incarnation, and the start of that
    /// (milliseconds).
    Command {
        node: String,
        epoch: u64,
        run: Option<(String, u64, i64)>,
    },
    /// A report of the agent process `agent` about a node, and its message number (`word`), since
    /// the network may have swapped reports.
    Agent {
        agent: String,
        word: u64,
        node: String,
        epoch: u64,
        seq: u64,
        /// The trainer and its incarnation that train there.
        runs: Option<(String, u64)>,
    },
    /// A lease in its bucket, who wrote it, and when the server kept it (milliseconds).
    Lease {
        sender: String,
        node: String,
        epoch: u64,
        trainer: Option<String>,
        kept: i64,
    },
    /// A report of the work of an incarnation, up to a moment (milliseconds).
    Report {
        trainer: String,
        run: u64,
        until: i64,
        samples: f64,
    },
    /// Control's count of a trainer: its incarnation, when that began (milliseconds), and all its
    /// samples.
    Trainer {
        trainer: String,
        run: u64,
        since: i64,
        samples: f64,
    },
    /// The server was killed or full, and may have lost its newest writes.
    WritesAtRisk,
    /// The server has lost its store.
    Emptied,
}

/// Observations, each with the seconds on the observer's clock.
pub(super) type History = Vec<(f64, Observation)>;

/// Writes into the history.
#[derive(Clone)]
pub(super) struct HistoryWriter {
    clock: Stopwatch,
    history: Arc<Mutex<History>>,
}

impl HistoryWriter {
    /// Adds an observation of now.
    pub(super) fn note(&self, said: Observation) {
        let mut history = self.history.lock().unwrap();
        history.push((self.clock.seconds(), said));
    }

    /// Adds what a message says, and that its sender has sent it.
    fn hear<M>(&self, heard: Received<M>, read: &impl Fn(Received<M>) -> Option<Observation>) {
        let sender = Bus::sender(&heard.envelope).to_owned();
        let sent = heard.envelope.time.unix_ms();
        if let Some(said) = read(heard) {
            self.note(said);
        }
        self.note(Observation::Sent { sender, sent });
    }

    /// Seconds on the observer's clock.
    pub(super) fn now(&self) -> f64 {
        self.clock.seconds()
    }

    pub(super) fn history(&self) -> History {
        self.since(0)
    }

    /// The observations after the first `count`.
    pub(super) fn since(&self, count: usize) -> History {
        let history = self.history.lock().unwrap();
        history.iter().skip(count).cloned().collect()
    }
}

/// Writes the history down until it is dropped.
pub(super) struct Recorder {
    pub(super) writer: HistoryWriter,
    tasks: JoinSet<()>,
}

impl Recorder {
    pub(super) async fn start(bus: &Bus) -> Self {
        let mut recorder = Self {
            writer: HistoryWriter {
                clock: Stopwatch::start(),
                history: Arc::default(),
            },
            tasks: JoinSet::new(),
        };
        let id = bus.cluster().clone();
        recorder
            .follow(bus, &address::event(&id), |heard| {
                let sender = Bus::sender(&heard.envelope).to_owned();
                let event = heard.message;
                Some(Observation::Event {
                    sender,
                    seq: event.seq,
                    what: words(&event.kind),
                })
            })
            .await;
        recorder
            .follow(bus, &address::snapshot(&id), |heard| {
                Some(Observation::Snapshot {
                    sender: Bus::sender(&heard.envelope).to_owned(),
                    seq: heard.message.seq,
                })
            })
            .await;
        for service in LED {
            let led = move |heard: Received<Leader>| {
                let by = Bus::sender(&heard.envelope).to_owned();
                let instance = heard.message.instance;
                if by != instance {
                    return Some(Observation::Usurped(instance));
                }
                Some(Observation::Lead {
                    service,
                    instance,
                    kept: kept(heard.kept),
                })
            };
            let lead = address::leader(&id, service);
            recorder.follow(bus, &lead, led).await;
        }
        recorder
            .follow(bus, &address::plan(&id), |heard| {
                let (sender, word) = word(&heard.envelope.id);
                Some(Observation::Plan {
                    sender,
                    word,
                    generation: heard.message.plan.generation.0,
                })
            })
            .await;
        recorder
            .follow(bus, &address::progress_all(&id), |heard| {
                Some(Observation::Report {
                    trainer: heard.message.trainer.to_string(),
                    run: heard.message.run.0,
                    until: heard.message.at.unix_ms(),
                    samples: heard.message.samples,
                })
            })
            .await;
        recorder
            .follow(bus, &address::leases_bucket(&id).all(), |heard| {
                Some(Observation::Lease {
                    sender: Bus::sender(&heard.envelope).to_owned(),
                    node: lacuna_wire::token::last_name(&heard.subject)?,
                    epoch: heard.message.epoch(heard.sequence).0,
                    trainer: heard.message.trainer.map(|t| t.to_string()),
                    kept: kept(heard.kept),
                })
            })
            .await;
        recorder
            .follow(bus, &address::trainers_bucket(&id).all(), |heard| {
                let record = heard.message;
                Some(Observation::Trainer {
                    trainer: record.spec.id.to_string(),
                    run: record.run.0,
                    since: record.run_since.unix_ms(),
                    samples: record.samples(),
                })
            })
            .await;
        recorder
            .hear(bus, &address::renewals(&id), |heard| {
                let leases = heard.message.leases.into_iter();
                Some(Observation::Renewal {
                    sender: Bus::sender(&heard.envelope).to_owned(),
                    sent: heard.envelope.time.unix_ms(),
                    leases: leases.map(|l| (l.node.to_string(), l.epoch.0)).collect(),
                })
            })
            .await;
        // Only that it was sent counts.
        recorder.hear(bus, &address::pool(&id), |_| None).await;
        // Core subscriptions see messages too that a stream loses or replaces.
        recorder
            .hear(bus, &address::commands(&id), |heard| {
                let command = heard.message;
                Some(Observation::Command {
                    node: command.node.to_string(),
                    epoch: command.epoch.0,
                    run: match command.action {
                        Action::Run(run) | Action::Prepare(run) => {
                            Some((run.trainer.to_string(), run.run.0, run.since.unix_ms()))
                        }
                        Action::Release { .. } => None,
                    },
                })
            })
            .await;
        recorder
            .hear(bus, &address::agents(&id), |heard| {
                let (agent, word) = word(&heard.envelope.id);
                let status = heard.message;
                Some(Observation::Agent {
                    agent,
                    word,
                    node: status.node.to_string(),
                    epoch: status.epoch.0,
                    seq: status.seq,
                    runs: match status.activity {
                        Activity::Running { trainer, run } => Some((trainer.to_string(), run.0)),
                        _ => None,
                    },
                })
            })
            .await;
        recorder
    }

    async fn follow<M: lacuna_wire::Message + Send + 'static>(
        &mut self,
        bus: &Bus,
        subject: &lacuna_wire::Subject<M>,
        read: impl Fn(Received<M>) -> Option<Observation> + Send + 'static,
    ) {
        let mut messages = bus.follow(subject, Start::All).await.unwrap();
        let writer = self.writer.clone();
        self.tasks.spawn(async move {
            while let Ok(heard) = messages.next().await {
                writer.hear(heard, &read);
            }
        });
    }

    async fn hear<M: lacuna_wire::Message + Send + 'static>(
        &mut self,
        bus: &Bus,
        subject: &lacuna_wire::Subject<M>,
        read: impl Fn(Received<M>) -> Option<Observation> + Send + 'static,
    ) {
        let mut messages = bus.subscribe(subject).await.unwrap();
        let writer = self.writer.clone();
        self.tasks.spawn(async move {
            loop {
                let heard: Result<_, BusError> = messages.next().await;
                let Ok(heard) = heard else { return };
                writer.hear(heard, &read);
            }
        });
    }
}

fn kept(at: Option<Timestamp>) -> i64 {
    at.unwrap_or_default().unix_ms()
}

/// The sender of a message, and its number among that sender's messages.
fn word(id: &str) -> (String, u64) {
    let (sender, number) = id.rsplit_once('-').unwrap_or((id, "0"));
    (sender.to_owned(), number.parse().unwrap_or_default())
}

fn words(kind: &EventKind) -> String {
    match kind {
        EventKind::Snapshot { idle } => format!("snapshot of {}", idle.len()),
        other => format!("{other:?}"),
    }
}
