//! Following a stream by direct gets, without a consumer. A consumer could send its messages to any
//! subject, and the server would have to hold one for each of ten thousand agents.
//!
//! A follower subscribes to the subject, and gets the messages that it has missed from the stream:
//! at the start, after a reconnection, and when it was too slow.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use bytes::Bytes;
use lacuna_model::{Span, Timestamp};
use lacuna_wire::{Message, Subject};
use tokio::sync::{mpsc, watch};

use super::follow::AHEAD;
use super::transport::{Begin, DELETED, Messages, PENDING, Page, PageRequest, kept_by, timestamp};
use super::{Bus, BusError, Follow, Origin, Received, Start};

/// Messages in one answer of the server.
const BATCH: u64 = 512;

/// Bytes in one answer, after which the server sends no further message.
const BATCH_BYTES: u64 = 4 << 20;

/// Senders on one subject whose message numbers are remembered.
const SENDERS: usize = 8;

/// Messages that are older than the newest one by up to this time are read again after a
/// reconnection. It is the tolerated difference between the clocks of senders and server.
const OVERLAP: Span = Span::from_secs(300);

/// Pause before the stream is read again because messages were dropped. A slow receiver does not
/// get more at once.
const CALM: Duration = Duration::from_secs(1);

impl Bus {
    /// Like [`Bus::follow`], for users that are no services: subscribes to the subject, and gets
    /// missed messages from the stream. It also receives messages that the stream has refused. Only
    /// messages from the stream have [`Received::kept`] and a sequence number.
    ///
    /// # Errors
    /// Those of [`Bus::follow`].
    pub async fn follow_direct<M: Message + Send + 'static>(
        &self,
        subject: &Subject<M>,
        start: Start,
    ) -> Result<Follow<M>, BusError> {
        let (into, messages) = mpsc::channel(AHEAD);
        let follower = DirectFollower {
            bus: self.clone(),
            stream: kept_by(subject)?.to_owned(),
            live: self.listen(subject.as_str()).await?,
            subject: subject.clone(),
            start,
            newest: None,
            handed_on: HandedOn::default(),
            into,
        };
        // An error of the stream shows at once.
        self.patiently(&follower.stream, || self.newest_of(subject))
            .await?;
        crate::task::spawn(follower.run());
        Ok(Follow::new(subject, messages))
    }

    /// One page of the messages that a stream holds of a subject or pattern.
    ///
    /// # Errors
    /// [`BusError::Timeout`] or [`BusError::Stream`].
    pub(super) async fn page<M>(
        &self,
        subject: &Subject<M>,
        begin: Begin,
    ) -> Result<Page, BusError> {
        self.page_of(subject, begin, BATCH_BYTES).await
    }

    /// The messages that a stream holds of a subject or pattern from a sequence number on, up to a
    /// number of bytes, and the number at which there may be more. Undecodable messages are left
    /// out.
    ///
    /// # Errors
    /// Those of [`Bus::last`].
    pub async fn read_from<M: Message>(
        &self,
        subject: &Subject<M>,
        sequence: u64,
        bytes: u64,
    ) -> Result<(Vec<M>, Option<u64>), BusError> {
        let ask = || self.page_of(subject, Begin::Seq(sequence.max(1)), bytes);
        let page = self.patiently(kept_by(subject)?, ask).await?;
        let opened = page.messages.iter().filter_map(|message| {
            let headers = Some(&message.headers);
            let at = message.subject.as_str();
            self.open_from(Origin::Answer, at, headers, &message.payload)
        });
        let next = page.next.and_then(|begin| match begin {
            Begin::Seq(next) => Some(next),
            Begin::StartTime(_) => None,
        });
        Ok((opened.map(|(_, message)| message).collect(), next))
    }

    async fn page_of<M>(
        &self,
        subject: &Subject<M>,
        begin: Begin,
        max_bytes: u64,
    ) -> Result<Page, BusError> {
        let request = PageRequest {
            stream: kept_by(subject)?,
            subject: subject.as_str(),
            begin,
            batch: BATCH,
            max_bytes,
        };
        self.0.server.page(request).await
    }

    /// The newest message of a subject or pattern, if the stream holds one.
    ///
    /// # Errors
    /// [`BusError::NotKept`], [`BusError::Timeout`] or [`BusError::Stream`].
    pub(super) async fn newest_of<M>(
        &self,
        subject: &Subject<M>,
    ) -> Result<Option<StreamMessage>, BusError> {
        let stream = kept_by(subject)?;
        self.0.server.newest(stream, subject.as_str()).await
    }

    /// Whether the server has the stream of this request. Any answer proves it.
    pub(super) async fn answers(&self, request: &str) -> bool {
        let server = &self.0.server;
        let answer = server.request(request, HeaderMap::new(), Bytes::new(), self.0.limit);
        answer.await.is_ok()
    }
}

