//! Trainers that ended long ago move from the bucket of records to the archive, beside the loop.
//!
//! One move at a time, in three acknowledged steps, each of which may be done twice:
//! 1. the records are written to the archive;
//! 2. the sums over all that was ever moved are written, with the names of this move;
//! 3. the records are deleted in the bucket.
//!
//! Control may die anywhere. Before the second step the move has no effect. After it the names
//! say which records the sums contain already, so that a new start only deletes them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use lacuna_model::{Past, Span, TrainerId, TrainerRecord};
use lacuna_runtime::{Bucket, Bus, BusError, Newest, ServiceError, Stopwatch};
use lacuna_trainer::Now;
use lacuna_trainer::controller::Controller;
use lacuna_wire::address;
use lacuna_wire::msg::{Kept, Reply};
use tokio::task::JoinHandle;

use crate::access::{Access, Denied};
use crate::sections::Context;

/// Trainers of one move.
const MOST_TRAINERS: usize = 64;
/// Seconds between searches for trainers to move.
const CHECK_S: f64 = 5.0;
/// Between attempts at a step.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Beyond this share of the bucket those that ended first move before their time. Submissions end
/// at .8.
const CROWDED: f64 = 0.6;
/// Bytes of records in one page: answers may have a megabyte, and the last record goes beyond.
const PAGE_BYTES: u64 = 512 << 10;

/// The sums of the archive, as the bus has them.
#[derive(Debug)]
pub(crate) struct Sums {
    /// The sums.
    pub(crate) past: Past,
    /// The number of the message that holds them; 0 if there is none.
    pub(crate) sequence: u64,
}

impl Sums {
    /// Reads them.
    ///
    /// # Errors
    /// If the archive cannot be read, or it has a version that is not read.
    pub(crate) async fn read(ctx: &Context) -> Result<Self, ServiceError> {
        let newest = ctx.bus.newest(&address::past(&ctx.cluster)).await?;
        Ok(Self {
            sequence: newest.sequence(),
            past: newest
                .decoded()
                .map(|found| found.message)
                .unwrap_or_default(),
        })
    }
}

/// Moves trainers to the archive.
#[derive(Debug)]
pub(crate) struct Archive {
    bus: Bus,
    keep: Span,
    sequence: u64,
    checked: Stopwatch,
    /// Records of the present move.
    moving: BTreeMap<TrainerId, TrainerRecord>,
    task: Option<JoinHandle<Result<u64, SecondWriter>>>,
}

impl Archive {
    /// `left` are records that an earlier move has left in the bucket, with their revisions.
    pub(crate) fn new(ctx: &Context, sequence: u64, left: Vec<(TrainerRecord, u64)>) -> Self {
        let mut archive = Self {
            bus: ctx.bus.clone(),
            keep: ctx.config.control.keep_finished,
            sequence,
            checked: Stopwatch::start(),
            moving: BTreeMap::new(),
            task: None,
        };
        if !left.is_empty() {
            archive.begin(None, left);
        }
        archive
    }

    /// Begins a move if it is time for one, and gives the names that have left the bucket since the
    /// last call. `share` of the bucket is taken.
    ///
    /// # Errors
    /// If another control writes to the archive.
    pub(crate) async fn step(
        &mut self,
        controller: &mut Controller,
        share: f64,
        now: Now,
        revision: impl Fn(&TrainerId) -> u64,
    ) -> Result<Vec<TrainerId>, ServiceError> {
        let mut moved = Vec::new();
        if let Some(task) = self.task.take_if(|task| task.is_finished()) {
            self.sequence = task.await??;
            moved = std::mem::take(&mut self.moving).into_keys().collect();
        }
        let crowded = share > CROWDED;
        let due = crowded || !moved.is_empty() || self.checked.seconds() >= CHECK_S;
        if self.task.is_some() || !due {
            return Ok(moved);
        }
        self.checked = Stopwatch::start();
        let mut records = controller.retire(self.keep, MOST_TRAINERS, now);
        if records.is_empty() && crowded {
            records = controller.retire(Span::ZERO, MOST_TRAINERS, now);
        }
        if !records.is_empty() {
            tracing::info!(
                trainers = records.len(),
                crowded,
                "ended trainers move to the archive"
            );
            let records = records.into_iter().map(|record| {
                let revision = revision(&record.spec.id);
                (record, revision)
            });
            self.begin(Some(controller.past().clone()), records.collect());
        }
        Ok(moved)
    }

