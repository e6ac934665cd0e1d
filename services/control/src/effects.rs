//! Applies the controller's effects: leases by compare-and-set before any command, then records,
//! members and commands. Trainers' records are written by compare-and-set too. A control whose
//! record was changed by another control ends with an error. After an outage, records and leases that
//! the server has lost are written again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use lacuna_model::{
    Action, Command, Epoch, EventKind, Members, NodeEvent, NodeId, Span, TrainerId, TrainerRecord,
};
use lacuna_runtime::leader::LOOP;
use lacuna_runtime::{BusError, HealthCheck, Newest, ServiceError, Stopwatch};
use lacuna_trainer::controller::{Effect, LeaseResult, LeaseWrite, Note, Refusal};
use lacuna_wire::address;
use lacuna_wire::msg::{LeaseRecord, Settled, TrainersState};

use crate::metrics::Metrics;
use crate::room::Room;
use crate::sections::Context;
use crate::store::Store;

/// Between attempts at a write that must not fail.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Seconds for which a failed write of an incarnation's members is tried again. A server that was
/// emptied needs its streams first.
const MEMBERS_LIMIT_S: f64 = 2.0;

/// The bucket entry of a lease as control last read it.
pub(crate) type Held = (NodeId, LeaseRecord);

/// Applies effects on the bus.
#[derive(Debug)]
pub(crate) struct EffectRunner {
    pub(crate) ctx: Context,
    pub(crate) metrics: Metrics,
    /// Where members meet, if control keeps a store.
    store: Option<Store>,
    leases: lacuna_runtime::Bucket<LeaseRecord>,
    trainers: lacuna_runtime::Bucket<TrainerRecord>,
    /// Revision of each trainer's record, as this process has last read or written it.
    revisions: BTreeMap<TrainerId, u64>,
    /// Revisions of leases that have been written again ([`LeaseRecord::epoch`]). Those of others are
    /// their epochs.
    restored: BTreeMap<NodeId, u64>,
    pub(crate) room: Room,
    /// Records that the server does not take, of trainers that it knows. Their incarnations wait.
    unkept: BTreeMap<TrainerId, TrainerRecord>,
    kept: HealthCheck,
    /// Liveness of the loop. A change of many nodes is one turn, so each of its writes counts.
    pub(crate) alive: HealthCheck,
}

/// The outcome of a list of effects.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The outcome of lease writes, the controller's next input.
    pub(crate) leases: Option<Vec<LeaseResult>>,
    pub(crate) reply: Option<Result<Vec<TrainerId>, Refusal>>,
    pub(crate) commands: u32,
    /// New trainers whose records the server does not take, and why.
    pub(crate) untaken: Option<(Vec<TrainerId>, String)>,
}

impl EffectRunner {
    pub(crate) fn new(
        ctx: Context,
        metrics: Metrics,
        store: Option<Store>,
        (revisions, restored): (BTreeMap<TrainerId, u64>, BTreeMap<NodeId, u64>),
        room: Room,
    ) -> Self {
        metrics.room.set(room.share());
        let kept = ctx.health.check("records", None);
        kept.ok();
        Self {
            store,
            unkept: BTreeMap::new(),
            kept,
            revisions,
            restored,
            room,
            leases: ctx.bus.bucket(address::leases_bucket(&ctx.cluster)),
            trainers: ctx.bus.bucket(address::trainers_bucket(&ctx.cluster)),
            alive: ctx.health.check(LOOP, Some(Span::from_secs(30))),
            ctx,
            metrics,
        }
    }

    /// The revision of a trainer's record; 0 if none is known.
    pub(crate) fn revision(&self, trainer: &TrainerId) -> u64 {
        self.revisions.get(trainer).copied().unwrap_or_default()
    }

    /// Whether the server does not take the record of a trainer.
    pub(crate) fn is_unkept(&self, trainer: &TrainerId) -> bool {
        self.unkept.contains_key(trainer)
    }

    /// The record of a trainer has left the bucket.
    pub(crate) fn forget(&mut self, trainer: &TrainerId) {
        self.revisions.remove(trainer);
        self.unkept.remove(trainer);
        self.room.removed(trainer);
        self.metrics.room.set(self.room.share());
    }

