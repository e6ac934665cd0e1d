//! What the operator wants: `model::Controls` (a pause, drained nodes, lists of nodes, a cap,
//! windows of time), one message on `lacuna.v1.c.controls` that control alone writes.
//!
//! - A change is checked (`trainer::controls::change`), stored by compare-and-set, obeyed, noted,
//!   and only then answered. A change that is not known to be stored is refused. If the server has
//!   it all the same, control takes it up at its next look (ten seconds).
//! - A start waits until the controls have been read. Controls that cannot be understood are not
//!   taken for none.
//! - While control runs, a server that has lost the controls gets them again. If server and control
//!   lose them together, nothing is wanted any more. But then no trainer is known either, and no
//!   node is used before a submission.
//! - What comes of it is published as `UseState`, for whoever shows it and for the executor of
//!   pilots.

use std::time::Duration;

use jiff::tz::TimeZone;
use lacuna_model::{
    Controls, ControlsChange, Pause, Span, Timestamp, UseLimit, UseState, WithheldBy,
};
use lacuna_runtime::clock::wall;
use lacuna_runtime::{Bus, BusError, Context, HealthCheck, Newest, ServiceError, Stopwatch};
use lacuna_trainer::controller::Use;
use lacuna_trainer::controls::{self, Rules, Wanted};
use lacuna_wire::address;

use crate::access::Denied;

/// Between attempts to read what is wanted.
const AGAIN: Duration = Duration::from_secs(1);
/// Between looks at whether the bus still has it.
const LOOK_S: f64 = 10.0;
/// A look takes no longer.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
/// What comes of it is said this often, also if it is the same.
const REPEAT_S: f64 = 30.0;
/// How often a change is tried.
const ATTEMPTS: usize = 4;

/// What the operator wants.
#[derive(Debug)]
pub(crate) struct Desk {
    bus: Bus,
    local: TimeZone,
    rules: Rules,
    /// The number of the message that keeps it; 0 if there is none.
    sequence: u64,
    /// What the books were told last.
    told: Option<Wanted>,
    looked: Stopwatch,
    said: Option<(UseState, Stopwatch)>,
    health: HealthCheck,
}

impl Desk {
    /// Reads what is wanted, and waits until it can be read.
    ///
    /// # Errors
    /// If control is stopped meanwhile.
    pub(crate) async fn open(ctx: &Context) -> Result<Self, ServiceError> {
        let health = ctx.health.check("controls", None);
        let subject = address::controls(&ctx.cluster);
        let found = loop {
            match ctx.bus.newest(&subject).await {
                Ok(found) => break found,
                Err(error) => {
                    let text = format!("what the operator wants cannot be read: {error}");
                    tracing::error!(%error, "waiting: what the operator wants cannot be read");
                    health.fail(text);
                }
            }
            tokio::select! {
                biased;
                () = ctx.shutdown.cancelled() => return Err("stopped before it began".into()),
                () = tokio::time::sleep(AGAIN) => {}
            }
        };
        let sequence = found.sequence();
        let controls = match found {
            Newest::Decoded(found) => found.message,
            Newest::Nothing => Controls::default(),
            Newest::Unreadable { .. } => lost(wall()),
        };
        tracing::info!(version = controls.version, "controls read");
        let local = TimeZone::system();
        Ok(Self {
            bus: ctx.bus.clone(),
            rules: Rules::new(controls, &local),
            local,
            sequence,
            told: None,
            looked: Stopwatch::start(),
            said: None,
            health,
        })
    }

    /// What is wanted.
    pub(crate) fn controls(&self) -> &Controls {
        self.rules.controls()
    }

    fn adopt(&mut self, controls: Controls, sequence: u64) {
        self.rules = Rules::new(controls, &self.local);
        self.sequence = sequence;
    }

    /// Changes what is wanted, and gives it as it is now kept.
    pub(crate) async fn change(
        &mut self,
        changes: &[ControlsChange],
        by: &str,
    ) -> Result<Controls, Denied> {
        let subject = address::controls(self.bus.cluster());
        let mut unkept = String::new();
        for _ in 0..ATTEMPTS {
            let next = controls::change(self.controls(), changes, by, wall(), &self.local);
            let next = next.map_err(|error| Denied {
                code: "L0023",
                reason: error.to_string(),
            })?;
            match self
                .bus
                .store_after(&subject, &next, "", self.sequence)
                .await
            {
                Ok(sequence) => {
                    self.adopt(next.clone(), sequence);
                    return Ok(next);
                }
                Err(error) => unkept = error.to_string(),
            }
            // Another number than expected, or an acknowledgement that was lost: what is there?
            match self.bus.newest(&subject).await {
                Ok(Newest::Decoded(found)) if found.message == next => {
                    self.adopt(next.clone(), found.sequence);
                    return Ok(next);
                }
                Ok(Newest::Decoded(found)) if found.message.version >= next.version => {
                    self.adopt(found.message, found.sequence);
                }
                Ok(found) => self.sequence = found.sequence(),
                Err(error) => unkept = error.to_string(),
            }
        }
        Err(Denied {
            code: "L0024",
            reason: format!(
                "nats-server has not confirmed that it keeps the change, so nothing was done: \
                 {unkept}"
            ),
        })
    }

