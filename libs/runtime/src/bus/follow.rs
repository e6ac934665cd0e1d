//! Following subjects that a stream keeps, across reconnections and restarts of the server.

use std::time::Duration;

use async_nats::datetime::DateTime;
use async_nats::jetstream::consumer::DeliverPolicy;
use futures::StreamExt;
use lacuna_model::Timestamp;
use lacuna_wire::{Message, Subject};
use tokio::sync::mpsc;

use super::denied::names;
use super::transport::{Consumed, DELETED, Record, kept_by, timestamp};
use super::{Bus, BusError, Origin, Received, refuse_version};
use crate::clock::Stopwatch;

/// Most messages that are decoded ahead of the receiver. Beyond it the stream waits.
pub(super) const AHEAD: usize = 1024;

/// Time between attempts.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// Where a follower begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the newest message of each subject. After a reconnection the newest are delivered
    /// again. For states and commands.
    Last,
    /// With the newest message of each subject. After a reconnection it continues at its place. For
    /// reports, each of which counts.
    LastOn,
    /// With the next message. After a reconnection it continues at its place.
    New,
    /// With this many of the newest messages of the stream.
    Newest(u64),
    /// At this sequence number of the stream.
    Sequence(u64),
    /// At the oldest message of the stream.
    All,
}

/// The newest message of a subject, or the value of a key of a bucket.
#[derive(Debug, Clone, PartialEq)]
pub enum Newest<T> {
    /// There is none.
    Nothing,
    /// A message that decodes.
    Decoded(T),
    /// A deletion marker, or a message that cannot be decoded and is of no other release. The next
    /// write replaces it.
    Unreadable {
        /// Its sequence number.
        sequence: u64,
    },
}

impl<T> Newest<T> {
    /// The message, if it decodes.
    pub fn decoded(self) -> Option<T> {
        match self {
            Self::Decoded(found) => Some(found),
            Self::Nothing | Self::Unreadable { .. } => None,
        }
    }

    /// The same by reference.
    pub const fn as_ref(&self) -> Newest<&T> {
        match self {
            Self::Nothing => Newest::Nothing,
            Self::Decoded(found) => Newest::Decoded(found),
            Self::Unreadable { sequence } => Newest::Unreadable {
                sequence: *sequence,
            },
        }
    }

    pub(crate) fn map<U>(self, of: impl FnOnce(T) -> U) -> Newest<U> {
        match self {
            Self::Nothing => Newest::Nothing,
            Self::Decoded(found) => Newest::Decoded(of(found)),
            Self::Unreadable { sequence } => Newest::Unreadable { sequence },
        }
    }
}

impl<M> Newest<Received<M>> {
    /// The sequence number in the stream, 0 for none. The next write goes after it.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Decoded(found) => found.sequence,
            Self::Unreadable { sequence } => *sequence,
        }
    }
}

/// The messages of a subject in a stream, in order.
#[derive(Debug)]
pub struct Follow<M> {
    subject: String,
    messages: mpsc::Receiver<Received<M>>,
}

impl<M> Follow<M> {
    pub(super) fn new(subject: &Subject<M>, messages: mpsc::Receiver<Received<M>>) -> Self {
        Self {
            subject: subject.to_string(),
            messages,
        }
    }

    /// The next message that decodes. Safe to drop in `select!`.
    ///
    /// # Errors
    /// [`BusError::Closed`] when the connection has been closed for good.
    pub async fn next(&mut self) -> Result<Received<M>, BusError> {
        self.messages.recv().await.ok_or_else(|| BusError::Closed {
            subject: self.subject.clone(),
        })
    }

    /// The next message, if it has already arrived.
    pub fn try_next(&mut self) -> Option<Received<M>> {
        self.messages.try_recv().ok()
    }
}