struct DirectFollower<M> {
    bus: Bus,
    stream: String,
    live: Messages,
    subject: Subject<M>,
    start: Start,
    /// The latest sending time of the messages that were handed on, by their senders' clocks.
    newest: Option<Timestamp>,
    handed_on: HandedOn,
    into: mpsc::Sender<Received<M>>,
}

/// The receiver is gone, or the connection is closed for good.
struct Ended;

impl<M: Message + Send + 'static> DirectFollower<M> {
    async fn run(mut self) {
        let mut again = false;
        loop {
            let (generation, mut drops) = (self.bus.generation(), self.bus.0.dropped.clone());
            drops.mark_unchanged();
            let mut wait = Duration::from_millis(20);
            loop {
                match self.read_stored(again).await {
                    Ok(Ok(())) => break,
                    Ok(Err(Ended)) => return,
                    Err(error) => {
                        tracing::debug!(stream = self.stream, %error, "stream cannot be read, retrying");
                        tokio::select! {
                            biased;
                            () = self.into.closed() => return,
                            () = tokio::time::sleep(wait) => {}
                        }
                        wait = (wait * 2).min(Duration::from_secs(1));
                    }
                }
            }
            again = true;
            if self.follow_live(generation, drops).await.is_err() {
                return;
            }
        }
    }

    /// Hands on live messages until some may have been missed.
    async fn follow_live(
        &mut self,
        generation: u64,
        mut drops: watch::Receiver<u64>,
    ) -> Result<(), Ended> {
        let mut link = self.bus.link();
        loop {
            tokio::select! {
                biased;
                () = self.into.closed() => return Err(Ended),
                () = link.changed() => {
                    let now = link.seen();
                    if now.up && now.generation != generation {
                        return Ok(());
                    }
                }
                changed = drops.changed() => {
                    changed.map_err(|_| Ended)?;
                    tokio::time::sleep(CALM).await;
                    return Ok(());
                }
                message = self.live.next() => self.hand_on_live(message.ok_or(Ended)?).await?,
            }
        }
    }

    /// Hands on the messages of the stream that have not been handed on yet.
    async fn read_stored(&mut self, again: bool) -> Result<Result<(), Ended>, BusError> {
        let newest_alone = matches!(self.start, Start::Last | Start::LastOn);
        if self.start == Start::Last && !self.subject.is_pattern() {
            let newest = self.bus.newest_of(&self.subject).await?;
            return Ok(match newest {
                Some(newest) => self.hand_on_stored(newest).await,
                None => Ok(()),
            });
        }
        let Some(begin) = self.begin(again).await? else {
            return Ok(Ok(()));
        };
        let (mut next, mut of_each) = (Some(begin), BTreeMap::new());
        while let Some(begin) = next {
            let page = self.bus.page(&self.subject, begin).await?;
            next = page.next;
            if newest_alone {
                let pairs = page.messages.into_iter();
                of_each.extend(pairs.map(|m| (m.subject.to_string(), m)));
                continue;
            }
            for message in page.messages {
                if self.hand_on_stored(message).await.is_err() {
                    return Ok(Err(Ended));
                }
            }
        }
        let mut of_each: Vec<StreamMessage> = of_each.into_values().collect();
        of_each.sort_by_key(|message| message.sequence);
        for message in of_each {
            if self.hand_on_stored(message).await.is_err() {
                return Ok(Err(Ended));
            }
        }
        Ok(Ok(()))
    }

    /// Where to begin to read; nothing if no stored message is wanted. An emptied server gives its
    /// numbers again, so after a reconnection the time decides.
    async fn begin(&self, again: bool) -> Result<Option<Begin>, BusError> {
        if again && self.start != Start::Last {
            let since = self.newest.map(|newest| newest - OVERLAP);
            return Ok(since.map(|since| Begin::StartTime(since.to_string())));
        }
        let seq = match self.start {
            Start::Last | Start::LastOn | Start::All => 1,
            Start::New => return Ok(None),
            Start::Newest(count) => {
                let newest = self.bus.newest_of(&self.subject).await?;
                let after = newest.map_or(1, |newest| newest.sequence.saturating_add(1));
                after.saturating_sub(count)
            }
            Start::Sequence(first) => first,
        };
        Ok(Some(Begin::Seq(seq.max(1))))
    }

    async fn hand_on_stored(&mut self, message: StreamMessage) -> Result<(), Ended> {
        let subject = message.subject.to_string();
        let headers = Some(&message.headers);
        if message.headers.get(DELETED).is_some() {
            return Ok(());
        }
        let opened = self
            .bus
            .open_from(Origin::Answer, &subject, headers, &message.payload);
        let Some((envelope, decoded)) = opened else {
            return Ok(());
        };
        // States are delivered again after a reconnection. Other messages count once.
        let known = self.handed_on.stored(&subject, &envelope.id);
        if known && self.start != Start::Last {
            return Ok(());
        }
        let pending = message.headers.get_last(PENDING);
        self.hand_on(Received {
            sequence: message.sequence,
            pending: pending.and_then(|p| p.as_str().parse().ok()).unwrap_or(0),
            kept: Some(timestamp(message.time)),
            ..Received::published(decoded, envelope, subject)
        })
        .await
    }

    async fn hand_on_live(&mut self, message: async_nats::Message) -> Result<(), Ended> {
        let subject = message.subject.to_string();
        let headers = message.headers.as_ref();
        if headers.is_some_and(|h| h.get(DELETED).is_some()) {
            return Ok(());
        }
        let opened = self.bus.open::<M>(&subject, headers, &message.payload);
        let Some((envelope, decoded)) = opened else {
            return Ok(());
        };
        if self.handed_on.live(&subject, &envelope.id) {
            return Ok(());
        }
        self.hand_on(Received::published(decoded, envelope, subject))
            .await
    }

    async fn hand_on(&mut self, received: Received<M>) -> Result<(), Ended> {
        let sent = received.envelope.time;
        self.newest = Some(self.newest.map_or(sent, |newest| newest.max(sent)));
        self.into.send(received).await.map_err(|_| Ended)
    }
}

