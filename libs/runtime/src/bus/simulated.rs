//! A nats-server without a network, for services in [virtual time](crate::virtual_time).
//!
//! Every connection has two lines, one in each direction. A line keeps the order of its messages
//! and delays each, as TCP does. So messages of one sender stay in order, and those of two senders
//! overtake each other.
//!
//! A connection can be cut, and the server can be killed. Then messages on the lines are lost, and
//! buffered streams lose the tail of [`TAIL`], as with `persist_mode: async`. A [`Weather`] makes
//! the lines of a host lose, repeat and swap messages, as a bad proxy does. A stalled host keeps its
//! connection, and all that it sends arrives when the stall is over, even if it has ended meanwhile.
//! A [`Trap`] stalls or loses a line at the very message of a subject.
//!
//! Streams, buckets, consumers and acknowledgements behave as those of nats-server
//! (`tests/simulated.rs` compares both). Limits of memory, slow consumers, keys and permissions are
//! not simulated.

mod store;
mod traps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::Config;
use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use self::store::{Filter, Stream, message};
use self::traps::Traps;
use super::BusError;
use super::link::LinkSender;
use super::transport::{Acknowledged, Consumed, Messages, Page, PageRequest, Record, StreamState};
use crate::virtual_time::{Dice, true_wall, unique};

pub use self::traps::Trap;

/// A killed server loses this newest part of its buffered streams.
const TAIL: Duration = Duration::from_millis(500);

/// A client reconnects within this many milliseconds.
const BACK_MS: u64 = 1000;

/// A swapped message is late by at most this many milliseconds.
const SWAPPED_MS: u64 = 300;

/// Delay of a message in each direction, in milliseconds, drawn from this range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// The least delay.
    pub least_ms: u64,
    /// The greatest delay.
    pub most_ms: u64,
}

/// Faults of the lines of a host, in thousandths of the messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// Lost messages: publications, acknowledgements, and messages of subjects that no stream
    /// keeps. Messages to consumers are not lost, since a client would request them again.
    pub lost: u64,
    /// Messages that arrive twice.
    pub twice: u64,
    /// Messages that later ones overtake.
    pub swapped: u64,
}

/// A simulated nats-server. Clones are the same one.
#[derive(Debug, Clone)]
pub struct SimulatedServer(Arc<Mutex<State>>);

/// The effect of a message at the server.
type AtServer = Box<dyn FnOnce(&mut State) + Send>;
/// The effect of a message at a client.
type AtClient = Box<dyn FnOnce() + Send>;

struct State {
    dice: Dice,
    delays: Delays,
    is_up: bool,
    /// Whether its disk is full: streams keep nothing more until the server starts again.
    is_full: bool,
    streams: BTreeMap<String, Stream>,
    connections: BTreeMap<u64, Connection>,
    subscriptions: BTreeMap<u64, Subscription>,
    /// Subscriptions of subjects without wildcards.
    literal: BTreeMap<String, Vec<u64>>,
    /// Subscriptions of patterns.
    patterns: Vec<(Filter, u64)>,
    consumers: BTreeMap<u64, Consumer>,
    /// The stream of each subject, once it was looked up.
    kept_by: BTreeMap<String, Option<String>>,
    /// Names of connections that are cut.
    cut: BTreeSet<String>,
    weather: BTreeMap<String, Weather>,
    /// By name of a stalled host: its messages, each with its connection and the epoch of that.
    stalled: BTreeMap<String, Vec<(u64, u64, AtServer)>>,
    traps: Traps,
    numbers: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("is_up", &self.is_up)
            .field("connections", &self.connections.len())
            .finish_non_exhaustive()
    }
}

struct Connection {
    name: String,
    link: LinkSender,
    is_up: bool,
    /// Grows with every cut. Messages of an earlier epoch are lost.
    epoch: u64,
    to_server: Line<AtServer>,
    to_client: Line<AtClient>,
    /// Messages that the client sent while the connection was down.
    waiting: Vec<AtServer>,
}

