//! Reading what streams keep by asking for it: no consumer is made. A consumer could send what it
//! reads to any subject, and the server would have to remember one for each of ten thousand agents.
//!
//! A subject is heard as it is published. The stream is asked for what was missed: at the start,
//! after a reconnection, and when the reader was too slow.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use bytes::Bytes;
use lacuna_model::{Span, Timestamp};
use lacuna_wire::{Message, Subject, time_text};
use tokio::sync::{mpsc, watch};

use super::follow::AHEAD;
use super::transport::{
    Begin, DELETED, Messages, PENDING, Page, PageRequest, kept_by, timestamp,
};
use super::{Bus, BusError, Follow, Origin, Received, Start};

/// Messages in one answer of the server.
const BATCH: u64 = 512;

/// Bytes in one answer, after which the server sends no further message.
const BATCH_BYTES: u64 = 4 << 20;

/// Speakers on one subject whose words are told apart from those already heard.
const SENDERS: usize = 8;

/// What was said within this time before the newest word is asked for again after a reconnection: by
/// so much the clocks of a speaker and of the server may differ.
const OVERLAP: Span = Span::from_secs(300);

/// Before a stream is asked again because messages were dropped: who is too slow is not given more
/// at once.
const CALM: Duration = Duration::from_secs(1);

impl Bus {
    /// As [`Bus::follow`], for those who are no services: they hear a subject as it is published,
    /// and ask the stream for what they have not heard. What the stream refused is heard, too, and
    /// only messages that were asked for have [`Received::kept`] and a sequence number.
    ///
    /// # Errors
    /// As [`Bus::follow`].
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
        // Whatever keeps the stream from being read shows at once.
        self.patiently(&follower.stream, || self.newest_of(subject))
            .await?;
        crate::task::spawn(follower.run());
        Ok(Follow::new(subject, messages))
    }

    /// One page of what a stream holds of a subject or pattern.
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

    /// What a stream holds of a subject or pattern from a sequence number on, until there are so many
    /// bytes of it, and the number from which there may be more. What cannot be understood is left
    /// out.
    ///
    /// # Errors
    /// As [`Bus::last`].
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

    /// Whether the server has the stream of this request: any answer says so.
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
    /// The newest time at which anything that was handed on was said, by its speaker's clock.
    newest: Option<Timestamp>,
    handed_on: HandedOn,
    into: mpsc::Sender<Received<M>>,
}

/// Nobody hears any more, or the connection is closed for good.
struct Ended;

impl<M: Message + Send + 'static> DirectFollower<M> {
    async fn run(mut self) {
        let mut again = false;
        loop {
            let (generation, mut drops) = (self.bus.generation(), self.bus.0.dropped.clone());
            drops.mark_unchanged();
            let mut wait = Duration::from_millis(20);
            loop {
                match self.ask(again).await {
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
            if self.listens(generation, drops).await.is_err() {
                return;
            }
        }
    }

    /// Hands on what is published, until something may have been missed.
    async fn listens(
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
                message = self.live.next() => self.published(message.ok_or(Ended)?).await?,
            }
        }
    }

    /// Asks the stream for what it holds and this one has not handed on.
    async fn ask(&mut self, again: bool) -> Result<Result<(), Ended>, BusError> {
        let newest_alone = matches!(self.start, Start::Last | Start::LastOn);
        if self.start == Start::Last && !self.subject.is_pattern() {
            let newest = self.bus.newest_of(&self.subject).await?;
            return Ok(match newest {
                Some(newest) => self.asked(newest).await,
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
                if self.asked(message).await.is_err() {
                    return Ok(Err(Ended));
                }
            }
        }
        let mut of_each: Vec<StreamMessage> = of_each.into_values().collect();
        of_each.sort_by_key(|message| message.sequence);
        for message in of_each {
            if self.asked(message).await.is_err() {
                return Ok(Err(Ended));
            }
        }
        Ok(Ok(()))
    }

    /// Where to begin to ask; nothing if nothing that is kept is wanted. A server that was emptied
    /// gives its numbers again, so that later times tell.
    async fn begin(&self, again: bool) -> Result<Option<Begin>, BusError> {
        if again && self.start != Start::Last {
            let since = self.newest.map(|newest| newest - OVERLAP);
            return Ok(since.map(|since| Begin::StartTime(time_text::format(since))));
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

    async fn asked(&mut self, message: StreamMessage) -> Result<(), Ended> {
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
        // States come again after a reconnection; of all else each counts once.
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

    async fn published(&mut self, message: async_nats::Message) -> Result<(), Ended> {
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
        let said = received.envelope.time;
        self.newest = Some(self.newest.map_or(said, |newest| newest.max(said)));
        self.into.send(received).await.map_err(|_| Ended)
    }
}

/// What one speaker has said on one subject: a speaker numbers what it says.
#[derive(Debug)]
struct Sender {
    name: String,
    /// The newest number that was asked for.
    stored: u64,
    /// The greatest number that was handed on.
    handed_on: u64,
}

/// Who has said what, by subject.
#[derive(Debug, Default)]
struct HandedOn(BTreeMap<String, VecDeque<Sender>>);

impl HandedOn {
    /// A message with this id was asked for; gives whether it has come before.
    fn stored(&mut self, subject: &str, id: &str) -> bool {
        let Some((sender, number)) = self.sender(subject, id) else {
            return false;
        };
        let known = number <= sender.handed_on;
        // A server that has lost its newest messages is told them again.
        sender.stored = number;
        sender.handed_on = sender.handed_on.max(number);
        known
    }

    /// A message with this id was published; gives whether it was asked for before.
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
    fn what_was_asked_for_is_not_heard_again() {
        let mut handed = HandedOn::default();
        assert!(!handed.stored("s", "a-2"));
        assert!(handed.live("s", "a-2") && handed.live("s", "a-1"));
        assert!(!handed.live("s", "b-1") && !handed.live("t", "a-1"));
        // Words that overtake each other are all heard.
        assert!(!handed.live("s", "a-4") && !handed.live("s", "a-3"));
        assert!(handed.stored("s", "a-3") && handed.stored("s", "a-4"));
        assert!(!handed.stored("s", "a-5"));
    }

    #[test]
    fn what_a_server_has_lost_is_heard_when_it_is_repeated() {
        let mut handed = HandedOn::default();
        assert!(!handed.stored("s", "a-7") && !handed.live("s", "a-8"));
        // The server has lost the eighth, and is told it again.
        assert!(handed.stored("s", "a-7"));
        assert!(!handed.live("s", "a-8"));
    }

    #[test]
    fn of_others_than_our_services_nobody_knows_how_they_number() {
        let mut handed = HandedOn::default();
        assert!(!handed.stored("s", "x") && !handed.live("s", "x"));
        assert!(!handed.stored("s", "a-1"));
        for other in 0..SENDERS {
            assert!(!handed.stored("s", &format!("o{other}-1")));
        }
        assert!(!handed.live("s", "a-1"), "forgotten");
    }
}
