//! Requests of users and operators: checked, done, noted, answered.

use lacuna_model::{NodeId, TrainerId};
use lacuna_runtime::{Received, ServiceError};
use lacuna_trainer::controller::Input;
use lacuna_wire::msg::{ControlsChange, Kept, Reply, Request};

use super::Control;
use crate::access::{Denied, requester};
use crate::archive;
use crate::audit::{self, AuditedRequest};
use crate::executor::ControlsRequest;
use crate::{rate, replies, room, start, store, tickets};

impl Control {
    pub(super) async fn request(&mut self, request: Received<Request>) -> Result<(), ServiceError> {
        let user = requester(&request.subject);
        // Not noted: requests above the rate would fill the audit log as well.
        if let Err(denied) = self.rates.take(&user, self.now().wall) {
            self.effects.metrics.too_fast.inc();
            replies::send(&self.ctx.bus, &request, &denied.into()).await;
            return Ok(());
        }
        match &request.message {
            Request::Submit { .. } => self.submit(&user, request).await,
            Request::Renew { .. } => self.renew(&user, request).await,
            Request::Cancel { .. } => self.cancel(&user, request).await,
            Request::Change { changes } => {
                let changes = changes.clone();
                self.change(&user, &changes, request).await
            }
            Request::Logs {
                trainer,
                lines,
                after,
                since,
                is_raw,
            } => {
                let trainer = trainer.clone();
                let wanted = replies::Wanted {
                    lines: *lines,
                    after: after.clone(),
                    since: *since,
                    is_raw: *is_raw,
                };
                let audited = AuditedRequest {
                    user: user.clone(),
                    action: "logs",
                    target: vec![trainer.to_string()],
                    detail: String::new(),
                };
                match self.may(&user, &trainer).await {
                    Ok(()) => {
                        let accepted = Reply::Accepted {
                            trainers: Vec::new(),
                        };
                        // Nothing is changed: the record is kept when it can be.
                        drop(self.trail.note(audited, &accepted));
                        replies::logs(&self.ctx, &self.controller, request, trainer, wanted);
                    }
                    Err(denied) => {
                        let reply = Reply::from(denied);
                        drop(self.trail.note(audited, &reply));
                        replies::send(&self.ctx.bus, &request, &reply).await;
                    }
                }
                Ok(())
            }
            Request::Page { of, from } => {
                let (of, from, now) = (*of, *from, self.now());
                let (bus, access) = (self.ctx.bus.clone(), self.access.clone());
                let page = match of {
                    Kept::Live => Some(archive::controller_page(
                        &self.controller,
                        from,
                        now,
                        &access,
                        &user,
                    )),
                    Kept::Archive => None,
                };
                lacuna_runtime::task::spawn(async move {
                    let reply = match page {
                        Some(reply) => reply,
                        None => archive::archived_page(&bus, from, now, &access, &user).await,
                    };
                    replies::send(&bus, &request, &reply).await;
                });
                Ok(())
            }
            Request::Trainer { trainer } => {
                let reply = self.trainer(&user, trainer).await;
                replies::send(&self.ctx.bus, &request, &reply).await;
                Ok(())
            }
            Request::Controls => {
                let reply = Reply::Controls(self.controls.current().clone());
                replies::send(&self.ctx.bus, &request, &reply).await;
                Ok(())
            }
            Request::TotalsAt { at } => {
                let whole = || start::whole(&self.controller, self.now());
                let totals = self.days.at(*at).cloned().unwrap_or_else(whole);
                replies::send(&self.ctx.bus, &request, &Reply::Totals(totals)).await;
                Ok(())
            }
            Request::Trainers { .. } | Request::Nodes | Request::Totals => {
                let whole = |record: &_| self.access.may_act_on(&user, record);
                let reply = replies::query(&self.controller, &request.message, self.now(), whole);
                if let Some(reply) = reply {
                    replies::send(&self.ctx.bus, &request, &reply).await;
                }
                Ok(())
            }
        }
    }