    fn begin(&mut self, past: Option<Past>, records: Vec<(TrainerRecord, u64)>) {
        let named = records
            .iter()
            .map(|(record, _)| (record.spec.id.clone(), record.clone()));
        self.moving = named.collect();
        let mover = Mover {
            bucket: self
                .bus
                .bucket(address::trainers_bucket(self.bus.cluster())),
            bus: self.bus.clone(),
            records,
            past,
        };
        self.task = Some(lacuna_runtime::task::spawn(mover.run(self.sequence)));
    }

    /// The trainer of this name, if it is in the archive or on its way there.
    pub(crate) async fn find(
        &self,
        controller: &Controller,
        trainer: &TrainerId,
    ) -> Result<Option<TrainerRecord>, BusError> {
        if controller.past().trainers == 0 {
            return Ok(None);
        }
        if let Some(record) = self.moving.get(trainer) {
            return Ok(Some(record.clone()));
        }
        let subject = address::archived(self.bus.cluster(), trainer);
        Ok(self
            .bus
            .newest(&subject)
            .await?
            .decoded()
            .map(|found| found.message))
    }

    /// Refuses names that trainers of the archive have.
    pub(crate) async fn names_are_free<'a>(
        &self,
        controller: &Controller,
        names: impl Iterator<Item = &'a TrainerId>,
    ) -> Result<(), Denied> {
        let found = join_all(names.map(|name| self.find(controller, name))).await;
        for found in found {
            match found {
                Ok(None) => {}
                Ok(Some(record)) => {
                    return Err(Denied {
                        code: "L0008",
                        reason: format!(
                            "a trainer named {} has ended and is in the archive: choose another \
                             name",
                            record.spec.id
                        ),
                    });
                }
                Err(error) => return Err(unavailable(&error)),
            }
        }
        Ok(())
    }
}

/// One page of the archive, as `access` lets `user` see it.
pub(crate) async fn archived_page(
    bus: &Bus,
    from: u64,
    now: Now,
    access: &Access,
    user: &str,
) -> Reply {
    let subject = address::archive(bus.cluster());
    let read = bus.read_from(&subject, from, PAGE_BYTES).await;
    let (mut trainers, next) = match read {
        Ok(read) => read,
        Err(error) => return unavailable(&error).into(),
    };
    for record in &mut trainers {
        if !access.may_act_on(user, record) {
            *record = Controller::for_all(record);
        }
    }
    Reply::Page {
        now: now.cluster,
        trainers,
        next,
    }
}

/// The archive does not answer.
pub(crate) fn unavailable(error: &BusError) -> Denied {
    Denied {
        code: "L0002",
        reason: format!(
            "the archive of ended trainers does not answer, so nothing was done: {error}; try again"
        ),
    }
}

/// One page of the records in the controller.
pub(crate) fn controller_page(
    controller: &Controller,
    from: u64,
    now: Now,
    access: &Access,
    user: &str,
) -> Reply {
    let mut trainers = Vec::new();
    let (mut bytes, mut next) = (0, None);
    for record in controller
        .records(true)
        .into_iter()
        .filter(|r| r.order >= from)
    {
        if bytes >= PAGE_BYTES {
            next = Some(record.order);
            break;
        }
        let record = match access.may_act_on(user, record) {
            true => record.clone(),
            false => Controller::for_all(record),
        };
        bytes += crate::room::bytes(&record);
        trainers.push(record);
    }
    Reply::Page {
        now: now.cluster,
        trainers,
        next,
    }
}

