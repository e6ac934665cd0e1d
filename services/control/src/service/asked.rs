//! What users and operators ask for: checked, done, noted, answered.

use lacuna_model::TrainerId;
use lacuna_runtime::{Received, ServiceError};
use lacuna_trainer::controller::Input;
use lacuna_wire::msg::{ControlsChange, Kept, Reply, Request};

use super::Control;
use crate::access::{Denied, asker};
use crate::archive;
use crate::audit::{self, Asked};
use crate::executor::Wish;
use crate::{rate, requests};

impl Control {
    pub(super) async fn request(&mut self, request: Received<Request>) -> Result<(), ServiceError> {
        let user = asker(&request.subject);
        // Nothing of it is noted: who asks too fast would fill the audit log as well.
        if let Err(denied) = self.rates.take(&user, self.now().wall) {
            self.hands.metrics.too_fast.inc();
            requests::answer(&self.ctx.bus, &request, &denied.into()).await;
            return Ok(());
        }
        match &request.message {
            Request::Submit { .. } => self.submit(&user, request).await,
            Request::Cancel { .. } => self.cancel(&user, request).await,
            Request::Change { changes } => {
                let changes = changes.clone();
                self.change(&user, &changes, request).await
            }
            Request::Logs { trainer, lines } => {
                let (trainer, lines) = (trainer.clone(), *lines);
                let asked = Asked {
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
                        drop(self.trail.note(asked, &accepted));
                        requests::logs(&self.ctx, &self.book, request, &trainer, lines);
                    }
                    Err(denied) => {
                        let reply = Reply::from(denied);
                        drop(self.trail.note(asked, &reply));
                        requests::answer(&self.ctx.bus, &request, &reply).await;
                    }
                }
                Ok(())
            }
            Request::Page { of, from } => {
                let (of, from, now) = (*of, *from, self.now());
                let (bus, access) = (self.ctx.bus.clone(), self.access.clone());
                let books = match of {
                    Kept::Books => Some(archive::books(&self.book, from, now, &access, &user)),
                    Kept::Archive => None,
                };
                lacuna_runtime::task::spawn(async move {
                    let reply = match books {
                        Some(reply) => reply,
                        None => archive::page(&bus, from, now, &access, &user).await,
                    };
                    requests::answer(&bus, &request, &reply).await;
                });
                Ok(())
            }
            Request::Trainer { trainer } => {
                let reply = self.trainer(&user, trainer).await;
                requests::answer(&self.ctx.bus, &request, &reply).await;
                Ok(())
            }
            Request::Controls => {
                let reply = Reply::Controls(self.desk.controls().clone());
                requests::answer(&self.ctx.bus, &request, &reply).await;
                Ok(())
            }
            Request::Trainers { .. } | Request::Nodes | Request::Totals => {
                let whole = |record: &_| self.access.may_act_on(&user, record);
                let reply = requests::look(&self.book, &request.message, self.now(), whole);
                if let Some(reply) = reply {
                    requests::answer(&self.ctx.bus, &request, &reply).await;
                }
                Ok(())
            }
        }
    }

    async fn submit(&mut self, user: &str, request: Received<Request>) -> Result<(), ServiceError> {
        let Request::Submit {
            trainers,
            test_only,
        } = &request.message
        else {
            return Ok(());
        };
        let (mut trainers, test_only) = (trainers.clone(), *test_only);
        let asked = Asked {
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
        let may = may.and_then(|()| self.hands.room.admits(&trainers));
        let names = trainers.iter().map(|spec| &spec.id);
        let may = match may {
            Ok(()) => self.archive.names_are_free(&self.book, names).await,
            denied => denied,
        };
        let reply = match may {
            Err(denied) => Some(denied.into()),
            Ok(()) => {
                let input = Input::Submit {
                    trainers,
                    user: user.to_owned(),
                    test_only,
                };
                self.decide(input, &request).await?
            }
        };
        self.finish(asked, reply, request, !test_only);
        Ok(())
    }

    async fn cancel(&mut self, user: &str, request: Received<Request>) -> Result<(), ServiceError> {
        let Request::Cancel { trainer } = &request.message else {
            return Ok(());
        };
        let trainer = trainer.clone();
        let asked = Asked {
            user: user.to_owned(),
            action: "cancel",
            target: vec![trainer.to_string()],
            detail: String::new(),
        };
        let reply = match self.may(user, &trainer).await {
            Err(denied) => Some(denied.into()),
            Ok(()) => self.decide(Input::Cancel(trainer), &request).await?,
        };
        self.finish(asked, reply, request, true);
        Ok(())
    }

    /// Refuses who may not act on a trainer, and everybody for one that is in the archive. Of one
    /// that there is not the books say so.
    async fn may(&self, user: &str, trainer: &TrainerId) -> Result<(), Denied> {
        if let Some(record) = self.book.record(trainer) {
            return self.access.trainer(user, record);
        }
        match self.archive.find(&self.book, trainer).await {
            Ok(Some(record)) => Err(requests::archived(&record)),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// One trainer, of the books or of the archive.
    async fn trainer(&self, user: &str, trainer: &TrainerId) -> Reply {
        let now = self.now();
        if let Some(record) = self.book.record(trainer) {
            let whole = self.access.may_act_on(user, record);
            return archive::one(record.clone(), Kept::Books, now, whole);
        }
        match self.archive.find(&self.book, trainer).await {
            Ok(Some(record)) => {
                let whole = self.access.may_act_on(user, &record);
                archive::one(record, Kept::Archive, now, whole)
            }
            Ok(None) => Reply::from(Denied {
                code: "L0009",
                reason: format!("there is no trainer named {trainer}"),
            }),
            Err(error) => Reply::from(archive::silent(&error)),
        }
    }

    /// What the books say.
    async fn decide(
        &mut self,
        input: Input,
        request: &Received<Request>,
    ) -> Result<Option<Reply>, ServiceError> {
        let correlation = request.envelope.id.clone();
        let (_, reply) = self.input(input, &correlation).await?;
        Ok(reply.map(requests::outcome))
    }

    async fn change(
        &mut self,
        user: &str,
        changes: &[ControlsChange],
        request: Received<Request>,
    ) -> Result<(), ServiceError> {
        let done = match self.access.operator(user) {
            Ok(()) => self.desk.change(changes, user).await,
            Err(denied) => Err(denied),
        };
        let reply = match done {
            Ok(controls) => {
                self.obey().await?;
                self.say_use().await;
                Reply::Controls(controls)
            }
            Err(denied) => denied.into(),
        };
        let mut kept = Vec::new();
        for asked in audit::changes(user, changes) {
            kept.push(self.trail.note(asked, &reply));
        }
        let bus = self.ctx.bus.clone();
        lacuna_runtime::task::spawn(async move {
            futures::future::join_all(kept).await;
            requests::answer(&bus, &request, &reply).await;
        });
        Ok(())
    }

    /// Keeps what an operator said to the executor of pilots.
    pub(super) async fn wish(&mut self, wish: Wish) -> Result<(), ServiceError> {
        let kept = self.desk.change(&[wish.change], &wish.by).await;
        let _ = wish.answer.send(kept.map(|controls| controls.version));
        self.obey().await
    }

    /// Notes what came of a request and answers it, beside the loop: the record may take its
    /// time.
    fn finish(
        &self,
        asked: Asked,
        reply: Option<Reply>,
        request: Received<Request>,
        changes: bool,
    ) {
        // The books answer every submission and cancellation.
        let reply = reply.unwrap_or_else(|| {
            Reply::from(Denied {
                code: "L0013",
                reason: "control has no answer to this".to_owned(),
            })
        });
        let kept = self.trail.note(asked, &reply);
        let bus = self.ctx.bus.clone();
        lacuna_runtime::task::spawn(async move {
            if changes {
                kept.await;
            }
            requests::answer(&bus, &request, &reply).await;
        });
    }

    /// Tells the books what the operator wants now, if that is new.
    pub(super) async fn obey(&mut self) -> Result<(), ServiceError> {
        if let Some(wanted) = self.desk.news() {
            tracing::info!(
                version = wanted.version,
                drained = wanted.drained.len(),
                at_most = wanted.at_most.map(|(most, _)| most),
                no_growth = wanted.no_growth.is_some(),
                "the use of nodes is limited so"
            );
            self.input(Input::Controls(wanted), "").await?;
        }
        Ok(())
    }

    /// Says what comes of it.
    pub(super) async fn say_use(&mut self) {
        let state = self.desk.say(self.book.node_use()).await;
        self.hands.metrics.node_use(state);
    }
}