/// A message on a line.
struct Sent<A> {
    due: Instant,
    epoch: u64,
    /// How much later than its place in the line it arrives, so that others overtake it.
    passed_for: Duration,
    act: A,
}

struct Line<A> {
    into: mpsc::UnboundedSender<Sent<A>>,
    /// When the message before it arrives.
    last: Instant,
}

impl<A> Line<A> {
    fn send(&mut self, delay: Duration, epoch: u64, passed_for: Duration, act: A) {
        self.last = self.last.max(Instant::now() + delay);
        // The other end is there as long as the connection is.
        let _ = self.into.send(Sent {
            due: self.last,
            epoch,
            passed_for,
            act,
        });
    }
}

/// Delivers the messages of a line.
async fn carry<A: Send + 'static>(
    mut line: mpsc::UnboundedReceiver<Sent<A>>,
    arrive: impl Fn(u64, A) + Clone + Send + 'static,
) {
    while let Some(sent) = line.recv().await {
        tokio::time::sleep_until(sent.due).await;
        if sent.passed_for.is_zero() {
            arrive(sent.epoch, sent.act);
            continue;
        }
        let arrive = arrive.clone();
        tokio::spawn(async move {
            tokio::time::sleep(sent.passed_for).await;
            arrive(sent.epoch, sent.act);
        });
    }
}

struct Subscription {
    connection: u64,
    subject: String,
    into: UnboundedSender<async_nats::Message>,
}

struct Consumer {
    connection: u64,
    stream: String,
    filter: Filter,
    into: UnboundedSender<Result<(async_nats::Message, Record), String>>,
}

impl SimulatedServer {
    /// A running server without streams.
    #[must_use]
    pub fn new(seed: u64, delays: Delays) -> Self {
        Self(Arc::new(Mutex::new(State {
            dice: Dice::new(seed),
            delays,
            is_up: true,
            is_full: false,
            streams: BTreeMap::new(),
            connections: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            literal: BTreeMap::new(),
            patterns: Vec::new(),
            consumers: BTreeMap::new(),
            kept_by: BTreeMap::new(),
            cut: BTreeSet::new(),
            weather: BTreeMap::new(),
            stalled: BTreeMap::new(),
            traps: Traps::default(),
            numbers: 0,
        })))
    }

    /// Stops the server as `kill -9` does.
    pub fn kill(&self) {
        let mut state = self.state();
        state.is_up = false;
        let now = state.now_ns();
        for stream in state.streams.values_mut() {
            stream.lose_since(now - i128::try_from(TAIL.as_nanos()).unwrap_or(0));
        }
        state.consumers.clear();
        let all: Vec<u64> = state.connections.keys().copied().collect();
        for connection in all {
            state.lose(connection);
        }
    }

    /// Fills the disk. As nats-server does, it refuses all writes until it is killed and started
    /// again.
    pub fn fill(&self) {
        self.state().is_full = true;
    }

    /// Starts a killed server again, with its streams. Clients reconnect within a second.
    pub fn start(&self) {
        let mut state = self.state();
        state.is_up = true;
        state.is_full = false;
        let all: Vec<u64> = state.connections.keys().copied().collect();
        drop(state);
        for connection in all {
            self.come_back(connection);
        }
    }

    /// The disk of a killed server is lost.
    pub fn empty(&self) {
        let mut state = self.state();
        state.streams.clear();
        state.kept_by.clear();
    }

    /// Cuts the connections of the host with this name.
    pub fn cut(&self, name: &str) {
        let mut state = self.state();
        state.cut.insert(name.to_owned());
        for connection in state.named(name) {
            state.lose(connection);
        }
    }

    /// Restores the connections of the host with this name.
    pub fn mend(&self, name: &str) {
        let mut state = self.state();
        state.cut.remove(name);
        let all = state.named(name);
        drop(state);
        for connection in all {
            self.come_back(connection);
        }
    }