    async fn submit(&mut self, user: &str, request: Received<Request>) -> Result<(), ServiceError> {
        let Request::Submit {
            trainers,
            test_only,
            tickets,
        } = &request.message
        else {
            return Ok(());
        };
        let (mut trainers, test_only) = (trainers.clone(), *test_only);
        let mut tickets = tickets.clone();
        let audited = AuditedRequest {
            user: user.to_owned(),
            action: if test_only { "check" } else { "submit" },
            target: trainers.iter().map(|spec| spec.id.to_string()).collect(),
            detail: String::new(),
        };
        let may = rate::few_enough(trainers.len());
        let may = may.and_then(|()| {
            let now = self.ctx.clock.now();
            self.access.submission(user, &mut trainers, now)
        });
        let may = may.and_then(|()| {
            let place = self.ctx.config.control.store.as_deref();
            store::admits(place, &trainers)
        });
        let may = may.and_then(|()| tickets::admit(&self.ctx, &trainers, user, &mut tickets));
        let may = may.and_then(|()| self.effects.room.admits(&trainers, &tickets));
        let names = trainers.iter().map(|spec| &spec.id);
        let may = match may {
            Ok(()) => self.archive.names_are_free(&self.controller, names).await,
            denied => denied,
        };
        let reply = match may {
            Err(denied) => Some(denied.into()),
            Ok(()) => {
                let names: Vec<TrainerId> = trainers.iter().map(|spec| spec.id.clone()).collect();
                let input = Input::Submit {
                    trainers,
                    user: user.to_owned(),
                    tickets,
                    test_only,
                };
                let reply = self.decide(input, &request).await?;
                self.undo(&names, reply.as_ref()).await?;
                reply
            }
        };
        self.finish(audited, reply, request, !test_only);
        Ok(())
    }

    /// Cancels the rest of a submission some of whose records were not kept: all or nothing.
    async fn undo(
        &mut self,
        names: &[TrainerId],
        reply: Option<&Reply>,
    ) -> Result<(), ServiceError> {
        if !matches!(reply, Some(Reply::Refused { code, .. }) if code == room::NO_ROOM) {
            return Ok(());
        }
        for name in names {
            self.input(Input::Cancel(name.clone()), "").await?;
        }
        Ok(())
    }

    async fn renew(&mut self, user: &str, request: Received<Request>) -> Result<(), ServiceError> {
        let Request::Renew { trainer, ticket } = &request.message else {
            return Ok(());
        };
        let (trainer, ticket) = (trainer.clone(), ticket.clone());
        let audited = AuditedRequest {
            user: user.to_owned(),
            action: "renew",
            target: vec![trainer.to_string()],
            detail: String::new(),
        };
        let may = self.may(user, &trainer).await;
        let may = may.and_then(|()| match self.controller.record(&trainer) {
            Some(record) => tickets::renews(&self.ctx, record, user, &ticket),
            // For the controller to refuse.
            None => Ok(()),
        });
        let reply = match may {
            Err(denied) => Some(denied.into()),
            Ok(()) => {
                let input = Input::Renew {
                    trainer: trainer.clone(),
                    ticket,
                };
                let reply = self.decide(input, &request).await?;
                self.if_kept(&trainer, reply)
            }
        };
        self.finish(audited, reply, request, true);
        Ok(())
    }

    async fn cancel(&mut self, user: &str, request: Received<Request>) -> Result<(), ServiceError> {
        let Request::Cancel { trainer } = &request.message else {
            return Ok(());
        };
        let trainer = trainer.clone();
        let audited = AuditedRequest {
            user: user.to_owned(),
            action: "cancel",
            target: vec![trainer.to_string()],
            detail: String::new(),
        };
        let reply = match self.may(user, &trainer).await {
            Err(denied) => Some(denied.into()),
            Ok(()) => {
                let reply = self
                    .decide(Input::Cancel(trainer.clone()), &request)
                    .await?;
                self.if_kept(&trainer, reply)
            }
        };
        self.finish(audited, reply, request, true);
        Ok(())
    }

    /// The reply to a change of a trainer; a refusal while the server does not take its record, since a
    /// restart of control would undo the change.
    fn if_kept(&self, trainer: &TrainerId, reply: Option<Reply>) -> Option<Reply> {
        if !self.effects.is_unkept(trainer) {
            return reply;
        }
        Some(Reply::from(Denied {
            code: room::NO_ROOM,
            reason: format!(
                "the server has no room for the record of trainer {trainer}: the change is in force, and \
                 kept once there is room (`lacuna help L0025`)"
            ),
        }))
    }

