//! The client of a nats-server.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::consumer::{DeliverPolicy, ReplayPolicy};
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{Config, DirectGetErrorKind};
use bytes::Bytes;
use futures::StreamExt;
use serde::Serialize;

use super::BusError;
use super::transport::{
    Acknowledged, Begin, Consumed, Messages, PENDING, Page, PageRequest, Record, StreamState,
};
use crate::virtual_time::unique;

/// The client of a nats-server, for operations that [`Bus`](super::Bus) does not have.
#[derive(Debug, Clone)]
pub struct Nats {
    /// The connection.
    pub client: async_nats::Client,
    /// Its streams.
    pub jetstream: async_nats::jetstream::Context,
    /// How long a request waits for its answer.
    pub(super) limit: Duration,
}

/// The request of a direct get: `JSApiMsgGetRequest` in NATS' documentation (ADR-31).
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum GetRequest<'a> {
    Newest {
        last_by_subj: &'a str,
    },
    From {
        #[serde(flatten)]
        begin: Begin,
        next_by_subj: &'a str,
        batch: u64,
        max_bytes: u64,
    },
}

impl Nats {
    pub(super) async fn publish(
        &self,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Result<(), BusError> {
        let (at, bytes) = (subject.to_owned(), payload.len());
        let sent = match headers {
            Some(headers) => self.client.publish_with_headers(at, headers, payload).await,
            None => self.client.publish(at, payload).await,
        };
        sent.map_err(|e| match e.kind() {
            async_nats::PublishErrorKind::MaxPayloadExceeded => BusError::TooLarge {
                subject: subject.to_owned(),
                bytes,
            },
            _ => BusError::other(subject, e),
        })
    }

    pub(super) async fn subscribe(&self, subject: &str) -> Result<Messages, BusError> {
        let inner = self.client.subscribe(subject.to_owned()).await;
        let inner = inner.map_err(|e| BusError::other(subject, e))?;
        Ok(Messages(Box::pin(inner)))
    }

    pub(super) async fn flush(&self) -> Result<(), BusError> {
        let flushed = self.client.flush().await;
        flushed.map_err(|e| BusError::other("", e))
    }

    pub(super) async fn close(&self) {
        let drain = async {
            let _ = self.client.flush().await;
            let _ = self.client.drain().await;
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), drain).await;
    }

    pub(super) async fn request(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
        limit: Duration,
    ) -> Result<async_nats::Message, BusError> {
        use async_nats::RequestErrorKind as Kind;
        let request = async_nats::Request::new()
            .headers(headers)
            .payload(payload)
            .timeout(Some(limit));
        let subject = subject.to_owned();
        let answer = self.client.send_request(subject.clone(), request).await;
        answer.map_err(|e| match e.kind() {
            Kind::NoResponders => BusError::NoResponders { subject },
            Kind::TimedOut => BusError::Timeout { subject },
            _ => BusError::other(&subject, e),
        })
    }