    /// Applies effects in their order. Neighbours of one kind are sent together.
    pub(crate) async fn apply(
        &mut self,
        effects: Vec<Effect>,
        correlation: &str,
    ) -> Result<Outcome, ServiceError> {
        let mut done = Outcome::default();
        let mut records = Vec::new();
        let mut members = Vec::new();
        let mut unstored = BTreeSet::new();
        let mut commands = Vec::new();
        for effect in effects {
            if !records.is_empty() && !matches!(effect, Effect::PutTrainer(_)) {
                let stored = self.store_records(std::mem::take(&mut records), correlation);
                done.untaken = done.untaken.or(stored.await?);
            }
            if !members.is_empty() && !matches!(effect, Effect::Say(_)) {
                unstored = self
                    .store_members(std::mem::take(&mut members), correlation)
                    .await;
            }
            if !commands.is_empty() && !matches!(effect, Effect::Send(_)) {
                self.send_commands(std::mem::take(&mut commands), correlation)
                    .await;
            }
            match effect {
                Effect::PublishTrainers(view) => {
                    let state = TrainersState {
                        version: view.version,
                        as_of: view.as_of,
                        trainers: view.trainers,
                        unusable: view.unusable,
                        pilot_s: view.pilot_s,
                        followed: view.followed,
                    };
                    let subject = address::trainers(&self.ctx.cluster);
                    // Not awaited: it is published again whenever figures change.
                    let sent = self.ctx.bus.publish(&subject, &state, correlation).await;
                    self.note_failure(sent);
                }
                Effect::WriteLeases(writes) => {
                    let watch = Stopwatch::start();
                    let results = writes.into_iter().map(|w| self.write_lease(w, correlation));
                    let results = join_all(results).await;
                    for (result, again) in &results {
                        let node = &result.node;
                        match again {
                            Some(revision) => self.restored.insert(node.clone(), *revision),
                            None if result.entry.is_some() => self.restored.remove(node),
                            None => None,
                        };
                    }
                    done.leases = Some(results.into_iter().map(|(result, _)| result).collect());
                    self.metrics.lease_write.observe(watch.seconds());
                }
                Effect::PutTrainer(record) => records.push(*record),
                // Agents must not hear of an incarnation that control would forget.
                Effect::Say(one) if self.unkept.contains_key(&one.trainer) => {}
                Effect::Say(one) => {
                    if let Some(store) = &self.store {
                        store.begin(&one);
                    }
                    members.push(one);
                }
                // The controller sends it again.
                Effect::Send(command)
                    if waits_for(&command, |trainer| {
                        unstored.contains(trainer) || self.unkept.contains_key(trainer)
                    }) => {}
                Effect::Send(mut command) => {
                    if let Some(store) = &self.store {
                        store.admit(&mut command.action);
                    }
                    done.commands += 1;
                    commands.push(command);
                }
                Effect::AnswerReleased { node } => {
                    let event = NodeEvent {
                        seq: 0,
                        at: self.ctx.clock.now(),
                        kind: EventKind::NodeReleased { node },
                    };
                    let subject = address::released(&self.ctx.cluster);
                    let sent = self.ctx.bus.publish(&subject, &event, correlation).await;
                    self.note_failure(sent);
                }
                Effect::Settled { step, complete } => {
                    let subject = address::settled(&self.ctx.cluster);
                    let settled = Settled { step, complete };
                    let sent = self.ctx.bus.publish(&subject, &settled, correlation).await;
                    self.note_failure(sent);
                }
                Effect::Reply(reply) => done.reply = Some(reply),
                Effect::Note(note) => {
                    self.metrics.note(&note);
                    log(&note, correlation);
                }
            }
        }
        if !records.is_empty() {
            let stored = self.store_records(records, correlation);
            done.untaken = done.untaken.or(stored.await?);
        }
        if !members.is_empty() {
            self.store_members(members, correlation).await;
        }
        if !commands.is_empty() {
            self.send_commands(commands, correlation).await;
        }
        Ok(done)
    }