    /// Sets the faults of the lines of the host with this name.
    pub fn set_weather(&self, name: &str, weather: Weather) {
        self.state().weather.insert(name.to_owned(), weather);
    }

    /// Sets a trap for the next message of a subject (or a pattern) from the host with this name, or
    /// for one that comes after `pass` others. The answer is the subject of the message at which it
    /// has sprung. A trap whose answer is not awaited any more does nothing.
    #[must_use]
    pub fn set_trap(
        &self,
        name: &str,
        subject: &str,
        pass: u64,
        trap: Trap,
    ) -> oneshot::Receiver<String> {
        self.state().traps.set(name, subject, pass, trap)
    }

    /// Ends the stall of the host with this name: its messages arrive, in their order.
    pub fn flow(&self, name: &str) {
        let mut state = self.state();
        for (number, epoch, act) in state.stalled.remove(name).unwrap_or_default() {
            if state.carries(number, epoch) {
                act(&mut state);
            }
        }
    }

    /// Connects a host.
    pub(super) fn connect(&self, name: &str, limit: Duration, link: LinkSender) -> Port {
        let (to_server, at_server) = mpsc::unbounded_channel();
        let (to_client, at_client) = mpsc::unbounded_channel();
        let mut state = self.state();
        let number = state.number();
        let now = Instant::now();
        let connection = Connection {
            name: name.to_owned(),
            link,
            is_up: false,
            epoch: 0,
            to_server: Line {
                into: to_server,
                last: now,
            },
            to_client: Line {
                into: to_client,
                last: now,
            },
            waiting: Vec::new(),
        };
        state.connections.insert(number, connection);
        drop(state);
        // Lines belong to the network, not to the host.
        let (server, own) = (self.clone(), name.to_owned());
        tokio::spawn(carry(at_server, move |epoch, act: AtServer| {
            let mut state = server.state();
            if let Some(held) = state.stalled.get_mut(&own) {
                held.push((number, epoch, act));
            } else if state.carries(number, epoch) {
                act(&mut state);
            }
        }));
        let server = self.clone();
        tokio::spawn(carry(at_client, move |epoch, act: AtClient| {
            let arrives = server.state().carries(number, epoch);
            if arrives {
                act();
            }
        }));
        self.come_back(number);
        Port(Arc::new(Connected {
            server: self.clone(),
            number,
            limit,
            dropped: watch::Sender::new(0),
        }))
    }

    /// Connects a client again after a random time.
    fn come_back(&self, number: u64) {
        let wait = self.state().dice.below(BACK_MS);
        let server = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            server.state().restore(number);
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn now_ns(&self) -> i128 {
        i128::from(true_wall().unwrap_or_default()) * 1_000_000
    }

    fn delay(&mut self) -> Duration {
        let Delays { least_ms, most_ms } = self.delays;
        let span = most_ms.saturating_sub(least_ms) + 1;
        Duration::from_millis(least_ms + self.dice.below(span))
    }

    fn named(&self, name: &str) -> Vec<u64> {
        let all = self.connections.iter().filter(|(_, c)| c.name == name);
        all.map(|(&number, _)| number).collect()
    }

    /// Whether a message of this epoch of a connection arrives. Messages of a killed client arrive.
    fn carries(&self, number: u64, epoch: u64) -> bool {
        let connection = self.connections.get(&number);
        connection.is_none_or(|c| c.is_up && c.epoch == epoch)
    }

    fn lose(&mut self, number: u64) {
        self.consumers.retain(|_, c| c.connection != number);
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.epoch += 1;
            connection.is_up = false;
            connection.link.modify(|link| link.up = false);
        }
    }

    /// Ends a connection for good.
    fn forget(&mut self, number: u64) {
        self.lose(number);
        self.connections.remove(&number);
        let subscriptions = self.subscriptions.iter();
        let own = subscriptions.filter(|(_, s)| s.connection == number);
        let own: Vec<u64> = own.map(|(&number, _)| number).collect();
        for number in own {
            self.unsubscribe(number);
        }
    }

