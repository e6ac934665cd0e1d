//! The streams of a simulated server.

use std::collections::{BTreeMap, VecDeque};

use async_nats::HeaderMap;
use async_nats::datetime::{DateTime, from_nanos};
use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_TTL};
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy, PersistenceMode};
use bytes::Bytes;
use lacuna_wire::time_text;

use super::super::BusError;
use super::super::transport::{Begin, PENDING, Page, Record, StreamState};

/// Subjects of a subscription, a consumer or a stream.
#[derive(Debug, Clone)]
pub(super) enum Filter {
    Literal(String),
    /// The tokens, some of which are `*` or `>`.
    Pattern(Vec<String>),
}

impl Filter {
    pub(super) fn new(subject: &str) -> Self {
        let tokens: Vec<String> = subject.split('.').map(str::to_owned).collect();
        if tokens.iter().any(|token| token == "*" || token == ">") {
            Self::Pattern(tokens)
        } else {
            Self::Literal(subject.to_owned())
        }
    }

    pub(super) fn matches(&self, subject: &str) -> bool {
        let tokens = match self {
            Self::Literal(own) => return own == subject,
            Self::Pattern(tokens) => tokens,
        };
        let mut parts = subject.split('.');
        for token in tokens {
            let part = parts.next();
            match (token.as_str(), part) {
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (own, Some(part)) if own == part => {}
                _ => return false,
            }
        }
        parts.next().is_none()
    }
}

#[derive(Debug)]
struct Kept {
    subject: String,
    headers: HeaderMap,
    payload: Bytes,
    ns: i128,
}

impl Kept {
    fn bytes(&self) -> u64 {
        (self.subject.len() + self.payload.len()) as u64
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    config: Config,
    filters: Vec<Filter>,
    made_ns: i128,
    last: u64,
    written_ns: i128,
    bytes: u64,
    messages: BTreeMap<u64, Kept>,
    by_subject: BTreeMap<String, VecDeque<u64>>,
    /// Messages that expire: the time, in ns, and the sequence number.
    ends: Vec<(i128, u64)>,
}

fn time(ns: i128) -> DateTime {
    from_nanos(ns).unwrap_or(DateTime::UNIX_EPOCH)
}

impl Stream {
    pub(super) fn new(config: Config, now: i128) -> Self {
        let first = config.first_sequence.unwrap_or(1);
        Self {
            filters: config.subjects.iter().map(|s| Filter::new(s)).collect(),
            last: first.saturating_sub(1),
            config,
            made_ns: now,
            written_ns: 0,
            bytes: 0,
            messages: BTreeMap::new(),
            by_subject: BTreeMap::new(),
            ends: Vec::new(),
        }
    }

    pub(super) fn keeps(&self, subject: &str) -> bool {
        self.filters.iter().any(|filter| filter.matches(subject))
    }

    pub(super) fn state(&self) -> StreamState {
        StreamState {
            last: self.last,
            written: time(self.written_ns),
            made: time(self.made_ns),
        }
    }

    /// Stores a message, and gives its sequence number.
    pub(super) fn store(
        &mut self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
        now: i128,
    ) -> Result<u64, BusError> {
        self.expire(now);
        let expected = headers.get(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE);
        let expected = expected.and_then(|value| value.as_str().parse::<u64>().ok());
        let newest = self.by_subject.get(subject).and_then(VecDeque::back);
        if expected.is_some_and(|expected| expected != newest.copied().unwrap_or(0)) {
            let subject = subject.to_owned();
            return Err(BusError::Conflict { subject });
        }
        let ns = now.max(self.written_ns + 1);
        let kept = Kept {
            subject: subject.to_owned(),
            headers,
            payload,
            ns,
        };
        let limit = u64::try_from(self.config.max_bytes).unwrap_or(u64::MAX);
        let room = limit.saturating_sub(kept.bytes());
        if self.bytes > room && self.config.discard == DiscardPolicy::New {
            return Err(BusError::other(subject, "maximum bytes exceeded"));
        }
        self.last += 1;
        self.written_ns = ns;
        self.bytes += kept.bytes();
        if let Some(ttl) = kept.headers.get(NATS_MESSAGE_TTL) {
            let seconds = ttl.as_str().trim_end_matches('s').parse::<i128>();
            let ends = now + seconds.unwrap_or(0) * 1_000_000_000;
            self.ends.push((ends, self.last));
        }
        self.messages.insert(self.last, kept);
        let of_subject = self.by_subject.entry(subject.to_owned()).or_default();
        of_subject.push_back(self.last);
        let most = usize::try_from(self.config.max_messages_per_subject).unwrap_or(usize::MAX);
        if most > 0
            && of_subject.len() > most
            && let Some(oldest) = of_subject.front().copied()
        {
            self.remove(oldest);
        }
        while self.bytes > limit
            && let Some((&oldest, _)) = self.messages.first_key_value()
        {
            self.remove(oldest);
        }
        Ok(self.last)
    }

    fn remove(&mut self, sequence: u64) {
        let Some(kept) = self.messages.remove(&sequence) else {
            return;
        };
        self.bytes = self.bytes.saturating_sub(kept.bytes());
        if let Some(of_subject) = self.by_subject.get_mut(&kept.subject) {
            of_subject.retain(|&other| other != sequence);
            if of_subject.is_empty() {
                self.by_subject.remove(&kept.subject);
            }
        }
    }

