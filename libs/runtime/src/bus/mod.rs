//! The bus of the services over NATS: typed messages in both directions. A message that does not
//! decode becomes a dead letter.

mod bucket;
mod certificate;
mod connect;
mod credentials;
mod dead_letters;
mod denied;
mod direct;
mod error;
mod follow;
mod gate;
mod kept;
mod key_end;
mod link;
mod nats;
mod queue;
mod seal;
mod send;
mod server;
mod simulated;
mod streams;
mod subscription;
mod tls;
mod transport;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lacuna_model::{ClusterId, Timestamp};
use lacuna_wire::access::Access;
use lacuna_wire::msg::DeadLetter;
use lacuna_wire::{Envelope, Message, address, codec, token};
use prometheus::IntCounter;
use tokio::sync::watch;

use crate::clock::{self, Stopwatch};

pub use bucket::{Bucket, Entry};
pub use connect::declare_metrics;
pub use error::BusError;
pub use follow::{Follow, Newest, Start};
pub use link::{Link, LinkReceiver};
pub use nats::Nats;
pub use queue::{Delivery, Queue};
pub use send::PendingAck;
pub use simulated::{Delays, SimulatedServer, Trap, Weather};
pub use subscription::{Received, Subscription, TextRequest};

/// The header of a direct get's answer that names the stream.
const STREAM: &str = "Nats-Stream";

/// A payload in a dead letter is cut at this many bytes.
const DEAD_LETTER_BYTES: usize = 64 << 10;

/// The reason in a dead letter is cut at this many bytes: it may quote the message.
const DEAD_LETTER_REASON: usize = 1 << 10;

/// The connection of one service. Clones share it.
#[derive(Clone)]
pub struct Bus(Arc<Inner>);

struct Inner {
    server: server::Server,
    cluster: ClusterId,
    service: String,
    /// The user in whose name requests are sent.
    user: String,
    source: String,
    /// Unique for this process. The id of a message is this and a number.
    instance: String,
    sent: AtomicU64,
    link: link::LinkSender,
    /// The number of times that the client has dropped messages because a receiver was too slow.
    dropped: watch::Receiver<u64>,
    limit: Duration,
    metrics: BusMetrics,
    kept: kept::Kept,
    denials: denied::Denials,
    dead_letters: Mutex<dead_letters::DeadLetters>,
    /// The permissions of this user, if the server knows users by keys.
    access: Option<Access>,
    gate: gate::Gate,
    seal: seal::Seal,
    /// See [`Bus::leader_since`].
    leader_since: AtomicU64,
    /// The newest message that this process stored on each state subject.
    retained: tokio::sync::Mutex<BTreeMap<String, (async_nats::HeaderMap, bytes::Bytes)>>,
}

/// The metrics of the bus.
#[derive(Debug, Clone)]
struct BusMetrics {
    dead_letters: IntCounter,
    failed: IntCounter,
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bus")
            .field("cluster", &self.0.cluster)
            .field("service", &self.0.service)
            .field("link", &self.0.link.now())
            .finish_non_exhaustive()
    }
}