    fn restore(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if !self.is_up || connection.is_up || self.cut.contains(&connection.name) {
            return;
        }
        connection.is_up = true;
        connection.link.modify(|link| {
            link.up = true;
            link.generation += 1;
        });
        let waiting = std::mem::take(&mut connection.waiting);
        for act in waiting {
            self.send_to_server(number, act);
        }
    }

    /// Springs a trap of this kind that waits for such a message of a connection.
    fn spring(&mut self, number: u64, subject: &str, trap: Trap) {
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        if self.traps.springs(&connection.name, subject, trap) {
            match trap {
                Trap::Stall => {
                    let name = connection.name.clone();
                    self.stalled.entry(name).or_default();
                }
                Trap::Lose => self.lose(number),
            }
        }
    }

    /// How many times a message of a connection arrives, by its faults.
    fn times(&mut self, number: u64) -> usize {
        let weather = self.weather_of(number);
        let dice = match weather {
            Weather {
                lost: 0, twice: 0, ..
            } => return 1,
            _ => self.dice.below(1000),
        };
        match dice {
            dice if dice < weather.lost => 0,
            dice if dice < weather.lost + weather.twice => 2,
            _ => 1,
        }
    }

    fn weather_of(&self, number: u64) -> Weather {
        let name = self.connections.get(&number).map(|c| &c.name);
        let weather = name.and_then(|name| self.weather.get(name));
        weather.copied().unwrap_or_default()
    }

    /// The extra delay of a message, by the faults of its connection.
    fn passed_for(&mut self, number: u64) -> Duration {
        let swapped = self.weather_of(number).swapped;
        if swapped == 0 || self.dice.below(1000) >= swapped {
            return Duration::ZERO;
        }
        Duration::from_millis(1 + self.dice.below(SWAPPED_MS))
    }

    /// Sends a message from a client.
    fn send_to_server(&mut self, number: u64, act: AtServer) {
        self.send_late_to_server(number, Duration::ZERO, act);
    }

    fn send_late_to_server(&mut self, number: u64, passed_for: Duration, act: AtServer) {
        let delay = self.delay();
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if connection.is_up {
            let epoch = connection.epoch;
            let line = &mut connection.to_server;
            line.send(delay, epoch, passed_for, act);
        } else {
            connection.waiting.push(act);
        }
    }

    /// Sends a message to a client.
    fn send_to_client(&mut self, number: u64, act: AtClient) {
        self.send_late_to_client(number, Duration::ZERO, act);
    }

    fn send_late_to_client(&mut self, number: u64, passed_for: Duration, act: AtClient) {
        let delay = self.delay();
        if let Some(connection) = self.connections.get_mut(&number)
            && connection.is_up
        {
            let epoch = connection.epoch;
            let line = &mut connection.to_client;
            line.send(delay, epoch, passed_for, act);
        }
    }

    /// Delivers a message to all subscriptions of its subject; gives their number.
    fn deliver(&mut self, message: &async_nats::Message) -> usize {
        let subject = message.subject.as_str();
        let mut all = self.literal.get(subject).cloned().unwrap_or_default();
        let matching = self.patterns.iter().filter(|(f, _)| f.matches(subject));
        all.extend(matching.map(|(_, number)| *number));
        all.sort_unstable();
        let mut count = 0;
        for number in all {
            let Some(subscription) = self.subscriptions.get(&number) else {
                continue;
            };
            count += 1;
            let (connection, into) = (subscription.connection, subscription.into.clone());
            for _ in 0..self.times(connection) {
                let (into, message) = (into.clone(), message.clone());
                let late = self.passed_for(connection);
                let act = Box::new(move || drop(into.unbounded_send(message)));
                self.send_late_to_client(connection, late, act);
            }
        }
        count
    }

