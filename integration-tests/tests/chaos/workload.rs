//! A simulated main scheduler: it gives nodes to batch jobs and takes them back, at random, and
//! publishes each change until it is acknowledged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lacuna_runtime::Bus;
use lacuna_runtime::clock::wall;
use lacuna_wire::address;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::Mutex as Turn;
use tokio::task::JoinSet;

use super::history::{HistoryWriter, Observation};

/// A node that is wanted, or was taken, must be free after these seconds, whatever fails meanwhile.
/// Faults last for less than half of it.
pub(super) const DEADLINE_S: f64 = 25.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    /// Idle, but promised to a batch job that waits.
    Wanted,
    Busy,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    state: State,
    /// The earliest time of its next change, on the observer's clock.
    next: f64,
}

#[derive(Default)]
struct Shared {
    nodes: BTreeMap<String, Node>,
    /// Whether no new change may begin.
    paused: bool,
    said: u64,
    repeated: u64,
}

/// Runs until it is dropped.
pub(super) struct Workload {
    shared: Arc<Mutex<Shared>>,
    turn: Arc<Turn<()>>,
    voice: Voice,
    _task: JoinSet<()>,
}

#[derive(Clone)]
struct Voice {
    bus: Bus,
    writer: HistoryWriter,
}

impl Voice {
    /// Publishes an event until it is acknowledged. Its id marks a repetition.
    async fn say(&self, kind: &str, node: &str, extra: &str) {
        let at = wall().unix_ms();
        let (s, ms) = (at / 1000, at % 1000);
        let kind = format!("node.{kind}");
        let text = format!(r#"{{"type":"{kind}","node":"{node}","time":{s}.{ms:03}{extra}}}"#);
        let id = self.bus.new_id();
        let subject = address::incoming_from(self.bus.cluster(), "chaos");
        loop {
            let headers = [
                ("ce-specversion", "1.0"),
                ("ce-id", id.as_str()),
                ("ce-source", "chaos"),
                ("ce-type", kind.as_str()),
                ("content-type", "application/json"),
            ];
            let payload = text.clone().into_bytes();
            let sent = self
                .bus
                .store_raw(subject.as_str(), &headers, payload)
                .await;
            if let Ok(ack) = sent
                && ack.wait().await.is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn state(&self, node: &str, state: State) {
        match state {
            State::Idle => {
                self.writer.note(Observation::Idle(node.to_owned()));
                self.say("idle", node, "").await;
            }
            State::Wanted => {
                let deadline = wall().unix_ms() / 1000 + 25;
                let extra = format!(r#","deadline":{deadline}"#);
                self.say("wanted", node, &extra).await;
                let due = self.writer.now() + DEADLINE_S;
                self.writer.note(Observation::Wanted(node.to_owned(), due));
            }
            State::Busy => {
                self.say("busy", node, "").await;
                self.writer.note(Observation::Busy(node.to_owned()));
            }
        }
    }

    /// A batch job takes a node without notice. From now on its agent has as long to give it back as
    /// that of a wanted one.
    async fn take(&self, node: String) {
        let due = self.writer.now() + DEADLINE_S;
        self.state(&node, State::Busy).await;
        self.writer.note(Observation::Wanted(node, due));
    }
}

impl Workload {
    pub(super) fn start(bus: Bus, writer: HistoryWriter, names: &[String], seed: u64) -> Self {
        let idle = Node {
            state: State::Idle,
            next: 0.0,
        };
        let shared = Arc::new(Mutex::new(Shared {
            nodes: names.iter().map(|name| (name.clone(), idle)).collect(),
            ..Shared::default()
        }));
        let turn = Arc::new(Turn::new(()));
        let voice = Voice { bus, writer };
        let mut task = JoinSet::new();
        let rng = ChaCha8Rng::seed_from_u64(seed);
        task.spawn(go_on(
            voice.clone(),
            Arc::clone(&shared),
            Arc::clone(&turn),
            rng,
        ));
        Self {
            shared,
            turn,
            voice,
            _task: task,
        }
    }

    /// Begins no new change. When this returns, all begun changes are published.
    pub(super) async fn pause(&self, paused: bool) {
        self.shared.lock().unwrap().paused = paused;
        let limit = Duration::from_secs(20);
        let _ = tokio::time::timeout(limit, self.turn.lock()).await;
    }

    pub(super) fn states(&self) -> BTreeMap<String, State> {
        let shared = self.shared.lock().unwrap();
        let of = |(name, node): (&String, &Node)| (name.clone(), node.state);
        // A wanted node counts as used by the main scheduler, as in control.
        shared.nodes.iter().map(of).collect()
    }

    /// Takes an idle node, and gives one back that a batch job has had for long enough.
    pub(super) async fn probe(&self) {
        let changes = {
            let mut shared = self.shared.lock().unwrap();
            let now = self.voice.writer.now();
            let find = |wanted: State| {
                let mut nodes = shared.nodes.iter();
                nodes
                    .find(|(_, node)| node.state == wanted && node.next <= now)
                    .map(|(name, _)| name.clone())
            };
            let changes = [
                (find(State::Idle), State::Busy, DEADLINE_S + 3.0),
                (find(State::Busy), State::Idle, 0.0),
            ];
            for (name, state, stay) in &changes {
                if let Some(node) = name.as_ref().and_then(|name| shared.nodes.get_mut(name)) {
                    (node.state, node.next) = (*state, now + stay);
                    shared.said += 1;
                }
            }
            changes
        };
        for (name, state, _) in changes {
            let Some(name) = name else { continue };
            if state == State::Busy {
                self.voice.take(name).await;
            } else {
                self.voice.state(&name, state).await;
            }
        }
    }

    /// Gives back all nodes that batch jobs have had, or waited for, for long enough.
    pub(super) async fn give_back(&self) {
        let now = self.voice.writer.now();
        let mut free = Vec::new();
        {
            let mut shared = self.shared.lock().unwrap();
            for (name, node) in &mut shared.nodes {
                if node.state != State::Idle && node.next <= now {
                    node.state = State::Idle;
                    free.push(name.clone());
                }
            }
            shared.said += free.len() as u64;
        }
        for name in free {
            self.voice.state(&name, State::Idle).await;
        }
    }

    /// Takes this node, if it is idle.
    pub(super) async fn take(&self, name: &str) {
        let _turn = self.turn.lock().await;
        let now = self.voice.writer.now();
        {
            let mut shared = self.shared.lock().unwrap();
            match shared.nodes.get_mut(name) {
                Some(node) if node.state == State::Idle => {
                    (node.state, node.next) = (State::Busy, now + DEADLINE_S + 3.0);
                }
                _ => return,
            }
            shared.said += 1;
        }
        self.voice.take(name.to_owned()).await;
    }

    /// Publishes the state of every node again.
    pub(super) async fn repeat(&self) {
        let states = self.states();
        self.shared.lock().unwrap().repeated += 1;
        let all = async {
            for (name, state) in states {
                let kind = if state == State::Idle { "idle" } else { "busy" };
                self.voice.say(kind, &name, "").await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(5), all).await;
    }

    /// Events published so far, and how often the states of all nodes were repeated.
    pub(super) fn said(&self) -> (u64, u64) {
        let shared = self.shared.lock().unwrap();
        (shared.said, shared.repeated)
    }
}

async fn go_on(voice: Voice, shared: Arc<Mutex<Shared>>, turn: Arc<Turn<()>>, mut rng: ChaCha8Rng) {
    let names: Vec<String> = shared.lock().unwrap().nodes.keys().cloned().collect();
    for name in &names {
        voice.state(name, State::Idle).await;
    }
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(50..400))).await;
        let turn = turn.lock().await;
        let now = voice.writer.now();
        let change = {
            let mut shared = shared.lock().unwrap();
            let name = names.get(rng.random_range(0..names.len())).unwrap();
            let dice: f64 = rng.random();
            let stay = rng.random_range(3.0..15.0);
            let paused = shared.paused;
            let node = shared.nodes.get_mut(name).unwrap();
            let next = match node.state {
                _ if paused || now < node.next => None,
                State::Idle if dice < 0.5 => Some((State::Wanted, now + stay / 3.0)),
                // A batch job begins, and lasts until the checker can tell whether the node was
                // free.
                State::Idle | State::Wanted => Some((State::Busy, now + DEADLINE_S + 3.0)),
                State::Busy => Some((State::Idle, now + 3.0 * stay)),
            };
            if let Some((state, until)) = next {
                (node.state, node.next) = (state, until);
                shared.said += 1;
            }
            next.map(|(state, _)| (name.clone(), state))
        };
        if let Some((name, state)) = change {
            if state == State::Busy {
                voice.take(name).await;
            } else {
                voice.state(&name, state).await;
            }
        }
        drop(turn);
    }
}