impl Bus {
    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        &self.0.cluster
    }

    /// The name of the service, as in `lacuna-<service>`.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.0.service
    }

    /// The user in whose name requests are sent: that of the connection, else that of the process.
    /// A server with permissions refuses requests in the name of another user.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.0.user
    }

    /// Whether the server proves the user of a request: it knows users by keys, and lets each
    /// publish in their own name only. Otherwise the user is only a claim.
    #[must_use]
    pub fn proven(&self) -> bool {
        self.0.access.is_some()
    }

    /// The state of the connection, which can be awaited.
    #[must_use]
    pub fn link(&self) -> LinkReceiver {
        self.0.link.receiver()
    }

    /// When this process took the leadership of its service, in milliseconds since 1970. It grows
    /// with every leader. Without a leadership it is the time of the connection.
    #[must_use]
    pub fn leader_since(&self) -> u64 {
        self.0.leader_since.load(Ordering::Relaxed)
    }

    pub(crate) fn set_leader_since(&self, since: Timestamp) {
        self.0.leader_since.store(millis(since), Ordering::Relaxed);
    }

    fn generation(&self) -> u64 {
        self.0.link.now().generation
    }

    /// Counts an outage: messages of this process were lost, and everything is repaired as after a
    /// reconnection.
    pub(crate) fn count_outage(&self) {
        self.0.link.modify(|link| link.generation += 1);
    }

    /// Whether the connection is up.
    #[must_use]
    pub fn connected(&self) -> bool {
        self.0.link.now().up
    }

    /// The client of NATS, for operations that this handle does not have.
    ///
    /// # Errors
    /// [`BusError::Other`] for a simulated server, which has none.
    pub fn nats(&self) -> Result<&Nats, BusError> {
        match &self.0.server {
            server::Server::Nats(nats) => Ok(nats),
            server::Server::Simulated(_) => Err(BusError::other("", "the server is simulated")),
        }
    }

    /// Waits until all sent messages are handed to the network.
    ///
    /// # Errors
    /// [`BusError::Other`] if the connection has been closed.
    pub async fn flush(&self) -> Result<(), BusError> {
        self.0.server.flush().await
    }

    /// The prefix of the ids of this process's messages: see [`Bus::sender`].
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.0.instance
    }

    /// The [`Bus::instance`] that sent a message of one of Lacuna's services.
    #[must_use]
    pub fn sender(envelope: &Envelope) -> &str {
        let parts = envelope.id.rsplit_once('-');
        parts.map_or(&*envelope.id, |(instance, _)| instance)
    }

    /// A new message id, unique for this process.
    #[must_use]
    pub fn new_id(&self) -> String {
        let number = self.0.sent.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.0.instance)
    }

    /// Counts a message that cannot be decoded, and stores it as a dead letter for the operator.
    /// Returns at once. Of a flood, only the first ones are stored and logged.
    pub fn dead_letter(&self, subject: &str, reason: &str, payload: &[u8]) {
        self.0.metrics.dead_letters.inc();
        let end = reason.floor_char_boundary(DEAD_LETTER_REASON);
        let reason = reason.get(..end).unwrap_or(reason);
        let mut letters = self
            .0
            .dead_letters
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let limited = letters.count(subject, Stopwatch::start().instant());
        drop(letters);
        match limited {
            dead_letters::Limited::Within => tracing::warn!(subject, reason, "message refused"),
            dead_letters::Limited::FirstOver => {
                tracing::warn!(
                    subject,
                    reason,
                    "messages refused too often to keep and log each"
                );
                return;
            }
            dead_letters::Limited::Over => return,
        }
        let kept = payload.get(..DEAD_LETTER_BYTES).unwrap_or(payload);
        let letter = DeadLetter {
            subject: subject.to_owned(),
            service: self.0.service.clone(),
            reason: reason.to_owned(),
            payload: kept.to_owned(),
        };
        let bus = self.clone();
        let address = address::dead(bus.cluster(), bus.service());
        let access = self.0.access.as_ref();
        if access.is_some_and(|to| !to.publish.contains(address.as_str())) {
            return;
        }
        crate::task::spawn(async move {
            if let Err(error) = bus.publish(&address, &letter, "").await {
                tracing::warn!(%error, "dead letter lost");
            }
        });
    }

    /// Sends the buffered messages and closes the connection.
    pub async fn close(&self) {
        self.0.server.close().await;
    }

    /// Decodes a message. An undecodable one becomes a dead letter.
    fn open<M: Message>(
        &self,
        subject: &str,
        headers: Option<&async_nats::HeaderMap>,
        payload: &[u8],
    ) -> Option<(Envelope, M)> {
        self.open_from(Origin::Sender, subject, headers, payload)
    }

    fn open_from<M: Message>(
        &self,
        origin: Origin,
        subject: &str,
        headers: Option<&async_nats::HeaderMap>,
        payload: &[u8],
    ) -> Option<(Envelope, M)> {
        if is_relayed(headers, origin) {
            let reason = "it is a server's answer to a request that named this subject";
            self.dead_letter(subject, reason, payload);
            return None;
        }
        let envelope = Envelope::read(headers.into_iter().flat_map(pairs));
        if let Ok(envelope) = &envelope
            && let Some(reason) = self
                .0
                .seal
                .refuses::<M>(subject, envelope, payload, headers)
        {
            self.dead_letter(subject, reason, payload);
            return None;
        }
        let decoded =
            envelope.and_then(|envelope| codec::decode(&envelope, payload).map(|m| (envelope, m)));
        match decoded {
            Ok((_, message)) if !is_of(&message, subject) => {
                let reason = "it is about another node or trainer than its subject";
                self.dead_letter(subject, reason, payload);
                None
            }
            Ok(opened) => Some(opened),
            Err(e) => {
                self.dead_letter(subject, &e.to_string(), payload);
                None
            }
        }
    }

    /// The envelope of a message to be sent now.
    fn envelope<M: Message>(&self, correlation: &str) -> Envelope {
        Envelope::of::<M>(&self.new_id(), &self.0.source, clock::wall(), correlation)
    }
}

fn millis(at: Timestamp) -> u64 {
    u64::try_from(at.unix_ms()).unwrap_or_default()
}

/// The origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The sender, live or through a stream.
    Sender,
    /// An answer of the server, which names its stream.
    Answer,
}

/// Whether a message is the server's answer to a direct get, sent to this subject. The requester
/// chooses the subject of the answer, and could so write where it has no permission.
fn is_relayed(headers: Option<&async_nats::HeaderMap>, origin: Origin) -> bool {
    let named = headers.map_or(0, |headers| headers.get_all(STREAM).count());
    named > usize::from(origin == Origin::Answer)
}

/// Checks the version of a message.
///
/// # Errors
/// [`BusError::Decode`] if it is a message of this kind in a version that is not read.
fn refuse_version<M: Message>(
    subject: &str,
    headers: Option<&async_nats::HeaderMap>,
) -> Result<(), BusError> {
    let envelope = Envelope::read(headers.into_iter().flat_map(pairs));
    let of_kind = envelope.ok().filter(|envelope| envelope.kind == M::KIND);
    let version = of_kind.map_or(M::VERSION, |envelope| envelope.version);
    codec::check_version::<M>(version).map_err(|source| BusError::Decode {
        subject: subject.to_owned(),
        source,
    })
}

/// Whether a message is about the node or trainer of its subject. The server lets the agent of a
/// node publish on that node's subjects only. This check ensures that the message is about that
/// node.
fn is_of<M: Message>(message: &M, subject: &str) -> bool {
    let about = message.about();
    let mut tokens = subject.rsplit('.');
    let mut names = about.into_iter().rev();
    names.all(|name| tokens.next() == Some(token::escape(name).as_str()))
}

/// Headers as names and values.
fn pairs(headers: &async_nats::HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers.iter().flat_map(|(name, values)| {
        let name: &str = name.as_ref();
        values.iter().map(move |value| (name, value.as_str()))
    })
}