impl Bus {
    /// Follows a subject (or a pattern) that a stream keeps, across outages and restarts of the
    /// server. Only messages that the server has lost are not received.
    ///
    /// # Errors
    /// [`BusError::NotKept`] if no stream keeps the subject, [`BusError::Stream`] if the
    /// stream cannot be read at first.
    pub async fn follow<M: Message + Send + 'static>(
        &self,
        subject: &Subject<M>,
        start: Start,
    ) -> Result<Follow<M>, BusError> {
        let messages = self.follow_as(subject, start, received::<M>).await?;
        Ok(Follow::new(subject, messages))
    }

    /// Like [`Bus::follow`], with a reader of its own.
    pub(super) async fn follow_as<M, T: Send + 'static>(
        &self,
        subject: &Subject<M>,
        start: Start,
        read: Read<T>,
    ) -> Result<mpsc::Receiver<T>, BusError> {
        let stream = kept_by(subject)?;
        let (into, messages) = mpsc::channel(AHEAD);
        let follower = Follower {
            bus: self.clone(),
            stream: stream.to_owned(),
            subject: subject.to_string(),
            start,
            place: Place::Unknown,
            made: None,
            read,
            into,
        };
        // A server that has just started answers, but does not have all its streams yet.
        let first = self.patiently(stream, || follower.open()).await?;
        crate::task::spawn(follower.run(first));
        Ok(messages)
    }

    /// The newest message of a subject, if the stream holds one that decodes; for readers only. A
    /// writer that writes after it uses [`Bus::newest`].
    ///
    /// # Errors
    /// [`BusError::NotKept`], [`BusError::Timeout`] or [`BusError::Stream`], after several
    /// attempts.
    pub async fn last<M: Message>(
        &self,
        subject: &Subject<M>,
    ) -> Result<Option<Received<M>>, BusError> {
        match self.newest(subject).await {
            Err(BusError::Decode { .. }) => Ok(None),
            newest => Ok(newest?.decoded()),
        }
    }

    /// The newest message of a subject, with the number that [`Bus::store_after`] needs.
    ///
    /// # Errors
    /// Those of [`Bus::last`], and [`BusError::Decode`] for a message of a version that is not
    /// read. It must not be overwritten.
    pub async fn newest<M: Message>(
        &self,
        subject: &Subject<M>,
    ) -> Result<Newest<Received<M>>, BusError> {
        let stream = kept_by(subject)?;
        self.patiently(stream, || self.newest_once(subject)).await
    }

    /// The number of the newest message of a subject, of any release; 0 for none.
    ///
    /// # Errors
    /// [`BusError::NotKept`] or [`BusError::Stream`].
    pub async fn newest_number<M: Message>(&self, subject: &Subject<M>) -> Result<u64, BusError> {
        let newest = self.newest_of(subject).await?;
        Ok(newest.map_or(0, |newest| newest.sequence))
    }

    /// When the stream took the newest message of a subject or pattern, by the server's clock;
    /// nothing if it holds none.
    ///
    /// # Errors
    /// [`BusError::NotKept`], [`BusError::Timeout`] or [`BusError::Stream`].
    pub async fn newest_kept<M: Message>(
        &self,
        subject: &Subject<M>,
    ) -> Result<Option<Timestamp>, BusError> {
        let newest = self.newest_of(subject).await?;
        Ok(newest.map(|newest| timestamp(newest.time)))
    }

    /// Repeats a failed attempt, up to the limit of a request, unless the error is final.
    pub(super) async fn patiently<T, F>(
        &self,
        stream: &str,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, BusError>
    where
        F: Future<Output = Result<T, BusError>>,
    {
        let waiting = Stopwatch::start();
        loop {
            let concerns = |denied: &str| names(denied, stream);
            match self.unless_denied(concerns, attempt()).await {
                Ok(done) => return Ok(done),
                Err(error) if error.is_final() => return Err(error),
                Err(error) if waiting.seconds() >= self.0.limit.as_secs_f64() => return Err(error),
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    async fn newest_once<M: Message>(
        &self,
        subject: &Subject<M>,
    ) -> Result<Newest<Received<M>>, BusError> {
        let Some(found) = self.newest_of(subject).await? else {
            return Ok(Newest::Nothing);
        };
        let (at, sequence) = (found.subject.to_string(), found.sequence);
        if found.headers.get(DELETED).is_some() {
            return Ok(Newest::Unreadable { sequence });
        }
        let opened = self.open_from(Origin::Answer, &at, Some(&found.headers), &found.payload);
        let Some((envelope, message)) = opened else {
            refuse_version::<M>(&at, Some(&found.headers))?;
            return Ok(Newest::Unreadable { sequence });
        };
        Ok(Newest::Decoded(Received {
            sequence,
            kept: Some(timestamp(found.time)),
            ..Received::published(message, envelope, at)
        }))
    }
}

/// The position of a follower.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Unknown,
    /// Nothing was received yet. Messages up to this sequence number are skipped.
    After(u64),
    /// The newest message that was handed on, and the latest time at which one was written, by the
    /// server's clock. A message with a greater number or a later time is new: a killed server may
    /// lose the tail of a stream, and then gives the same numbers to other messages. Its clock may
    /// also go back.
    At {
        sequence: u64,
        written: DateTime,
    },
}

impl Place {
    /// Whether a message has not been handed on yet.
    fn is_before(self, number: u64, time: DateTime) -> bool {
        match self {
            Self::At { sequence, written } => number > sequence || time > written,
            Self::Unknown | Self::After(_) => true,
        }
    }

    /// The place when this message has been handed on.
    fn then(self, number: u64, time: DateTime) -> Self {
        let written = match self {
            Self::At { written, .. } => written.max(time),
            Self::Unknown | Self::After(_) => time,
        };
        Self::At {
            sequence: number,
            written,
        }
    }

    /// The same place in a stream that ends at `last` now. In another stream it is before the first
    /// message.
    fn within(self, last: u64, is_another: bool) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            _ if is_another => Self::After(0),
            Self::After(sequence) => Self::After(sequence.min(last)),
            Self::At { sequence, written } => Self::At {
                sequence: sequence.min(last),
                written,
            },
        }
    }
}