/// The reply with one trainer, of the controller or of the archive.
pub(crate) fn trainer_reply(record: TrainerRecord, kept: Kept, now: Now, whole: bool) -> Reply {
    let record = match whole {
        true => record,
        false => Controller::for_all(&record),
    };
    Reply::Trainer {
        now: now.cluster,
        trainer: Box::new(record),
        kept,
    }
}

/// Another control has written the sums.
#[derive(Debug, thiserror::Error)]
#[error(
    "the archive was changed by another writer: another control runs for this cluster, stop one of them"
)]
struct SecondWriter;

/// One move.
struct Mover {
    bus: Bus,
    bucket: Bucket<TrainerRecord>,
    records: Vec<(TrainerRecord, u64)>,
    /// The new sums; `None` if they are written already.
    past: Option<Past>,
}

impl Mover {
    /// Tries again until all is done. Returns the sequence number of the sums.
    async fn run(mut self, mut sequence: u64) -> Result<u64, SecondWriter> {
        if let Some(past) = self.past.take() {
            while let Err(error) = self.write().await {
                wait("trainers are not archived yet", &error).await;
            }
            loop {
                match self.sum(&past, sequence).await {
                    Ok(kept) => {
                        sequence = kept;
                        break;
                    }
                    Err(error) => wait("sums of the archive are not kept yet", &error).await,
                }
                // Kept after all, lost by the server, or written by another control.
                if let Ok(newest) = self.bus.newest(&address::past(self.bus.cluster())).await {
                    sequence = newest.sequence();
                    match newest.decoded().map(|found| found.message) {
                        Some(found) if found == past => break,
                        Some(found) if found.trainers >= past.trainers => {
                            return Err(SecondWriter);
                        }
                        Some(_) | None => {}
                    }
                }
            }
        }
        while let Err(error) = self.delete().await {
            wait("archived records are not deleted yet", &error).await;
        }
        Ok(sequence)
    }

    async fn write(&self) -> Result<(), BusError> {
        let cluster = self.bus.cluster();
        let writes = self.records.iter().map(|(record, _)| async move {
            let subject = address::archived(cluster, &record.spec.id);
            self.bus.store(&subject, record, "").await
        });
        join_all(writes)
            .await
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        Ok(())
    }

    async fn sum(&self, past: &Past, sequence: u64) -> Result<u64, BusError> {
        let subject = address::past(self.bus.cluster());
        self.bus.store_after(&subject, past, "", sequence).await
    }

    /// Deletes what is still there, at the revision that is there.
    async fn delete(&mut self) -> Result<(), BusError> {
        let deletions = self.records.iter().map(|(record, revision)| async {
            let key = record.spec.id.as_str();
            match self.bucket.delete(key, *revision).await {
                Ok(_) => Ok(None),
                Err(error) => match self.bucket.newest(key).await? {
                    Newest::Decoded(entry) => Ok(Some((entry.revision, error))),
                    Newest::Nothing | Newest::Unreadable { .. } => Ok(None),
                },
            }
        });
        let mut left = Vec::new();
        let mut failed = None;
        let outcomes = join_all(deletions).await;
        for ((record, revision), outcome) in
            std::mem::take(&mut self.records).into_iter().zip(outcomes)
        {
            match outcome {
                Ok(None) => {}
                Ok(Some((now, error))) => {
                    failed = Some(error);
                    left.push((record, now));
                }
                Err(error) => {
                    failed = Some(error);
                    left.push((record, revision));
                }
            }
        }
        self.records = left;
        failed.map_or(Ok(()), Err)
    }
}

async fn wait(what: &str, error: &BusError) {
    tracing::warn!(%error, "{what}, trying again");
    tokio::time::sleep(RETRY_AFTER).await;
}