    /// Removes expired messages.
    pub(super) fn expire(&mut self, now: i128) {
        let age = i128::try_from(self.config.max_age.as_nanos()).unwrap_or(0);
        while age > 0
            && let Some((&oldest, kept)) = self.messages.first_key_value()
            && kept.ns + age <= now
        {
            self.remove(oldest);
        }
        let (over, ends): (Vec<_>, Vec<_>) = self.ends.drain(..).partition(|end| end.0 <= now);
        self.ends = ends;
        for (_, sequence) in over {
            self.remove(sequence);
        }
    }

    /// Loses the messages after this moment, if the stream is buffered.
    pub(super) fn lose_since(&mut self, since: i128) {
        if self.config.persist_mode != Some(PersistenceMode::Async) {
            return;
        }
        while let Some((&newest, kept)) = self.messages.last_key_value()
            && kept.ns > since
        {
            self.remove(newest);
            self.last = newest.saturating_sub(1);
        }
        let newest = self.messages.last_key_value();
        self.written_ns = newest.map_or(0, |(_, kept)| kept.ns);
    }

    pub(super) fn purge(&mut self, before: u64) {
        let gone: Vec<u64> = self.messages.range(..before).map(|(&n, _)| n).collect();
        for sequence in gone {
            self.remove(sequence);
        }
    }

    /// A message as a consumer delivers it.
    pub(super) fn read(
        &self,
        sequence: u64,
        pending: u64,
    ) -> Option<(async_nats::Message, Record)> {
        let kept = self.messages.get(&sequence)?;
        let headers = Some(kept.headers.clone());
        let message = message(&kept.subject, None, headers, kept.payload.clone());
        let record = Record {
            sequence,
            pending,
            written: time(kept.ns),
        };
        Some((message, record))
    }

    /// The numbers of the messages that a new consumer begins with.
    pub(super) fn wanted(&self, filter: &Filter, from: DeliverPolicy) -> Vec<u64> {
        let matching = |first: u64| {
            let from = self.messages.range(first..);
            from.filter(|(_, kept)| filter.matches(&kept.subject))
        };
        match from {
            DeliverPolicy::All => matching(0).map(|(&n, _)| n).collect(),
            DeliverPolicy::New => Vec::new(),
            DeliverPolicy::Last => self.last_of(filter).into_iter().collect(),
            DeliverPolicy::ByStartSequence { start_sequence } => {
                matching(start_sequence).map(|(&n, _)| n).collect()
            }
            DeliverPolicy::ByStartTime { start_time } => {
                let since = start_time.unix_timestamp_nanos();
                let later = matching(0).filter(|(_, kept)| kept.ns >= since);
                later.map(|(&n, _)| n).collect()
            }
            DeliverPolicy::LastPerSubject => {
                let subjects = self.by_subject.iter();
                let subjects = subjects.filter(|(subject, _)| filter.matches(subject));
                let mut all: Vec<u64> = subjects.filter_map(|(_, of)| of.back().copied()).collect();
                all.sort_unstable();
                all
            }
        }
    }

    fn last_of(&self, filter: &Filter) -> Option<u64> {
        if let Filter::Literal(subject) = filter {
            return self.by_subject.get(subject)?.back().copied();
        }
        let mut newest = self.messages.iter().rev();
        let found = newest.find(|(_, kept)| filter.matches(&kept.subject));
        found.map(|(&n, _)| n)
    }

    pub(super) fn newest(&self, filter: &Filter) -> Option<StreamMessage> {
        self.last_of(filter).and_then(|n| self.answer(n, 0))
    }

    fn answer(&self, sequence: u64, pending: u64) -> Option<StreamMessage> {
        let kept = self.messages.get(&sequence)?;
        let mut headers = kept.headers.clone();
        headers.insert(PENDING, pending.to_string().as_str());
        Some(StreamMessage {
            subject: kept.subject.as_str().into(),
            sequence,
            headers,
            payload: kept.payload.clone(),
            time: time(kept.ns),
        })
    }

    pub(super) fn page(&self, filter: &Filter, begin: &Begin, batch: u64, bytes: u64) -> Page {
        let from = match begin {
            Begin::Seq(first) => self.wanted(
                filter,
                DeliverPolicy::ByStartSequence {
                    start_sequence: *first,
                },
            ),
            Begin::StartTime(text) => {
                let since = time_text::parse(text).map_or(0, |at| at.unix_ms());
                let start_time = time(i128::from(since) * 1_000_000);
                self.wanted(filter, DeliverPolicy::ByStartTime { start_time })
            }
        };
        let (mut page, mut sent) = (Page::default(), 0);
        let mut left = from.len() as u64;
        for sequence in from {
            if page.messages.len() as u64 >= batch || sent >= bytes {
                break;
            }
            left -= 1;
            if let Some(message) = self.answer(sequence, left) {
                sent += message.payload.len() as u64;
                page.messages.push(message);
            }
        }
        if left > 0 {
            let last = page.messages.last();
            page.next = last.map(|last| Begin::Seq(last.sequence.saturating_add(1)));
        }
        page
    }
}

/// A message as a client gets it.
pub(super) fn message(
    subject: &str,
    reply: Option<String>,
    headers: Option<HeaderMap>,
    payload: Bytes,
) -> async_nats::Message {
    async_nats::Message {
        subject: subject.into(),
        reply: reply.map(Into::into),
        length: payload.len(),
        payload,
        headers,
        status: None,
        description: None,
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn patterns_match_as_those_of_nats() {
        let matches = |pattern: &str, subject: &str| Filter::new(pattern).matches(subject);
        assert!(matches("a.b", "a.b") && !matches("a.b", "a.b.c"));
        assert!(matches("a.*.c", "a.b.c") && !matches("a.*", "a.b.c"));
        assert!(matches("a.>", "a.b.c") && !matches("a.>", "a"));
    }
}