    fn note_failure<T>(&self, sent: Result<T, BusError>) {
        if let Err(error) = sent {
            self.metrics.write_failed();
            tracing::warn!(%error, "publication failed");
        }
    }

    /// After an outage, writes again what an emptied server has lost: the records of trainers, and
    /// leases under their epochs. So agents go on, and a control that starts finds both. Gives false
    /// if that is to be tried again.
    ///
    /// # Errors
    /// If another control writes records.
    pub(crate) async fn restore(
        &mut self,
        records: Vec<TrainerRecord>,
        held: Vec<Held>,
    ) -> Result<bool, ServiceError> {
        if let Some(any) = records.first() {
            match self.trainers.newest(any.spec.id.as_str()).await {
                // What is not taken is tried again with the others.
                Ok(Newest::Nothing) => drop(self.store_records(records, "").await?),
                Ok(Newest::Decoded(_) | Newest::Unreadable { .. }) => {}
                Err(_) => return Ok(false),
            }
        }
        let restored = self.restore_leases(held).await;
        if let Err(error) = &restored {
            tracing::warn!(%error, "leases not compared with those of the server");
        }
        Ok(restored.is_ok())
    }

    async fn restore_leases(&mut self, held: Vec<Held>) -> Result<(), BusError> {
        let mut lost: BTreeMap<String, Held> = held
            .into_iter()
            .map(|held| (held.0.to_string(), held))
            .collect();
        for entry in self.leases.list().await? {
            // It may have been written again, and the answer was lost.
            if let Some((node, _)) = lost.remove(&entry.key)
                && entry.value.epoch.is_some()
            {
                self.restored.insert(node, entry.revision);
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let count = lost.len();
        tracing::warn!(count, "the server has lost leases, writing them again");
        let leases = &self.leases;
        let writes = lost.into_iter().map(|(key, (node, record))| async move {
            let written = leases.update(&key, &record, 0, "").await;
            written.map(|revision| (node, revision))
        });
        for written in join_all(writes).await {
            let (node, revision) = written?;
            self.restored.insert(node, revision);
        }
        Ok(())
    }

    /// Writes one lease by compare-and-set. An outcome that cannot be learned stays open. Gives also
    /// the revision of an entry that was written again.
    async fn write_lease(
        &self,
        write: LeaseWrite,
        correlation: &str,
    ) -> (LeaseResult, Option<u64>) {
        let key = write.node.as_str();
        let record = LeaseRecord {
            trainer: write.trainer.clone(),
            epoch: None,
        };
        let expected = self.restored.get(&write.node).copied();
        let expected = expected.unwrap_or(write.expected.0);
        let mut again = None;
        let (entry, written) = match self
            .leases
            .update(key, &record, expected, correlation)
            .await
        {
            Ok(revision) => {
                self.alive.ok();
                (Some((write.trainer, Epoch(revision))), true)
            }
            Err(error) => {
                if !error.is_conflict() {
                    self.metrics.write_failed();
                    tracing::warn!(node = key, %error, correlation, "lease write failed");
                }
                let entry = match self.leases.newest(key).await {
                    Ok(Newest::Decoded(entry)) => {
                        let epoch = entry.value.epoch(entry.revision);
                        again = entry.value.epoch.map(|_| entry.revision);
                        Some((entry.value.trainer, epoch, entry.revision))
                    }
                    // The bucket was emptied: no trainer holds a node.
                    Ok(Newest::Nothing) if error.is_conflict() => Some((None, Epoch(0), 0)),
                    // Not a lease: the next lease is written over it.
                    Ok(Newest::Unreadable { sequence }) if error.is_conflict() => {
                        Some((None, Epoch(sequence), sequence))
                    }
                    Ok(Newest::Nothing | Newest::Unreadable { .. }) | Err(_) => None,
                };
                // Unchanged after a failure: the write may still be on its way.
                let moved = |revision| error.is_conflict() || revision != expected;
                let entry = entry.filter(|(.., revision)| moved(*revision));
                (entry.map(|(owner, epoch, _)| (owner, epoch)), false)
            }
        };
        let result = LeaseResult {
            node: write.node,
            entry,
            written,
        };
        (result, again)
    }

    /// Stores records, and waits until all are stored: agents must not hear of an incarnation
    /// that control would forget. Each is written by compare-and-set, so that a second control
    /// is noticed.
    ///
    /// A record that the server does not take stops no other. That of a new trainer is given back with
    /// the reason. Another trainer goes on as it is: its next incarnation waits until its record is
    /// taken.
    async fn store_records(
        &mut self,
        records: Vec<TrainerRecord>,
        correlation: &str,
    ) -> Result<Option<(Vec<TrainerId>, String)>, ServiceError> {
        let mut left = records;
        let mut untaken: Option<(Vec<TrainerId>, String)> = None;
        loop {
            let writes = left.iter().map(|record| async {
                let id = &record.spec.id;
                let known = self.revisions.get(id).copied().unwrap_or_default();
                let written = self
                    .trainers
                    .update(id.as_str(), record, known, correlation);
                match written.await {
                    Err(error) if error.is_conflict() => self.resolve_conflict(record, known).await,
                    outcome => Ok(outcome),
                }
            });
            let outcomes = join_all(writes).await;
            let mut failed = Vec::new();
            for (record, outcome) in left.into_iter().zip(outcomes) {
                let id = record.spec.id.clone();
                match outcome? {
                    Ok(revision) => {
                        self.alive.ok();
                        self.room.stored(&record);
                        self.unkept.remove(&id);
                        self.revisions.insert(id, revision);
                    }
                    Err(error) if error.is_refusal() => {
                        self.metrics.write_failed();
                        if self.revisions.contains_key(&id) {
                            if self.unkept.insert(id.clone(), record).is_none() {
                                tracing::error!(trainer = %id, %error, "record not taken, the trainer stays as it is");
                            }
                        } else {
                            tracing::warn!(trainer = %id, %error, "record of a new trainer not taken");
                            let (ids, _) =
                                untaken.get_or_insert_with(|| (Vec::new(), error.to_string()));
                            ids.push(id);
                        }
                    }
                    Err(error) => {
                        self.metrics.write_failed();
                        tracing::warn!(trainer = %id, %error, "record not kept, trying again");
                        failed.push(record);
                    }
                }
            }
            self.metrics.room.set(self.room.share());
            match self.unkept.len() {
                0 => self.kept.ok(),
                count => self.kept.fail(format!(
                    "the server does not take the records of {count} trainers, which stay as they are: \
                     see whether its disk or the bucket of trainers is full (`lacuna help L0025`)"
                )),
            }
            if failed.is_empty() {
                return Ok(untaken);
            }
            left = failed;
            tokio::select! {
                biased;
                () = self.ctx.shutdown.cancelled() => return Err("stopped with records unkept".into()),
                () = tokio::time::sleep(RETRY_AFTER) => {}
            }
        }
    }

    /// Tries again to store the records that the server has not taken.
    ///
    /// # Errors
    /// If another control writes records.
    pub(crate) async fn store_unkept(&mut self) -> Result<(), ServiceError> {
        let records: Vec<TrainerRecord> = self.unkept.values().cloned().collect();
        if !records.is_empty() {
            self.store_records(records, "").await?;
        }
        Ok(())
    }

    /// The record in the bucket is not the one that was last written here. Either an earlier
    /// attempt was kept after all, or the server has lost writes (then the record is written
    /// over it), or another control writes records too, which is an error.
    async fn resolve_conflict(
        &self,
        record: &TrainerRecord,
        known: u64,
    ) -> Result<Result<u64, BusError>, ServiceError> {
        let key = record.spec.id.as_str();
        let entry = match self.trainers.newest(key).await {
            Ok(entry) => entry,
            Err(error) => return Ok(Err(error)),
        };
        let revision = match entry {
            Newest::Decoded(entry) if entry.value == *record => return Ok(Ok(entry.revision)),
            Newest::Decoded(entry) if entry.revision > known => {
                return Err(format!(
                    "trainer {key} was changed by another writer (revision {} of its record, {known} \
                     is known here): another control runs for cluster {}, stop one of them",
                    entry.revision, self.ctx.cluster
                )
                .into());
            }
            Newest::Decoded(entry) => entry.revision,
            Newest::Nothing => 0,
            Newest::Unreadable { sequence } => sequence,
        };
        tracing::warn!(
            trainer = key,
            known,
            revision,
            "the server has lost a record or holds an unreadable one, writing it again"
        );
        Ok(self.trainers.update(key, record, revision, "").await)
    }

    /// Stores the members of incarnations. Returns the trainers whose members could not be stored.
    async fn store_members(&self, members: Vec<Members>, correlation: &str) -> BTreeSet<TrainerId> {
        let watch = Stopwatch::start();
        let mut left = members;
        loop {
            let stored = left.iter().map(|one| async {
                let subject = address::members(&self.ctx.cluster, &one.trainer);
                self.ctx.bus.store(&subject, one, correlation).await
            });
            let outcomes = join_all(stored).await;
            let mut failed = Vec::new();
            for (one, outcome) in left.into_iter().zip(outcomes) {
                match outcome {
                    Ok(_) => self.alive.ok(),
                    Err(error) => {
                        self.metrics.write_failed();
                        tracing::warn!(trainer = %one.trainer, run = one.run.0, %error, correlation, "members of an incarnation not stored, its commands wait");
                        failed.push(one);
                    }
                }
            }
            let over = watch.seconds() >= MEMBERS_LIMIT_S || self.ctx.shutdown.is_cancelled();
            if failed.is_empty() || over {
                return failed.into_iter().map(|one| one.trainer).collect();
            }
            left = failed;
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Sends commands. One that is lost is sent again when its acknowledgement fails to come.
    async fn send_commands(&self, commands: Vec<Command>, correlation: &str) {
        let mut pending = Vec::with_capacity(commands.len());
        for command in commands {
            let action = match &command.action {
                Action::Run(run) => {
                    tracing::debug!(node = %command.node, epoch = command.epoch.0, trainer = %run.trainer, run = run.run.0, correlation, "command run");
                    "run"
                }
                Action::Prepare(run) => {
                    tracing::debug!(node = %command.node, epoch = command.epoch.0, trainer = %run.trainer, correlation, "command prepare");
                    "prepare"
                }
                Action::Release { reason, .. } => {
                    tracing::debug!(node = %command.node, epoch = command.epoch.0, reason, correlation, "command release");
                    "release"
                }
            };
            self.metrics.commands.with_label_values(&[action]).inc();
            let subject = address::command(&self.ctx.cluster, &command.node);
            match self
                .ctx
                .bus
                .store_later(&subject, &command, correlation)
                .await
            {
                Ok(ack) => pending.push(ack),
                Err(error) => self.note_failure::<()>(Err(error)),
            }
        }
        // The agents hear a command when the server does; its acknowledgement tells only that
        // the command is kept for an agent that is away.
        if pending.is_empty() {
            return;
        }
        let metrics = self.metrics.clone();
        lacuna_runtime::task::spawn(async move {
            for outcome in join_all(pending.into_iter().map(|ack| ack.wait())).await {
                if let Err(error) = outcome {
                    metrics.write_failed();
                    tracing::warn!(%error, "command not kept");
                }
            }
        });
    }
}

/// Whether a command belongs to an incarnation of such a trainer, whose members or record are not
/// stored.
fn waits_for(command: &Command, is_unstored: impl Fn(&TrainerId) -> bool) -> bool {
    matches!(&command.action, Action::Run(run) if is_unstored(&run.trainer))
}

fn log(note: &Note, correlation: &str) {
    match note {
        Note::Admitted { trainer } => tracing::info!(%trainer, correlation, "admitted"),
        Note::Run {
            trainer,
            run,
            before,
            after,
            cause,
        } => {
            tracing::info!(%trainer, run = run.0, before, after, cause, correlation, "run");
        }
        Note::Preempted { trainer, nodes } => {
            tracing::info!(%trainer, nodes, correlation, "preempted");
        }
        Note::Ended {
            trainer,
            phase,
            reason,
        } => tracing::info!(%trainer, phase, reason, correlation, "trainer is over"),
        Note::Failure {
            trainer,
            node,
            failures,
            reason,
            again_in,
        } => {
            let node = node.as_ref().map(ToString::to_string);
            tracing::warn!(%trainer, node, failures, reason, %again_in, correlation, "program failed");
        }
        Note::Probe { trainer, nodes, of } => {
            tracing::info!(%trainer, nodes, of, correlation, "trains on part of its nodes, to measure");
        }
        Note::ProbeEnded { trainer, node_s } => {
            tracing::debug!(%trainer, node_s, correlation, "probe is over");
        }
        // The normal course: its pilot ended for a batch job, and another one comes.
        Note::Unusable {
            node,
            cause: cause @ "left",
        } => tracing::info!(%node, cause, correlation, "node out of use"),
        Note::Unusable { node, cause } => {
            tracing::warn!(%node, cause, correlation, "node out of use");
        }
        Note::Closed {
            node,
            owner,
            length,
        } => {
            tracing::warn!(%node, owner, %length, correlation, "node is slow, or programs fail there that are sound elsewhere: this owner's trainers get it last or not at all");
        }
        Note::Suspect {
            node,
            trainer,
            reason,
            sound_on,
        } => {
            tracing::warn!(%node, %trainer, reason, %sound_on, correlation, "a program failed on this node and is sound on another: perhaps the node is broken");
        }
        Note::Reopened { node } => {
            tracing::info!(%node, correlation, "nothing speaks against the node any more, by an operator");
        }
        Note::NoAgent { node, perhaps } => {
            let perhaps: Vec<&str> = perhaps.iter().map(NodeId::as_str).collect();
            let perhaps = perhaps.join(", ");
            tracing::warn!(%node, perhaps, correlation, "no agent has ever spoken on this node, which a trainer has; these agents speak, which no scheduler has named: is one of them the same node?");
        }
        Note::Slow { node, trainers } => {
            let trainers: Vec<&str> = trainers.iter().map(TrainerId::as_str).collect();
            let trainers = trainers.join(", ");
            tracing::warn!(%node, trainers, correlation, "node is slow: it keeps these trainers waiting in each step");
        }
        Note::Withheld { nodes, by } => {
            let cause = by.name();
            tracing::warn!(nodes, cause, correlation, "nodes in use are given back");
        }
        Note::Usable { node } => tracing::info!(%node, correlation, "node usable again"),
        Note::Released { node, after } => {
            tracing::debug!(%node, %after, correlation, "node given back");
        }
        Note::GivenBack {
            node, cause, harm, ..
        } => {
            tracing::info!(%node, cause, %harm, correlation, "node given back to the main scheduler");
        }
        Note::Broke {
            trainer,
            run,
            said,
            silent,
        } => {
            let run = run.0;
            tracing::info!(%trainer, run, said, silent, correlation, "group broke, another incarnation begins");
        }
        Note::ReleasedUnheard { node } => {
            tracing::warn!(%node, correlation, "release not confirmed, the lease timeout is over");
        }
        Note::PlanApplied {
            generation,
            changed,
            skipped,
        } => {
            tracing::debug!(
                generation = generation.0,
                changed,
                skipped,
                correlation,
                "plan applied"
            );
        }
        Note::PlanRefused { generation, cause } => {
            tracing::debug!(
                generation = generation.0,
                cause,
                correlation,
                "plan refused"
            );
        }
        Note::OtherTerms { node, terms } => {
            let (lease_timeout, grace) = (terms.lease_timeout, terms.grace);
            tracing::warn!(%node, %lease_timeout, %grace, correlation, "the agent may take longer to give its node back than agent.lease_timeout and agent.grace of control say: control waits as long");
        }
        Note::LeaseConflict { node } => {
            tracing::warn!(%node, correlation, "lease differs from the one known");
        }
        Note::LateReport { trainer, run } => {
            tracing::debug!(%trainer, run = run.0, correlation, "late report");
        }
        Note::ForeignReport { trainer, run, node } => {
            tracing::debug!(%trainer, run = run.0, %node, correlation, "report of a node that does not lead the incarnation");
        }
        Note::BadReport { trainer } => {
            tracing::warn!(%trainer, correlation, "report with invalid figures");
        }
        Note::Resent { node } => tracing::debug!(%node, correlation, "command sent again"),
    }
}