    /// Refuses users who may not act on a trainer, and all users for a trainer of the archive. An
    /// unknown trainer is for the controller to refuse.
    async fn may(&self, user: &str, trainer: &TrainerId) -> Result<(), Denied> {
        if let Some(record) = self.controller.record(trainer) {
            return self.access.trainer(user, record);
        }
        match self.archive.find(&self.controller, trainer).await {
            Ok(Some(record)) => Err(replies::archived(&record)),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// One trainer, of the controller or of the archive.
    async fn trainer(&self, user: &str, trainer: &TrainerId) -> Reply {
        let now = self.now();
        if let Some(record) = self.controller.record(trainer) {
            let whole = self.access.may_act_on(user, record);
            return archive::trainer_reply(record.clone(), Kept::Live, now, whole);
        }
        match self.archive.find(&self.controller, trainer).await {
            Ok(Some(record)) => {
                let whole = self.access.may_act_on(user, &record);
                archive::trainer_reply(record, Kept::Archive, now, whole)
            }
            Ok(None) => Reply::from(Denied {
                code: "L0009",
                reason: format!("there is no trainer named {trainer}"),
            }),
            Err(error) => Reply::from(archive::unavailable(&error)),
        }
    }

    /// The controller's reply to an input.
    async fn decide(
        &mut self,
        input: Input,
        request: &Received<Request>,
    ) -> Result<Option<Reply>, ServiceError> {
        let correlation = request.envelope.id.clone();
        let (_, reply) = self.input(input, &correlation).await?;
        Ok(reply.map(replies::outcome))
    }

    async fn change(
        &mut self,
        user: &str,
        changes: &[ControlsChange],
        request: Received<Request>,
    ) -> Result<(), ServiceError> {
        let done = match self.access.operator(user) {
            Ok(()) => {
                let stored = self.stored_changes(changes);
                if stored.is_empty() && !changes.is_empty() {
                    Ok(self.controls.current().clone())
                } else {
                    self.controls.change(&stored, user).await
                }
            }
            Err(denied) => Err(denied),
        };
        let reply = match done {
            Ok(controls) => {
                let undrained = changes.iter().filter_map(|change| match change {
                    ControlsChange::Undrain { nodes } => Some(nodes),
                    _ => None,
                });
                let opened: Vec<NodeId> = undrained.flatten().cloned().collect();
                if !opened.is_empty() {
                    self.input(Input::Reopen(opened), "").await?;
                }
                self.apply_controls().await?;
                self.publish_use().await;
                Reply::Controls(controls)
            }
            Err(denied) => denied.into(),
        };
        let mut kept = Vec::new();
        for audited in audit::changes(user, changes) {
            kept.push(self.trail.note(audited, &reply));
        }
        let bus = self.ctx.bus.clone();
        lacuna_runtime::task::spawn(async move {
            futures::future::join_all(kept).await;
            replies::send(&bus, &request, &reply).await;
        });
        Ok(())
    }

    /// The changes of the controls. A node that is not drained may have something against it all the
    /// same, which is lifted without a change of the controls.
    fn stored_changes(&self, changes: &[ControlsChange]) -> Vec<ControlsChange> {
        let drained = &self.controls.current().drained;
        let is_stored = |change: &&ControlsChange| match change {
            ControlsChange::Undrain { nodes } => {
                nodes.iter().any(|node| drained.contains_key(node))
                    || !self.controller.speaks_against_any(nodes, self.now())
            }
            _ => true,
        };
        changes.iter().filter(is_stored).cloned().collect()
    }

    /// Stores the controls that an operator set at the executor of pilots.
    pub(super) async fn store_controls(
        &mut self,
        request: ControlsRequest,
    ) -> Result<(), ServiceError> {
        let kept = self.controls.change(&[request.change], &request.by).await;
        let _ = request.answer.send(kept.map(|controls| controls.version));
        self.apply_controls().await
    }

    /// Notes the outcome of a request and answers it, beside the loop: the record may take a
    /// while.
    fn finish(
        &self,
        audited: AuditedRequest,
        reply: Option<Reply>,
        request: Received<Request>,
        changes: bool,
    ) {
        // The controller answers every submission and cancellation.
        let reply = reply.unwrap_or_else(|| {
            Reply::from(Denied {
                code: "L0013",
                reason: "control has no answer to this".to_owned(),
            })
        });
        let kept = self.trail.note(audited, &reply);
        let bus = self.ctx.bus.clone();
        lacuna_runtime::task::spawn(async move {
            if changes {
                kept.await;
            }
            replies::send(&bus, &request, &reply).await;
        });
    }

    /// Gives the operator's limits to the controller, if they have changed.
    pub(super) async fn apply_controls(&mut self) -> Result<(), ServiceError> {
        if let Some(wanted) = self.controls.take_change() {
            tracing::info!(
                version = wanted.version,
                drained = wanted.drained.len(),
                at_most = wanted.at_most.map(|(most, _)| most),
                keep_idle = wanted.keep_idle,
                no_growth = wanted.no_growth.is_some(),
                "limits of the use of nodes"
            );
            self.input(Input::Controls(wanted), "").await?;
        }
        Ok(())
    }

    /// Publishes the use of nodes under the controls.
    pub(super) async fn publish_use(&mut self) {
        let state = self.controls.publish_use(self.controller.node_use()).await;
        self.effects.metrics.node_use(state);
    }
}