    /// Looks, now and then or `at_once`, whether the bus has what is wanted, and repeats it if
    /// not.
    pub(crate) async fn look(&mut self, at_once: bool) {
        if !self.bus.connected() || !(at_once || self.looked.seconds() >= LOOK_S) {
            return;
        }
        self.looked = Stopwatch::start();
        match tokio::time::timeout(LOOK_LIMIT, self.compare()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the controls cannot be compared"),
            Err(_) => tracing::warn!("the controls cannot be compared in time"),
        }
    }

    async fn compare(&mut self) -> Result<(), BusError> {
        let subject = address::controls(self.bus.cluster());
        let newest = self.bus.newest(&subject).await?;
        let sequence = newest.sequence();
        let found = newest.decoded().map(|found| found.message);
        let version = found.as_ref().map_or(0, |controls| controls.version);
        let mine = self.controls().version;
        if let Some(controls) = found
            && version > mine
        {
            // A change of which the outcome was not known.
            tracing::warn!(
                version,
                known = mine,
                "controls are newer than known, taken up"
            );
            self.adopt(controls, sequence);
        } else if version < mine {
            tracing::warn!(
                version,
                known = mine,
                "the server has lost the controls or has what is none, kept again"
            );
            let controls = self.controls().clone();
            self.sequence = self
                .bus
                .store_after(&subject, &controls, "", sequence)
                .await?;
        } else {
            self.sequence = sequence;
        }
        Ok(())
    }

    /// What the books are to be told, if that is not what they know.
    pub(crate) fn news(&mut self) -> Option<Wanted> {
        let wanted = self.rules.at(wall());
        if self.told.as_ref() == Some(&wanted) {
            return None;
        }
        self.told = Some(wanted.clone());
        Some(wanted)
    }

    /// How long until what holds changes by itself.
    pub(crate) fn due(&self) -> Option<Span> {
        let now = wall();
        self.rules.next_change(now).map(|at| at.since(now))
    }

    /// Says what comes of it, if it is new or has not been said for a while.
    pub(crate) async fn say(&mut self, used: Use) -> &UseState {
        let now = wall();
        let (fresh, again) = match &self.said {
            None => (self.state(used, now), true),
            Some((said, since)) => {
                let mut fresh = self.state(used, said.at);
                let again = fresh != *said || since.seconds() >= REPEAT_S;
                fresh.at = now;
                (fresh, again)
            }
        };
        if again {
            let subject = address::use_state(self.bus.cluster());
            if let Err(error) = self.bus.store_later(&subject, &fresh, "").await {
                tracing::warn!(%error, "what comes of the controls was not said");
            }
            self.tell_health(&fresh);
        }
        let since = match &self.said {
            Some((_, since)) if !again => *since,
            _ => Stopwatch::start(),
        };
        &self.said.insert((fresh, since)).0
    }

    fn state(&self, used: Use, at: Timestamp) -> UseState {
        let now = wall();
        let wanted = self.rules.at(now);
        UseState {
            version: wanted.version,
            at,
            at_most: wanted.at_most.map(|(most, _)| most),
            no_growth: wanted.no_growth.is_some(),
            limits: self.rules.limits(now),
            next: self.rules.next_change(now),
            used: used.used,
            withheld: used.withheld,
        }
    }

    fn tell_health(&self, state: &UseState) {
        let drained = state.withheld.get(&WithheldBy::Drained).map_or(0, Vec::len);
        let mut notes: Vec<String> = Vec::new();
        match state.at_most {
            Some(0) => notes.push("no node is used".to_owned()),
            Some(most) => notes.push(format!("at most {most} nodes are used")),
            None => {}
        }
        if state.no_growth {
            notes.push("no further node is taken".to_owned());
        }
        let why = state.limits.iter().map(|limit| match limit.note.as_str() {
            "" => limit.by.name().to_owned(),
            note => format!("{} {note}", limit.by.name()),
        });
        notes.extend(why);
        if drained > 0 {
            notes.push(format!("{drained} nodes are drained"));
        }
        if notes.is_empty() {
            self.health.ok();
        } else {
            self.health.ok_but(notes.join("; "));
        }
    }
}

/// What holds when what the operator wanted has been overwritten by something that is none: nothing
/// grows until somebody has looked. What he had stopped or drained stays as it is.
fn lost(now: Timestamp) -> Controls {
    let reason = "what was wanted before was overwritten by what cannot be read; look whether nodes \
                  are to be drained or limited, then resume";
    Controls {
        // Newer than whatever it was.
        version: u64::try_from(now.unix_ms()).unwrap_or_default(),
        pause: Some(Pause {
            limit: UseLimit::NoGrowth,
            until: None,
            by: "control".to_owned(),
            since: now,
            reason: reason.to_owned(),
        }),
        ..Controls::default()
    }
}