/// Converts a message to the type that is handed on; nothing to skip it.
type Read<T> = fn(&Bus, &async_nats::Message, Record) -> Option<T>;

/// A message of Lacuna, if it decodes and is no deletion marker.
fn received<M: Message>(
    bus: &Bus,
    message: &async_nats::Message,
    record: Record,
) -> Option<Received<M>> {
    let headers = message.headers.as_ref();
    if headers.is_some_and(|h| h.get(DELETED).is_some()) {
        return None;
    }
    let subject = message.subject.to_string();
    let (envelope, decoded) = bus.open::<M>(&subject, headers, &message.payload)?;
    Some(Received {
        sequence: record.sequence,
        pending: record.pending,
        kept: Some(timestamp(record.written)),
        ..Received::published(decoded, envelope, subject)
    })
}

struct Follower<T> {
    bus: Bus,
    stream: String,
    subject: String,
    start: Start,
    place: Place,
    /// When the stream was made. It distinguishes the stream from another of the same name.
    made: Option<DateTime>,
    read: Read<T>,
    into: mpsc::Sender<T>,
}

/// A consumer, the generation of the connection that it was made on, and where it begins.
struct Opened {
    messages: Consumed,
    generation: u64,
    place: Place,
    made: DateTime,
}

impl<T: Send + 'static> Follower<T> {
    async fn run(mut self, first: Opened) {
        let mut current = Some(first);
        let mut wait = Duration::from_millis(20);
        loop {
            let opened = match current.take() {
                Some(opened) => Ok(opened),
                None => self.open().await,
            };
            match opened {
                Ok(opened) => {
                    wait = Duration::from_millis(20);
                    self.place = opened.place;
                    self.made = Some(opened.made);
                    let pumped = self.pump(opened.messages, opened.generation);
                    if pumped.await.is_none() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(stream = self.stream, %error, "stream cannot be read, retrying");
                    let mut link = self.bus.link();
                    link.seen();
                    tokio::select! {
                        biased;
                        () = self.into.closed() => return,
                        () = link.changed() => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                    wait = (wait * 2).min(Duration::from_secs(1));
                }
            }
        }
    }

    /// Hands messages on until the consumer must be made again; nothing when the follower has
    /// ended.
    async fn pump(&mut self, mut messages: Consumed, generation: u64) -> Option<()> {
        let mut link = self.bus.link();
        loop {
            tokio::select! {
                biased;
                () = self.into.closed() => return None,
                () = link.changed() => {
                    if link.now().generation != generation {
                        // The server may have restarted and forgotten the consumer; waiting
                        // for its heartbeat to fail would take half a minute.
                        return Some(());
                    }
                }
                next = messages.next() => match next {
                    Some(Ok((message, record))) => self.hand_on(&message, record).await?,
                    Some(Err(error)) => {
                        tracing::debug!(stream = self.stream, %error, "consumer failed, making it again");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        return Some(());
                    }
                    None => return Some(()),
                }
            }
        }
    }

    async fn hand_on(&mut self, message: &async_nats::Message, record: Record) -> Option<()> {
        if self.start != Start::Last {
            if !self.place.is_before(record.sequence, record.written) {
                return Some(());
            }
            self.place = self.place.then(record.sequence, record.written);
        }
        match (self.read)(&self.bus, message, record) {
            Some(read) => self.into.send(read).await.ok(),
            None => Some(()),
        }
    }

    /// Makes a consumer that begins where this follower is.
    async fn open(&self) -> Result<Opened, BusError> {
        let generation = self.bus.link().now().generation;
        let failed = |reason: String| BusError::Stream {
            stream: self.stream.clone(),
            reason,
        };
        let server = &self.bus.0.server;
        let state = server.state(&self.stream).await.map_err(failed)?;
        let (last, made) = (state.last, state.made);
        let is_another = self.made.is_some_and(|known| known != made);
        let after = |sequence: u64| DeliverPolicy::ByStartSequence {
            start_sequence: sequence.saturating_add(1),
        };
        let place = match (self.start, self.place.within(last, is_another)) {
            (Start::New, Place::Unknown) => Place::After(last),
            (_, place) => place,
        };
        let deliver_policy = match (self.start, place) {
            (Start::Last, _) | (Start::LastOn, Place::Unknown) => DeliverPolicy::LastPerSubject,
            // A start by time includes messages with the numbers of lost ones, but needs a clock
            // that has not gone back.
            (_, Place::At { sequence, written }) if state.written < written => after(sequence),
            (_, Place::At { written, .. }) => DeliverPolicy::ByStartTime {
                start_time: written,
            },
            (_, Place::After(sequence)) => after(sequence),
            (Start::All | Start::New, Place::Unknown) => DeliverPolicy::All,
            (Start::Newest(count), Place::Unknown) => after(last.saturating_sub(count)),
            (Start::Sequence(first), Place::Unknown) => after(first.saturating_sub(1)),
        };
        let consuming = server.consume(&self.stream, &self.subject, deliver_policy);
        let messages = consuming.await.map_err(failed)?;
        Ok(Opened {
            messages,
            generation,
            place,
            made,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i128) -> DateTime {
        async_nats::datetime::from_nanos(seconds * 1_000_000_000).unwrap()
    }

    fn place(sequence: u64, seconds: i128) -> Place {
        Place::At {
            sequence,
            written: at(seconds),
        }
    }

    #[test]
    fn a_message_is_handed_on_once() {
        let place = place(7, 100);
        assert!(!place.is_before(7, at(100)));
        assert!(!place.is_before(6, at(99)));
        // Two messages may be written at the same moment.
        assert!(place.is_before(8, at(100)));
        assert_eq!(place.within(9, false), place);
    }

    #[test]
    fn a_clock_that_goes_back_loses_nothing() {
        let mut now = place(7, 100);
        for (number, second) in [(8, 40), (9, 41), (10, 101)] {
            assert!(now.is_before(number, at(second)), "{number}");
            now = now.then(number, at(second));
            assert!(!now.is_before(number, at(second)), "{number}");
            // Messages from before the clock went back are not handed on again.
            assert!(!now.is_before(6, at(99)) && !now.is_before(7, at(100)));
        }
        assert_eq!(now, place(10, 101));
    }

    #[test]
    fn messages_with_reused_numbers_are_received() {
        // The stream ended at 3 for a moment, and has grown again when its state is read.
        let mut now = place(7, 100).within(9, false);
        for number in 4..=9 {
            assert!(!now.is_before(3, at(90)));
            assert!(now.is_before(number, at(110)), "{number}");
            now = now.then(number, at(110));
        }
        // The stream still ends at 3, and the clock has gone back as well.
        let now = place(7, 100).within(3, false);
        assert_eq!(now, place(3, 100));
        assert!(now.is_before(4, at(40)) && !now.is_before(3, at(90)));
    }

    #[test]
    fn another_stream_is_read_from_its_beginning() {
        let now = place(7, 100).within(2, true);
        assert_eq!(now, Place::After(0));
        assert!(now.is_before(1, at(40)));
        assert_eq!(Place::After(5).within(2, false), Place::After(2));
        assert_eq!(Place::Unknown.within(2, true), Place::Unknown);
    }
}