    pub(super) async fn send(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Acknowledged, BusError> {
        let bytes = payload.len();
        let message = PublishMessage::build().payload(payload).headers(headers);
        let subject = subject.to_owned();
        let sent = self.jetstream.send_publish(subject.clone(), message).await;
        let future = sent.map_err(|e| BusError::publish(&subject, bytes, &e))?;
        Ok(Box::pin(async move {
            let acknowledged = future.await;
            acknowledged
                .map(|ack| ack.sequence)
                .map_err(|e| BusError::publish(&subject, bytes, &e))
        }))
    }

    pub(super) async fn state(&self, stream: &str) -> Result<StreamState, String> {
        let stream = self.jetstream.get_stream(stream).await;
        let stream = stream.map_err(|e| e.to_string())?;
        let info = stream.cached_info();
        Ok(StreamState {
            last: info.state.last_sequence,
            written: info.state.last_timestamp,
            made: info.created,
        })
    }

    pub(super) async fn consume(
        &self,
        stream: &str,
        subject: &str,
        from: DeliverPolicy,
    ) -> Result<Consumed, String> {
        let stream = self.jetstream.get_stream_no_info(stream).await;
        let stream = stream.map_err(|e| e.to_string())?;
        let config = OrderedConfig {
            // A reader of a stream may end its consumers by their names, so the name must not be
            // guessable. With a name, the request contains the subject that is read, so the server
            // can check it.
            name: Some(format!("{:032x}", unique())),
            filter_subject: subject.to_owned(),
            deliver_policy: from,
            replay_policy: ReplayPolicy::Instant,
            ..OrderedConfig::default()
        };
        let consumer = stream.create_consumer(config).await;
        let consumer = consumer.map_err(|e| e.to_string())?;
        let messages = consumer.messages().await.map_err(|e| e.to_string())?;
        let read = messages.filter_map(|next| async {
            let message = match next {
                Ok(message) => message,
                Err(error) => return Some(Err(error.to_string())),
            };
            let info = message.info().ok()?;
            let record = Record {
                sequence: info.stream_sequence,
                pending: info.pending,
                written: info.published,
            };
            Some(Ok((message.message, record)))
        });
        Ok(read.boxed())
    }

    pub(super) async fn newest(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StreamMessage>, BusError> {
        use DirectGetErrorKind as Kind;
        if is_pattern(subject) {
            let request = GetRequest::Newest {
                last_by_subj: subject,
            };
            let mut answers = self.ask(stream, subject, &request).await?;
            let message = answers.next().await?;
            if message.status.is_some() {
                return Ok(None);
            }
            return answers.read(message).map(Some);
        }
        let failed = |reason: String| BusError::Stream {
            stream: stream.to_owned(),
            reason,
        };
        let handle = self.jetstream.get_stream_no_info(stream).await;
        let handle = handle.map_err(|e| failed(e.to_string()))?;
        match handle.direct_get_last_for_subject(subject).await {
            Ok(found) => Ok(Some(found)),
            Err(e) if e.kind() == Kind::NotFound => Ok(None),
            Err(e) if e.kind() == Kind::TimedOut => Err(BusError::Timeout {
                subject: subject.to_owned(),
            }),
            Err(e) => Err(failed(e.to_string())),
        }
    }

    pub(super) async fn page(&self, ask: PageRequest<'_>) -> Result<Page, BusError> {
        let request = GetRequest::From {
            begin: ask.begin,
            next_by_subj: ask.subject,
            batch: ask.batch,
            max_bytes: ask.max_bytes,
        };
        let mut page = Page::default();
        let mut answers = self.ask(ask.stream, ask.subject, &request).await?;
        loop {
            let message = answers.next().await?;
            let pending = message.headers.as_ref().and_then(|h| h.get_last(PENDING));
            let pending = pending.and_then(|count| count.as_str().parse().ok());
            if message.status.is_some() {
                // The end of the answer (204), or no message from there on (404). The pending count
                // may be older than the last messages.
                let full = page.messages.len() as u64 >= ask.batch;
                let more = full || pending.unwrap_or(0) > 0;
                let last = page.messages.last().filter(|_| more);
                page.next = last.map(|last| Begin::Seq(last.sequence.saturating_add(1)));
                return Ok(page);
            }
            page.messages.push(answers.read(message)?);
        }
    }

    /// Sends a request whose answer may be many messages.
    async fn ask(
        &self,
        stream: &str,
        subject: &str,
        ask: &GetRequest<'_>,
    ) -> Result<Answers, BusError> {
        let failed = |reason: String| BusError::Stream {
            stream: stream.to_owned(),
            reason,
        };
        let client = &self.client;
        let payload = serde_json::to_vec(ask).map_err(|e| failed(e.to_string()))?;
        let inbox = client.new_inbox();
        let inner = client.subscribe(inbox.clone()).await;
        let inner = inner.map_err(|e| failed(e.to_string()))?;
        let request = format!("$JS.API.DIRECT.GET.{stream}");
        client
            .publish_with_reply(request, inbox, payload.into())
            .await
            .map_err(|e| failed(e.to_string()))?;
        Ok(Answers {
            inner,
            stream: stream.to_owned(),
            subject: subject.to_owned(),
            limit: self.limit,
        })
    }

    pub(super) async fn purge(&self, stream: &str, before: u64) -> Result<(), String> {
        let held = self.jetstream.get_stream_no_info(stream).await;
        let held = held.map_err(|e| e.to_string())?;
        let purged = held.purge().sequence(before).await;
        purged.map(drop).map_err(|e| e.to_string())
    }

    pub(super) async fn ensure(&self, config: Config) -> Result<(), BusError> {
        let name = config.name.clone();
        let js = &self.jetstream;
        if let Ok(present) = js.get_stream(&name).await {
            let now = &present.cached_info().config;
            if same(now, &config) {
                return Ok(());
            }
            if now.retention != config.retention {
                return Err(BusError::OldStream { stream: name });
            }
            // A setting that cannot be changed (the persistence mode) must not keep a service from
            // running with the present stream.
            let config = Config {
                first_sequence: now.first_sequence,
                ..config
            };
            if let Err(error) = js.update_stream(config).await {
                tracing::warn!(stream = name, %error, "stream differs and cannot be changed");
            }
            return Ok(());
        }
        match js.create_stream(config).await {
            Ok(_) => {
                tracing::info!(stream = name, "stream made");
                Ok(())
            }
            // Another service may have made it meanwhile.
            Err(_) if js.get_stream(&name).await.is_ok() => Ok(()),
            Err(e) => {
                let reason = e.to_string();
                if reason.contains("no responders") || reason.contains("not enabled") {
                    let info = self.client.server_info();
                    let url = format!("{}:{}", info.host, info.port);
                    return Err(BusError::NoJetStream { url });
                }
                Err(BusError::Stream {
                    stream: name,
                    reason,
                })
            }
        }
    }
}

/// Whether the settings that Lacuna sets are the same.
fn same(present: &Config, wanted: &Config) -> bool {
    present.subjects == wanted.subjects
        && present.max_bytes == wanted.max_bytes
        && present.max_age == wanted.max_age
        && present.max_messages_per_subject == wanted.max_messages_per_subject
        && present.retention == wanted.retention
        && present.allow_message_ttl == wanted.allow_message_ttl
        && present.discard == wanted.discard
        && present.persist_mode.unwrap_or_default() == wanted.persist_mode.unwrap_or_default()
}

/// Whether a subject has wildcards.
fn is_pattern(subject: &str) -> bool {
    subject.split('.').any(|token| token == "*" || token == ">")
}

/// The messages of one answer.
struct Answers {
    inner: async_nats::Subscriber,
    stream: String,
    subject: String,
    limit: Duration,
}

impl Answers {
    async fn next(&mut self) -> Result<async_nats::Message, BusError> {
        let next = tokio::time::timeout(self.limit, self.inner.next()).await;
        let message = next.ok().flatten().ok_or_else(|| BusError::Timeout {
            subject: self.subject.clone(),
        })?;
        match message.status.map(|status| status.as_u16()) {
            None | Some(204 | 404) => Ok(message),
            Some(status) => Err(self.failed(format!(
                "status {status}: {}",
                message.description.unwrap_or_default()
            ))),
        }
    }

    fn read(&self, message: async_nats::Message) -> Result<StreamMessage, BusError> {
        StreamMessage::try_from(message).map_err(|e| self.failed(e.to_string()))
    }

    fn failed(&self, reason: String) -> BusError {
        BusError::Stream {
            stream: self.stream.clone(),
            reason,
        }
    }
}
