//! Sending messages: unacknowledged, acknowledged, and as requests.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use bytes::Bytes;
use lacuna_wire::access::is_inbox;
use lacuna_wire::{Envelope, Message, Subject, address, codec};
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::{Bus, BusError, Received, pairs};

/// A write that is not yet acknowledged. [`PendingAck::wait`] waits for the acknowledgement.
#[must_use = "a write is only known to be kept once its acknowledgement has come"]
pub struct PendingAck {
    subject: String,
    answer: oneshot::Receiver<Result<u64, BusError>>,
}

impl std::fmt::Debug for PendingAck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingAck")
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

impl PendingAck {
    /// Waits for the acknowledgement; gives the sequence number in the stream.
    ///
    /// # Errors
    /// [`BusError::Timeout`] leaves open whether the write was kept.
    pub async fn wait(self) -> Result<u64, BusError> {
        self.answer.await.map_err(|_| BusError::Closed {
            subject: self.subject,
        })?
    }

    /// The outcome, as of [`PendingAck::wait`]; nothing while the write is in flight.
    pub fn answered(&mut self) -> Option<Result<u64, BusError>> {
        match self.answer.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(BusError::Closed {
                subject: self.subject.clone(),
            })),
        }
    }
}

impl Bus {
    /// Publishes without acknowledgement: for messages that are repeated, or that a stream may
    /// lose. `correlation` is the id of the newest event that led to the message, or empty.
    ///
    /// # Errors
    /// [`BusError::TooLarge`], or if the connection is closed.
    pub async fn publish<M: Message>(
        &self,
        subject: &Subject<M>,
        message: &M,
        correlation: &str,
    ) -> Result<(), BusError> {
        let (headers, payload) = self.pack(subject.as_str(), message, correlation)?;
        if !self.may_write().await {
            self.0.metrics.failed.inc();
            tracing::debug!(%subject, "not published: another instance may be the active one");
            return Ok(());
        }
        let server = &self.0.server;
        let sent = server.publish(subject.as_str(), Some(headers), payload.into());
        sent.await.inspect_err(|_| self.0.metrics.failed.inc())
    }

    /// Publishes into the stream that keeps the subject, and waits for the acknowledgement. Gives
    /// the sequence number in the stream.
    ///
    /// # Errors
    /// [`BusError::Timeout`] if no acknowledgement arrives. The message may have been stored.
    pub async fn store<M: Message>(
        &self,
        subject: &Subject<M>,
        message: &M,
        correlation: &str,
    ) -> Result<u64, BusError> {
        self.store_later(subject, message, correlation)
            .await?
            .wait()
            .await
    }

    /// Like [`Bus::store`], but the acknowledgement is awaited later, so that many writes can be in
    /// flight. Writes of one caller arrive in order. Waits if thousands of writes are
    /// unacknowledged.
    ///
    /// # Errors
    /// [`BusError::TooLarge`], or if the connection is closed.
    pub async fn store_later<M: Message>(
        &self,
        subject: &Subject<M>,
        message: &M,
        correlation: &str,
    ) -> Result<PendingAck, BusError> {
        let (headers, payload) = self.pack(subject.as_str(), message, correlation)?;
        self.store_packed(subject.as_str(), headers, payload).await
    }

    /// Like [`Bus::store`], but only if the newest message of the subject has this sequence number
    /// (0: there is none). Such a state is not repeated after a reconnection.
    ///
    /// # Errors
    /// [`BusError::Conflict`] if the newest message is another; else those of [`Bus::store`].
    pub async fn store_after<M: Message>(
        &self,
        subject: &Subject<M>,
        message: &M,
        correlation: &str,
        newest: u64,
    ) -> Result<u64, BusError> {
        let (headers, payload) = self.pack_after(subject.as_str(), message, correlation, newest)?;
        self.store_bytes(subject.as_str(), headers, payload.into())
            .await?
            .wait()
            .await
    }

