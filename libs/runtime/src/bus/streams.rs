//! Streams and buckets: made if missing, again after every reconnection.
//!
//! Durability is a field of each stream's definition in `wire::address`. The trade is one disk
//! write for each message: a change of a trainer of a hundred nodes would wait for a hundred synced
//! writes.
//!
//! - Synced: `lac_c_in`, `lac_c_snapshot`, `lac_c_plan`, `lac_c_controls`, `lac_c_audit`,
//!   `lac_c_archive`, `lac_c_leaders` and the buckets. An accepted event, a plan, a lease and a
//!   trainer survive a power failure. A message with a list of events is synced once.
//! - Written behind (`persist_mode: async`): all others. A `kill -9` of nats-server may take their
//!   newest messages, and each is repaired: events by the next snapshot, states because each owner
//!   publishes its newest again after a reconnection, commands because control derives them from
//!   leases and records and sends them until they are obeyed, progress because reports are
//!   cumulative.
//!
//! Epochs, versions and plan generations begin no lower than the wall clock's milliseconds, so a
//! server that has lost all brings no old number back.

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
    /// Makes all streams and buckets of the cluster, or brings them up to date. Does nothing to
    /// those that are as they should be.
    ///
    /// # Errors
    /// [`BusError::Stream`] or [`BusError::NoJetStream`].
    pub async fn ensure_streams(&self) -> Result<(), BusError> {
        let cluster = self.cluster();
        let mut wanted: Vec<Config> = address::streams(cluster).iter().map(stream).collect();
        wanted.push(bucket(&address::trainers_bucket(cluster)));
        wanted.push(bucket(&address::observed_bucket(cluster)));
        // A new bucket of leases numbers on from the wall clock: an emptied server must not
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

    /// Makes the streams, or waits up to a limit for those that this user needs: where the server
    /// knows users by keys, only those may make streams who must.
    ///
    /// # Errors
    /// As [`Bus::ensure_streams`]; [`BusError::NoStream`] if one does not come.
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

    /// After every reconnection, makes missing streams again (the server may have lost its
    /// disk) and repeats the states of this process (it may have lost its buffers).
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

/// As the key-value convention of NATS has it, so that its tools can read it.
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
        // Markers of deletions go by themselves.
        allow_message_ttl: true,
        allow_direct: true,
        num_replicas: 1,
        ..Config::default()
    }
}
