//! Streams and buckets: made if they are missing, and again after every reconnection.
//!
//! Durability is a field of each stream's definition in `wire::address`. A synced stream costs one
//! disk write for each message. A change of a trainer of a hundred nodes would wait for a hundred
//! writes.
//!
//! - Synced: `lac_c_in`, `lac_c_snapshot`, `lac_c_plan`, `lac_c_controls`, `lac_c_audit`,
//!   `lac_c_archive`, `lac_c_leaders` and the buckets. An accepted event, a plan, a lease and a
//!   trainer survive a power failure. A message with a list of events is synced once.
//! - Buffered (`persist_mode: async`): all others. A `kill -9` of nats-server may lose their newest
//!   messages, and each kind is repaired. The next snapshot repairs events. Each owner publishes
//!   its newest states again after a reconnection. Control derives commands from leases and
//!   records, and sends them until they are obeyed. Reports of progress are cumulative.
//!
//! Epochs, versions and plan generations begin no lower than the wall clock's milliseconds. So an
//! emptied server brings no old number back.

use async_nats::jetstream::stream::{
    Config, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType,
};
use lacuna_model::Span;
use lacuna_wire::{BucketDef, Durability, Full, Message, StreamDef, address};

use super::denied::names;
use super::follow::RETRY;
use super::{Bus, BusError};
use crate::clock::{Stopwatch, wall};

/// How long streams may take to come back after a reconnection.
const AWAY: Span = Span::from_secs(30);

impl Bus {
    /// Makes all streams and buckets of the cluster, or updates their configuration.
    ///
    /// # Errors
    /// [`BusError::Stream`] or [`BusError::NoJetStream`].
    pub async fn ensure_streams(&self) -> Result<(), BusError> {
        let cluster = self.cluster();
        let mut wanted: Vec<Config> = address::streams(cluster).iter().map(stream).collect();
        wanted.push(bucket(&address::trainers_bucket(cluster)));
        wanted.push(bucket(&address::observed_bucket(cluster)));
        // A new bucket of leases starts its numbers at the wall clock. An emptied server must not
        // bring back epochs that agents have seen.
        let leases = address::leases_bucket(cluster);
        wanted.push(Config {
            first_sequence: u64::try_from(wall().unix_ms()).ok(),
            ..bucket(&leases)
        });
        futures::future::try_join_all(
            wanted
                .into_iter()
                .map(|config| self.0.server.ensure(config)),
        )
        .await
        .map(|_| ())
    }

    /// Makes the streams, or waits up to a limit for those that this user needs. Where the server
    /// knows users by keys, only control may make streams.
    ///
    /// # Errors
    /// Those of [`Bus::ensure_streams`]; [`BusError::NoStream`] if a stream does not come.
    pub(super) async fn ready_streams(&self, limit: Span) -> Result<(), BusError> {
        let needed = match &self.0.access {
            Some(access) if !access.makes_streams => &access.streams,
            _ => return self.ensure_streams().await,
        };
        let waiting = Stopwatch::start();
        for (stream, request) in needed {
            loop {
                let look = async { Ok(self.answers(request).await) };
                let concerns = |denied: &str| names(denied, stream);
                if self.unless_denied(concerns, look).await? {
                    break;
                }
                if waiting.span() >= limit {
                    let stream = stream.clone();
                    return Err(BusError::NoStream { stream });
                }
                tokio::time::sleep(RETRY).await;
            }
        }
        Ok(())
    }

    /// After every reconnection, makes missing streams again, since the server may have lost its
    /// disk. Then it repeats the states of this process, since the server may have lost its
    /// buffers.
    pub(super) fn keep_streams(&self) {
        let bus = self.clone();
        let mut link = self.link();
        crate::task::spawn(async move {
            let mut seen = link.seen().generation;
            loop {
                link.changed().await;
                let now = link.seen();
                if !now.up || now.generation == seen {
                    continue;
                }
                seen = now.generation;
                if let Err(error) = bus.ready_streams(AWAY).await {
                    tracing::warn!(%error, "streams not in place after reconnection");
                }
                bus.repeat_states().await;
            }
        });
    }
}

fn stream(def: &StreamDef) -> Config {
    Config {
        name: def.name.clone(),
        subjects: def.subjects.clone(),
        max_age: def.max_age.to_std(),
        max_bytes: def.max_bytes,
        max_messages: -1,
        max_messages_per_subject: def.max_per_subject,
        retention: RetentionPolicy::Limits,
        persist_mode: match def.durability {
            Durability::Synced => None,
            Durability::Buffered => Some(PersistenceMode::Async),
        },
        storage: StorageType::File,
        discard: match def.full {
            Full::DropOldest => DiscardPolicy::Old,
            Full::RefuseNew => DiscardPolicy::New,
        },
        allow_direct: true,
        num_replicas: 1,
        ..Config::default()
    }
}

/// The configuration of NATS' key-value convention, so that the tools of NATS can read it.
fn bucket<M: Message>(def: &BucketDef<M>) -> Config {
    Config {
        name: def.stream(),
        subjects: vec![def.all().as_str().to_owned()],
        max_bytes: def.max_bytes,
        max_messages: -1,
        max_messages_per_subject: 1,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        // Deletion markers expire.
        allow_message_ttl: true,
        allow_direct: true,
        num_replicas: 1,
        ..Config::default()
    }
}
