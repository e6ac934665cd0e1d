//! Key-value buckets with compare-and-set. The values are messages with envelopes, so they have a
//! version. The layout on the server is that of NATS' own buckets.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use async_nats::HeaderMap;
use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_TTL};
use lacuna_wire::{BucketDef, Message, token};

use super::transport::{Begin, DELETED};
use super::{Bus, BusError, Newest, Origin, refuse_version};

/// Lifetime of a deletion marker.
const MARKER_TTL: &str = "60s";

/// A value with its key and revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<M> {
    /// The key, unescaped.
    pub key: String,
    /// The value.
    pub value: M,
    /// The revision of the value. It grows with every write to the bucket.
    pub revision: u64,
}

/// A key-value bucket. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Bucket<M> {
    bus: Bus,
    def: BucketDef<M>,
    message: PhantomData<fn() -> M>,
}

impl Bus {
    /// A bucket of [`lacuna_wire::address`].
    #[must_use]
    pub fn bucket<M: Message>(&self, def: BucketDef<M>) -> Bucket<M> {
        Bucket {
            bus: self.clone(),
            def,
            message: PhantomData,
        }
    }
}

impl<M: Message + Send + 'static> Bucket<M> {
    /// Writes a value whether or not there is one. Gives the new revision.
    ///
    /// # Errors
    /// [`BusError::Timeout`] leaves open whether the write was kept.
    pub async fn put(&self, key: &str, value: &M, correlation: &str) -> Result<u64, BusError> {
        self.write(key, value, correlation, None).await
    }

    /// Writes a value if the key has never been written. After a deletion use [`Bucket::update`]
    /// with the revision of the deletion.
    ///
    /// # Errors
    /// [`BusError::Conflict`] if there is a value; else as [`Bucket::put`].
    pub async fn create(&self, key: &str, value: &M, correlation: &str) -> Result<u64, BusError> {
        self.write(key, value, correlation, Some(0)).await
    }

    /// Writes a value if the newest revision is `revision` (0: never written).
    ///
    /// # Errors
    /// [`BusError::Conflict`] if another write came first; else as [`Bucket::put`].
    pub async fn update(
        &self,
        key: &str,
        value: &M,
        revision: u64,
        correlation: &str,
    ) -> Result<u64, BusError> {
        self.write(key, value, correlation, Some(revision)).await
    }

    async fn write(
        &self,
        key: &str,
        value: &M,
        correlation: &str,
        expected: Option<u64>,
    ) -> Result<u64, BusError> {
        let subject = self.def.key(key);
        let (mut headers, payload) = self.bus.pack(subject.as_str(), value, correlation)?;
        if let Some(revision) = expected {
            headers.insert(
                NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
                revision.to_string().as_str(),
            );
        }
        self.bus
            .store_packed(subject.as_str(), headers, payload)
            .await?
            .wait()
            .await
    }

    /// Deletes the value if its revision is `revision`. A deletion marker remains for a minute, so
    /// that followers of the bucket learn of it.
    ///
    /// # Errors
    /// As [`Bucket::update`].
    pub async fn delete(&self, key: &str, revision: u64) -> Result<u64, BusError> {
        let mut headers = HeaderMap::new();
        headers.insert(DELETED, "DEL");
        headers.insert(NATS_MESSAGE_TTL, MARKER_TTL);
        headers.insert(
            NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
            revision.to_string().as_str(),
        );
        let subject = self.def.key(key);
        self.bus
            .store_packed(subject.as_str(), headers, Vec::new())
            .await?
            .wait()
            .await
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// [`BusError::Timeout`] or [`BusError::Stream`].
    pub async fn get(&self, key: &str) -> Result<Option<Entry<M>>, BusError> {
        match self.newest(key).await {
            Err(BusError::Decode { .. }) => Ok(None),
            newest => Ok(newest?.decoded()),
        }
    }

    /// The value of a key, with the revision that [`Bucket::update`] needs.
    ///
    /// # Errors
    /// As [`Bus::newest`].
    pub async fn newest(&self, key: &str) -> Result<Newest<Entry<M>>, BusError> {
        let newest = self.bus.newest(&self.def.key(key)).await?;
        Ok(newest.map(|found| Entry {
            key: key.to_owned(),
            value: found.message,
            revision: found.sequence,
        }))
    }

    /// All values, in the order of their last writes. Undecodable ones become dead letters.
    ///
    /// # Errors
    /// [`BusError::Stream`] if the bucket cannot be read to its end, after several attempts;
    /// [`BusError::Decode`] if a value has a version that this process does not read. Without that
    /// value the key would look deleted.
    pub async fn list(&self) -> Result<Vec<Entry<M>>, BusError> {
        let stream = self.def.stream();
        self.bus.patiently(&stream, || self.list_once()).await
    }

    async fn list_once(&self) -> Result<Vec<Entry<M>>, BusError> {
        let mut entries = BTreeMap::new();
        let mut next = Some(Begin::Seq(1));
        while let Some(begin) = next {
            let page = self.bus.page(&self.def.all(), begin).await?;
            next = page.next;
            for message in page.messages {
                let subject = message.subject.as_str();
                let Some(key) = token::last_name(subject) else {
                    continue;
                };
                // Values that were written during this read come again; the newest counts.
                if message.headers.get(DELETED).is_some() {
                    entries.remove(&key);
                    continue;
                }
                let headers = Some(&message.headers);
                let payload = &message.payload;
                let opened = self
                    .bus
                    .open_from(Origin::Answer, subject, headers, payload);
                let Some((_, value)) = opened else {
                    refuse_version::<M>(subject, headers)?;
                    entries.remove(&key);
                    continue;
                };
                let entry = Entry {
                    key: key.clone(),
                    value,
                    revision: message.sequence,
                };
                entries.insert(key, entry);
            }
        }
        let mut entries: Vec<_> = entries.into_values().collect();
        entries.sort_by_key(|entry| entry.revision);
        Ok(entries)
    }
}