/// The messages of one sender on one subject. A sender numbers its messages.
#[derive(Debug)]
struct Sender {
    name: String,
    /// The newest number that was read from the stream.
    stored: u64,
    /// The greatest number that was handed on.
    handed_on: u64,
}

/// The messages that were handed on, by subject.
#[derive(Debug, Default)]
struct HandedOn(BTreeMap<String, VecDeque<Sender>>);

impl HandedOn {
    /// Takes a message of the stream; gives whether it has been handed on before.
    fn stored(&mut self, subject: &str, id: &str) -> bool {
        let Some((sender, number)) = self.sender(subject, id) else {
            return false;
        };
        let known = number <= sender.handed_on;
        // A server that has lost its newest messages receives them again.
        sender.stored = number;
        sender.handed_on = sender.handed_on.max(number);
        known
    }

    /// Takes a live message; gives whether it was read from the stream before.
    fn live(&mut self, subject: &str, id: &str) -> bool {
        let Some((sender, number)) = self.sender(subject, id) else {
            return false;
        };
        sender.handed_on = sender.handed_on.max(number);
        number <= sender.stored
    }

    fn sender(&mut self, subject: &str, id: &str) -> Option<(&mut Sender, u64)> {
        let (name, number) = id.rsplit_once('-')?;
        let number = number.parse().ok()?;
        let all = self.0.entry(subject.to_owned()).or_default();
        let at = match all.iter().position(|sender| sender.name == name) {
            Some(at) => at,
            None => {
                if all.len() == SENDERS {
                    all.pop_front();
                }
                all.push_back(Sender {
                    name: name.to_owned(),
                    stored: 0,
                    handed_on: 0,
                });
                all.len() - 1
            }
        };
        Some((all.get_mut(at)?, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_read_from_the_stream_is_not_received_again() {
        let mut handed = HandedOn::default();
        assert!(!handed.stored("s", "a-2"));
        assert!(handed.live("s", "a-2") && handed.live("s", "a-1"));
        assert!(!handed.live("s", "b-1") && !handed.live("t", "a-1"));
        // Messages that overtake each other are all received.
        assert!(!handed.live("s", "a-4") && !handed.live("s", "a-3"));
        assert!(handed.stored("s", "a-3") && handed.stored("s", "a-4"));
        assert!(!handed.stored("s", "a-5"));
    }

    #[test]
    fn a_message_that_the_server_has_lost_is_received_when_it_is_repeated() {
        let mut handed = HandedOn::default();
        assert!(!handed.stored("s", "a-7") && !handed.live("s", "a-8"));
        // The server has lost the eighth, and receives it again.
        assert!(handed.stored("s", "a-7"));
        assert!(!handed.live("s", "a-8"));
    }

    #[test]
    fn messages_of_foreign_senders_are_all_received() {
        let mut handed = HandedOn::default();
        assert!(!handed.stored("s", "x") && !handed.live("s", "x"));
        assert!(!handed.stored("s", "a-1"));
        for other in 0..SENDERS {
            assert!(!handed.stored("s", &format!("o{other}-1")));
        }
        assert!(!handed.live("s", "a-1"), "forgotten");
    }
}
