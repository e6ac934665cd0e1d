//! The operator's controls: `model::Controls` (a pause, drained nodes, lists of nodes, a cap,
//! windows of time), one message on `lacuna.v1.c.controls` that control alone writes.
//!
//! - A change is checked (`trainer::controls::change`), stored by compare-and-set, applied, noted,
//!   and only then answered. A change that is not known to be stored is refused. If the server has
//!   it all the same, control adopts it at its next comparison (ten seconds).
//! - A start waits until the controls have been read. Controls that cannot be read are not
//!   taken for none.
//! - While control runs, a server that has lost the controls gets them again. If server and control
//!   lose them together, no limit holds any more. But then no trainer is known either, and no
//!   node is used before a submission.
//! - The resulting use of nodes is published as `UseState`, for displays and for the executor of
//!   pilots.

use std::time::Duration;

use jiff::tz::TimeZone;
use lacuna_model::{
    Controls, ControlsChange, Pause, Span, Timestamp, UseLimit, UseState, WithheldBy,
};
use lacuna_runtime::clock::wall;
use lacuna_runtime::{Bus, BusError, HealthCheck, Newest, ServiceError, Stopwatch};
use lacuna_trainer::controller::Use;
use lacuna_trainer::controls::{self, Rules, Wanted};
use lacuna_wire::address;

use crate::access::Denied;
use crate::sections::Context;

/// Between attempts to read the controls.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Seconds between comparisons with the controls on the bus.
const CHECK_S: f64 = 10.0;
/// Time limit of one comparison.
const CHECK_LIMIT: Duration = Duration::from_secs(1);
/// Seconds between publications of an unchanged use of nodes.
const REPEAT_S: f64 = 30.0;
/// Attempts to store one change.
const ATTEMPTS: usize = 4;

/// The operator's controls, as stored on the bus.
#[derive(Debug)]
pub(crate) struct ControlsStore {
    bus: Bus,
    local: TimeZone,
    rules: Rules,
    /// Sequence number of the message with the controls; 0 if there is none.
    sequence: u64,
    /// The limits that the controller had last.
    applied: Option<Wanted>,
    checked: Stopwatch,
    published: Option<(UseState, Stopwatch)>,
    health: HealthCheck,
}

impl ControlsStore {
    /// Reads the controls, and waits until they can be read.
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
                    let text = format!("the operator's controls cannot be read: {error}");
                    tracing::error!(%error, "waiting: the operator's controls cannot be read");
                    health.fail(text);
                }
            }
            tokio::select! {
                biased;
                () = ctx.shutdown.cancelled() => return Err("stopped before it began".into()),
                () = tokio::time::sleep(RETRY_AFTER) => {}
            }
        };
        let sequence = found.sequence();
        let controls = match found {
            Newest::Decoded(found) => found.message,
            Newest::Nothing => Controls::default(),
            Newest::Unreadable { .. } => pause_for_unreadable(wall()),
        };
        tracing::info!(version = controls.version, "controls read");
        let local = TimeZone::system();
        Ok(Self {
            bus: ctx.bus.clone(),
            rules: Rules::new(controls, &local),
            local,
            sequence,
            applied: None,
            checked: Stopwatch::start(),
            published: None,
            health,
        })
    }

    /// The controls in force.
    pub(crate) fn current(&self) -> &Controls {
        self.rules.controls()
    }

    fn adopt(&mut self, controls: Controls, sequence: u64) {
        self.rules = Rules::new(controls, &self.local);
        self.sequence = sequence;
    }

    /// Changes the controls, and returns them as they are now stored.
    ///
    /// # Errors
    /// L0023 if the change is not valid, L0024 if it is not known to be stored.
    pub(crate) async fn change(
        &mut self,
        changes: &[ControlsChange],
        by: &str,
    ) -> Result<Controls, Denied> {
        let subject = address::controls(self.bus.cluster());
        let mut unstored = String::new();
        for _ in 0..ATTEMPTS {
            let next = controls::change(self.current(), changes, by, wall(), &self.local);
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
                Err(error) => unstored = error.to_string(),
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
                Err(error) => unstored = error.to_string(),
            }
        }
        Err(Denied {
            code: "L0024",
            reason: format!(
                "nats-server has not confirmed that it keeps the change, so nothing was done: \
                 {unstored}"
            ),
        })
    }

    /// Compares with the controls on the bus, from time to time or `at_once`. Stores them again if
    /// the bus has lost them, and adopts newer ones.
    pub(crate) async fn check_stored(&mut self, at_once: bool) {
        if !self.bus.connected() || !(at_once || self.checked.seconds() >= CHECK_S) {
            return;
        }
        self.checked = Stopwatch::start();
        match tokio::time::timeout(CHECK_LIMIT, self.compare()).await {
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
        let mine = self.current().version;
        if let Some(controls) = found
            && version > mine
        {
            // A change whose outcome was not known.
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
                "the server has lost the controls or holds unreadable ones, stored again"
            );
            let controls = self.current().clone();
            self.sequence = self
                .bus
                .store_after(&subject, &controls, "", sequence)
                .await?;
        } else {
            self.sequence = sequence;
        }
        Ok(())
    }

    /// The limits for the controller, if they have changed since the last call.
    pub(crate) fn take_change(&mut self) -> Option<Wanted> {
        let wanted = self.rules.at(wall());
        if self.applied.as_ref() == Some(&wanted) {
            return None;
        }
        self.applied = Some(wanted.clone());
        Some(wanted)
    }

    /// Time until the limits change by themselves.
    pub(crate) fn due(&self) -> Option<Span> {
        let now = wall();
        self.rules.next_change(now).map(|at| at.since(now))
    }

    /// Publishes the use of nodes if it has changed or was not published for [`REPEAT_S`].
    pub(crate) async fn publish_use(&mut self, used: Use) -> &UseState {
        let now = wall();
        let (fresh, again) = match &self.published {
            None => (self.state(used, now), true),
            Some((published, since)) => {
                let mut fresh = self.state(used, published.at);
                let again = fresh != *published || since.seconds() >= REPEAT_S;
                fresh.at = now;
                (fresh, again)
            }
        };
        if again {
            let subject = address::use_state(self.bus.cluster());
            if let Err(error) = self.bus.store_later(&subject, &fresh, "").await {
                tracing::warn!(%error, "use of nodes not published");
            }
            self.update_health(&fresh);
        }
        let since = match &self.published {
            Some((_, since)) if !again => *since,
            _ => Stopwatch::start(),
        };
        &self.published.insert((fresh, since)).0
    }

    fn state(&self, used: Use, at: Timestamp) -> UseState {
        let now = wall();
        let wanted = self.rules.at(now);
        UseState {
            version: wanted.version,
            at,
            at_most: [wanted.at_most.map(|(most, _)| most), used.at_most]
                .into_iter()
                .flatten()
                .min(),
            no_growth: wanted.no_growth.is_some(),
            limits: self.rules.limits(now),
            next: self.rules.next_change(now),
            used: used.used,
            withheld: used.withheld,
            down: used.down,
        }
    }

    fn update_health(&self, state: &UseState) {
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

/// The controls when an unreadable message has overwritten them: no growth until an operator
/// resumes. Nodes that were stopped or drained before stay out of use.
fn pause_for_unreadable(now: Timestamp) -> Controls {
    let reason = "an unreadable message has overwritten the controls; check whether nodes are to be \
                  drained or limited, then resume";
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