    /// Takes a message: into its stream, if one keeps it, and to the subscribers of its subject.
    fn take(
        &mut self,
        subject: &str,
        reply: Option<String>,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> (usize, Result<u64, BusError>) {
        let heard = self.deliver(&message(subject, reply, headers.clone(), payload.clone()));
        (
            heard,
            self.keep(subject, headers.unwrap_or_default(), payload),
        )
    }

    fn keep(&mut self, subject: &str, headers: HeaderMap, payload: Bytes) -> Result<u64, BusError> {
        let none = || BusError::Stream {
            stream: subject.to_owned(),
            reason: "no stream keeps this subject".to_owned(),
        };
        let name = self.stream_of(subject).ok_or_else(none)?;
        if self.is_full {
            let reason = "insufficient storage resources available".to_owned();
            return Err(BusError::NoRoom {
                subject: subject.to_owned(),
                reason,
            });
        }
        let now = self.now_ns();
        let stream = self.streams.get_mut(&name).ok_or_else(none)?;
        let sequence = stream.store(subject, headers, payload, now)?;
        let hearing = self.consumers.values();
        let hearing = hearing.filter(|c| c.stream == name && c.filter.matches(subject));
        let hearing: Vec<_> = hearing.map(|c| (c.connection, c.into.clone())).collect();
        for (connection, into) in hearing {
            let Some(kept) = self.streams.get(&name).and_then(|s| s.read(sequence, 0)) else {
                break;
            };
            let act = Box::new(move || drop(into.unbounded_send(Ok(kept))));
            self.send_to_client(connection, act);
        }
        Ok(sequence)
    }

    fn stream_of(&mut self, subject: &str) -> Option<String> {
        if let Some(known) = self.kept_by.get(subject) {
            return known.clone();
        }
        let mut all = self.streams.iter();
        let found = all.find(|(_, stream)| stream.keeps(subject));
        let found = found.map(|(name, _)| name.clone());
        self.kept_by.insert(subject.to_owned(), found.clone());
        found
    }

    fn stream(&mut self, name: &str) -> Result<&mut Stream, String> {
        let now = self.now_ns();
        let stream = self.streams.get_mut(name);
        let stream = stream.ok_or_else(|| "stream not found".to_owned())?;
        stream.expire(now);
        Ok(stream)
    }

    fn unsubscribe(&mut self, number: u64) {
        let Some(subscription) = self.subscriptions.remove(&number) else {
            return;
        };
        self.patterns.retain(|(_, other)| *other != number);
        if let Some(all) = self.literal.get_mut(&subscription.subject) {
            all.retain(|other| *other != number);
            if all.is_empty() {
                self.literal.remove(&subscription.subject);
            }
        }
    }
}

/// A client's end of a connection. Clones share it, and the last one closes it.
#[derive(Debug, Clone)]
pub(super) struct Port(Arc<Connected>);

#[derive(Debug)]
struct Connected {
    server: SimulatedServer,
    number: u64,
    limit: Duration,
    /// Never changes, since no receiver is too slow here.
    dropped: watch::Sender<u64>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.server.state().forget(self.number);
    }
}

/// Ends a subscription or a consumer when its reader is dropped.
struct Ends(Port, u64);

impl Drop for Ends {
    fn drop(&mut self) {
        let number = self.1;
        self.0.act(move |state| {
            state.unsubscribe(number);
            state.consumers.remove(&number);
        });
    }
}