    /// Publishes JSON or other bytes into a stream, with the given headers.
    ///
    /// # Errors
    /// Those of [`Bus::store_later`].
    pub async fn store_raw(
        &self,
        subject: &str,
        headers: &[(&str, &str)],
        payload: Vec<u8>,
    ) -> Result<PendingAck, BusError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        self.store_packed(subject, map, payload).await
    }

    pub(super) async fn store_packed(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<PendingAck, BusError> {
        let payload = Bytes::from(payload);
        if !address::is_state(subject) {
            return self.store_bytes(subject, headers, payload).await;
        }
        // The lock is held until the message is sent, so that a repetition cannot overtake it.
        let mut retained = self.0.retained.lock().await;
        retained.insert(subject.to_owned(), (headers.clone(), payload.clone()));
        self.store_bytes(subject, headers, payload).await
    }

    /// Stores the newest state messages of this process again. A killed server may have lost them,
    /// and would show older ones as the newest.
    pub(super) async fn repeat_states(&self) {
        // Another instance may have become the active one. Its states are then the newest.
        if self.0.retained.lock().await.is_empty() || !self.writes_again().await {
            return;
        }
        let retained = self.0.retained.lock().await;
        for (subject, (headers, payload)) in retained.iter() {
            let stored = self.store_bytes(subject, headers.clone(), payload.clone());
            if let Err(error) = stored.await {
                tracing::warn!(subject, %error, "state not repeated");
            }
        }
    }

    async fn store_bytes(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<PendingAck, BusError> {
        if self.may_write().await {
            return self.send_bytes(subject, headers, payload).await;
        }
        self.0.metrics.failed.inc();
        Err(BusError::Timeout {
            subject: subject.to_owned(),
        })
    }

    pub(super) async fn send_bytes(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<PendingAck, BusError> {
        let sent = self.0.server.send(subject, headers, payload).await;
        let answer = sent.inspect_err(|_| self.0.metrics.failed.inc())?;
        let (into, waiting) = oneshot::channel();
        let subject = subject.to_owned();
        let (bus, at) = (self.clone(), subject.clone());
        // A separate task, since a write counts as in flight until its acknowledgement is taken. A
        // caller may take acknowledgements in any order, or not at all.
        crate::task::spawn(async move {
            let result = bus.unless_denied(|denied| denied == at, answer).await;
            bus.0.kept.judge(&result);
            if result.is_err() {
                bus.0.metrics.failed.inc();
            }
            let _ = into.send(result);
        });
        Ok(PendingAck {
            subject,
            answer: waiting,
        })
    }

    /// Sends a request, and waits for one answer.
    ///
    /// # Errors
    /// [`BusError::NoResponders`] if no service subscribes to the subject, [`BusError::Timeout`],
    /// [`BusError::Decode`].
    pub async fn request<Q: Message, A: Message>(
        &self,
        subject: &Subject<Q>,
        question: &Q,
        limit: Duration,
    ) -> Result<A, BusError> {
        let (headers, payload) = self.pack(subject.as_str(), question, "")?;
        let answer = self
            .request_packed(subject.as_str(), headers, payload, limit)
            .await?;
        let pairs = answer.headers.iter().flat_map(pairs);
        Envelope::read(pairs)
            .and_then(|envelope| codec::decode(&envelope, &answer.payload))
            .map_err(|source| BusError::Decode {
                subject: subject.to_string(),
                source,
            })
    }

    /// Sends a request in plain text, and waits for an answer in plain text.
    ///
    /// # Errors
    /// [`BusError::NoResponders`] if no service subscribes to the subject, or
    /// [`BusError::Timeout`].
    pub async fn request_text<T>(
        &self,
        subject: &Subject<T>,
        question: &str,
        limit: Duration,
    ) -> Result<String, BusError> {
        let answer = self
            .request_packed(
                subject.as_str(),
                HeaderMap::new(),
                question.as_bytes().to_vec(),
                limit,
            )
            .await?;
        Ok(String::from_utf8_lossy(&answer.payload).into_owned())
    }

    async fn request_packed(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Vec<u8>,
        limit: Duration,
    ) -> Result<async_nats::Message, BusError> {
        let server = &self.0.server;
        let answer = server.request(subject, headers, payload.into(), limit);
        self.unless_denied(|denied| denied == subject, answer).await
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`BusError::Other`] if the sender wants no answer; else those of [`Bus::publish`].
    pub async fn respond<Q, A: Message>(
        &self,
        request: &Received<Q>,
        answer: &A,
    ) -> Result<(), BusError> {
        if !self.may_write().await {
            return Err(BusError::other(
                &request.subject,
                "not answered: another instance may be the active one",
            ));
        }
        self.respond_as_standby(request, answer).await
    }

    /// Like [`Bus::respond`], but regardless of the gate: for answers of an instance that does not lead.
    pub(crate) async fn respond_as_standby<Q, A: Message>(
        &self,
        request: &Received<Q>,
        answer: &A,
    ) -> Result<(), BusError> {
        let Some(reply) = &request.reply else {
            return Err(BusError::other(&request.subject, "no answer was asked for"));
        };
        self.check_inbox(&request.subject, reply)?;
        let (headers, payload) = self.pack(reply, answer, &request.envelope.correlation)?;
        let server = &self.0.server;
        server.publish(reply, Some(headers), payload.into()).await
    }

    /// Answers go to inboxes only. The requester names the subject of the answer, and could
    /// otherwise use this process's permissions.
    pub(super) fn check_inbox(&self, asked: &str, reply: &str) -> Result<(), BusError> {
        if self.proven() && !is_inbox(reply) {
            tracing::error!(asked, reply, "not answered: that is no inbox");
            return Err(BusError::other(asked, "the answer is wanted at no inbox"));
        }
        Ok(())
    }

    /// Headers and payload of a message that is stored only if the newest one of its subject has
    /// this sequence number.
    pub(super) fn pack_after<M: Message>(
        &self,
        subject: &str,
        message: &M,
        correlation: &str,
        newest: u64,
    ) -> Result<(HeaderMap, Vec<u8>), BusError> {
        let (mut headers, payload) = self.pack(subject, message, correlation)?;
        headers.insert(
            NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
            newest.to_string().as_str(),
        );
        Ok((headers, payload))
    }

    /// Headers and payload of a message.
    pub(super) fn pack<M: Message>(
        &self,
        subject: &str,
        message: &M,
        correlation: &str,
    ) -> Result<(HeaderMap, Vec<u8>), BusError> {
        let payload = codec::encode(message)?;
        let envelope = self.envelope::<M>(correlation);
        let mut headers = HeaderMap::new();
        for (name, value) in envelope.headers() {
            headers.insert(name, value.as_str());
        }
        self.0.seal.sign::<M>(subject, &payload, &mut headers)?;
        Ok((headers, payload))
    }
}