/// Waits for an answer up to the limit, also when the answer is lost.
async fn within<T>(limit: Duration, answer: oneshot::Receiver<T>) -> Option<T> {
    let answered = async {
        match answer.await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::time::timeout(limit, answered).await.ok()
}

impl Port {
    fn act(&self, act: impl FnOnce(&mut State) + Send + 'static) {
        let mut state = self.0.server.state();
        state.send_to_server(self.0.number, Box::new(act));
    }

    /// Lets the server act and waits for the result; nothing if no answer arrives.
    async fn ask<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> Option<T> {
        let (into, answer) = oneshot::channel();
        let number = self.0.number;
        self.act(move |state| {
            let done = act(state);
            state.send_to_client(number, Box::new(move || drop(into.send(done))));
        });
        within(self.0.limit, answer).await
    }

    pub(super) fn dropped(&self) -> watch::Receiver<u64> {
        self.0.dropped.subscribe()
    }

    pub(super) fn publish(&self, subject: &str, headers: Option<HeaderMap>, payload: Bytes) {
        let number = self.0.number;
        let mut state = self.0.server.state();
        state.spring(number, subject, Trap::Stall);
        for _ in 0..state.times(number) {
            let (subject, headers, payload) =
                (subject.to_owned(), headers.clone(), payload.clone());
            let late = state.passed_for(number);
            let act = move |state: &mut State| {
                drop(state.take(&subject, None, headers, payload));
                state.spring(number, &subject, Trap::Lose);
            };
            state.send_late_to_server(number, late, Box::new(act));
        }
    }

    /// Never lost, since a client subscribes again by itself after an outage.
    pub(super) fn subscribe(&self, subject: &str) -> Messages {
        let (into, messages) = unbounded();
        let mut state = self.0.server.state();
        let number = state.number();
        let subscription = Subscription {
            connection: self.0.number,
            subject: subject.to_owned(),
            into,
        };
        match Filter::new(subject) {
            Filter::Literal(subject) => state.literal.entry(subject).or_default().push(number),
            pattern @ Filter::Pattern(_) => state.patterns.push((pattern, number)),
        }
        state.subscriptions.insert(number, subscription);
        drop(state);
        let ends = Ends(self.clone(), number);
        let messages = messages.map(move |message| {
            let _ = &ends;
            message
        });
        Messages(Box::pin(messages))
    }

    pub(super) fn new_inbox(&self) -> String {
        format!("_INBOX.{:032x}", unique())
    }

    /// What was sent before arrives. A closed connection comes back no more, though a task may still
    /// hold it: it would repeat states that are no longer the newest.
    pub(super) async fn close(&self) {
        let _ = self.ask(|_| ()).await;
        self.0.server.state().forget(self.0.number);
    }

    pub(super) async fn request(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
        limit: Duration,
    ) -> Result<async_nats::Message, BusError> {
        let inbox = self.new_inbox();
        let mut answers = self.subscribe(&inbox);
        let at = subject.to_owned();
        let (into, unheard) = oneshot::channel();
        let number = self.0.number;
        self.act(move |state| {
            let (heard, _) = state.take(&at, Some(inbox), Some(headers), payload);
            if heard == 0 {
                state.send_to_client(
                    number,
                    Box::new(move || {
                        // The requester may have gone.
                        let _ = into.send(());
                    }),
                );
            }
        });
        let subject = subject.to_owned();
        let late = tokio::time::sleep(limit);
        tokio::select! {
            biased;
            answer = answers.next() => answer.ok_or(BusError::Closed { subject }),
            Ok(()) = unheard => Err(BusError::NoResponders { subject }),
            () = late => Err(BusError::Timeout { subject }),
        }
    }

    pub(super) fn send(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Acknowledged, BusError> {
        let port = self.clone();
        let (into, answer) = oneshot::channel();
        let mut into = Some(into);
        let number = self.0.number;
        let mut state = self.0.server.state();
        state.spring(number, subject, Trap::Stall);
        for _ in 0..state.times(number) {
            let (at, headers, payload) = (subject.to_owned(), headers.clone(), payload.clone());
            // The acknowledgement of a repetition is dropped.
            let into = into.take();
            let late = state.passed_for(number);
            let act = move |state: &mut State| {
                let (_, kept) = state.take(&at, None, Some(headers), payload);
                state.spring(number, &at, Trap::Lose);
                let Some(into) = into else { return };
                if state.times(number) > 0 {
                    let late = state.passed_for(number);
                    let act = Box::new(move || drop(into.send(kept)));
                    state.send_late_to_client(number, late, act);
                }
            };
            state.send_late_to_server(number, late, Box::new(act));
        }
        drop(state);
        let subject = subject.to_owned();
        Ok(Box::pin(async move {
            let kept = within(port.0.limit, answer).await;
            kept.unwrap_or(Err(BusError::Timeout { subject }))
        }))
    }

    pub(super) async fn state(&self, stream: &str) -> Result<StreamState, String> {
        let name = stream.to_owned();
        let state = self.ask(move |state| state.stream(&name).map(|stream| stream.state()));
        state.await.unwrap_or_else(|| Err("no answer".to_owned()))
    }

    pub(super) async fn consume(
        &self,
        stream: &str,
        subject: &str,
        from: DeliverPolicy,
    ) -> Result<Consumed, String> {
        let (into, messages) = unbounded();
        let own = self.0.server.state().number();
        let connection = self.0.number;
        let consumer = Consumer {
            connection,
            stream: stream.to_owned(),
            filter: Filter::new(subject),
            into,
        };
        let made = self.ask(move |state| {
            let stream = state.stream(&consumer.stream)?;
            let wanted = stream.wanted(&consumer.filter, from);
            let count = wanted.len() as u64;
            let backlog = wanted.into_iter().zip((0..count).rev());
            let backlog = backlog.filter_map(|(sequence, pending)| stream.read(sequence, pending));
            let backlog: Vec<_> = backlog.collect();
            state.consumers.insert(own, consumer);
            Ok::<_, String>(backlog)
        });
        let backlog = made.await.unwrap_or_else(|| Err("no answer".to_owned()))?;
        let ends = Ends(self.clone(), own);
        let live = messages.map(move |message| {
            let _ = &ends;
            message
        });
        Ok(futures::stream::iter(backlog.into_iter().map(Ok))
            .chain(live)
            .boxed())
    }

    pub(super) async fn newest(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StreamMessage>, BusError> {
        let (name, filter) = (stream.to_owned(), Filter::new(subject));
        let newest = self.ask(move |state| state.stream(&name).map(|s| s.newest(&filter)));
        self.answered(stream, subject, newest.await)
    }

    pub(super) async fn page(&self, ask: PageRequest<'_>) -> Result<Page, BusError> {
        let (stream, subject) = (ask.stream, ask.subject);
        let (name, filter) = (stream.to_owned(), Filter::new(subject));
        let (begin, batch, bytes) = (ask.begin, ask.batch, ask.max_bytes);
        let page = self.ask(move |state| {
            let stream = state.stream(&name);
            stream.map(|stream| stream.page(&filter, &begin, batch, bytes))
        });
        self.answered(stream, subject, page.await)
    }

    fn answered<T>(
        &self,
        stream: &str,
        subject: &str,
        answer: Option<Result<T, String>>,
    ) -> Result<T, BusError> {
        let late = || BusError::Timeout {
            subject: subject.to_owned(),
        };
        answer.ok_or_else(late)?.map_err(|reason| BusError::Stream {
            stream: stream.to_owned(),
            reason,
        })
    }

    pub(super) async fn purge(&self, stream: &str, before: u64) -> Result<(), String> {
        let name = stream.to_owned();
        let purged = self.ask(move |state| state.stream(&name).map(|s| s.purge(before)));
        purged.await.unwrap_or_else(|| Err("no answer".to_owned()))
    }

    pub(super) async fn ensure(&self, config: Config) -> Result<(), BusError> {
        let name = config.name.clone();
        let made = self.ask(move |state| {
            let now = state.now_ns();
            state.kept_by.clear();
            let name = config.name.clone();
            let made = || Stream::new(config, now);
            state.streams.entry(name).or_insert_with(made);
        });
        made.await.ok_or_else(|| BusError::Stream {
            stream: name,
            reason: "no answer".to_owned(),
        })
    }
}
