//! Leadership: one active instance of ingest, forecast, planner and control. Further instances are
//! standbys: connected, healthy, without work. Agents are not led (a lock and the lease's epoch do
//! it), nor is the gateway, which only listens.
//!
//! The lead is the newest [`Leader`] message of the service on `lacuna.v1.c.leader.<service>`,
//! written by compare-and-set on the number of the one before. The active instance renews it three
//! times within its length (`cluster.lead`).
//!
//! - **Takeover.** A standby takes the lead when the number of the newest message has not changed
//!   for the length that the message names. It measures by its own clock, from when it first saw
//!   that number, and a suspension of the machine does not stop this clock. No clocks are compared.
//!   The active one's time starts when it *sends* a renewal, so it has stopped writing
//!   (`bus::gate`) by then.
//! - **At once.** A standby takes at once a lead that was resigned, and one whose seat (machine
//!   since its start, network namespace, bound address) the standby has bound itself: that instance
//!   is gone.
//! - **Loss.** An instance that loses the lead to another ends. One whose loop stands still for
//!   `cluster.still` resigns.
//! - **Outage.** While the server is away the lead cannot be taken. An instance that renews too
//!   late and finds no newer lead goes on: its messages of the meantime are lost, so the bus counts
//!   a new connection and all is repaired as after an outage.

use std::net::SocketAddr;
use std::time::Duration;

use lacuna_model::{Span, Timestamp};
use lacuna_wire::msg::Leader;
use lacuna_wire::{Subject, address};
use prometheus::{IntCounter, IntGauge, Registry};
use tokio_util::sync::CancellationToken;

use crate::bus::{Bus, BusError, Link, Newest, Received};
use crate::clock::{Stopwatch, wall};
use crate::http::{Health, HealthCheck};
use crate::metrics;

/// Services of which one instance is active.
const LED: [&str; 4] = ["ingest", "forecast", "planner", "control"];

/// Looks for the lead within its length.
const LOOKS: u32 = 12;

/// Renewals of the lead within its length.
const RENEWALS: u32 = 3;

/// The check of a service's health that tells whether its loop turns.
pub const LOOP: &str = "loop";

/// In so many looks in a row the loop must have stood still: a process that was stopped has not had
/// the time to turn it when it is first looked at.
const STILL: u32 = 4;

/// Whether one instance of a service is active, and others stand by.
#[must_use]
pub fn is_led(service: &str) -> bool {
    LED.contains(&service)
}

/// Where this process runs: machine since its start, network namespace, and the address that it
/// has bound. Two processes that live have never the same.
#[must_use]
pub fn seat(listening: SocketAddr) -> String {
    use std::os::unix::fs::MetadataExt;
    let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let network = std::fs::metadata("/proc/self/ns/net").map(|m| m.ino());
    match (machine, network) {
        (Ok(machine), Ok(network)) => format!("{}/{network}/{listening}", machine.trim()),
        // Nobody's place, so that nobody is taken for gone.
        _ => format!("unknown/{:032x}", crate::virtual_time::unique()),
    }
}

/// Declares the metrics alone, so that a service's golden exposition can include them.
///
/// # Errors
/// If a name is taken.
pub fn declare_metrics(registry: &Registry) -> Result<(), prometheus::Error> {
    declare(registry).map(|_| ())
}

fn declare(registry: &Registry) -> Result<(IntGauge, IntCounter), prometheus::Error> {
    Ok((
        metrics::gauge(
            registry,
            "lacuna_leader",
            "whether this instance is the active one of its service (1), or stands by (0)",
        )?,
        metrics::counter(
            registry,
            "lacuna_leader_changes_total",
            "times that another instance of the service became the active one, as seen by this one",
        )?,
    ))
}

/// Why the lead is lost.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LostLead {
    /// Another has it.
    #[error("the lead is lost: {instance} at {seat} is the active instance now")]
    Taken {
        /// Who.
        instance: String,
        /// Where.
        seat: String,
    },
    /// The service's loop stands still, and another instance may do better.
    #[error("the lead is given up: the service's loop has not turned for {seconds:.0} s")]
    StandsStill {
        /// Since it last turned.
        seconds: f64,
    },
}

/// What a standby has seen of the active instance. `now` is the time on its own clock.
#[derive(Debug, Default)]
struct Watch {
    /// The number of the newest message, and when it was first seen; 0 for none.
    seen: Option<(u64, Duration)>,
    /// Who wrote it.
    instance: String,
}

/// What to do about what has been seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Write after the message of this number.
    Take(u64),
    /// Another leads.
    Wait,
}

impl Watch {
    /// Judges what stands there. `seat` is the own place, `ttl` the own length of a lead.
    fn judge(
        &mut self,
        found: &Newest<(u64, &Leader)>,
        seat: &str,
        ttl: Duration,
        now: Duration,
    ) -> Verdict {
        let (number, ttl) = match *found {
            Newest::Nothing if self.seen.is_none() => return Verdict::Take(0),
            // A server that has lost all. Whoever led has the first word.
            Newest::Nothing => (0, ttl),
            // So he has about what cannot be understood: he writes over it.
            Newest::Unreadable { sequence } => (sequence, ttl),
            Newest::Understood((number, leader)) => {
                if leader.resigned || leader.seat == seat {
                    return Verdict::Take(number);
                }
                (number, Duration::from_millis(leader.ttl_ms))
            }
        };
        match self.seen {
            Some((seen, since)) if seen == number => {
                if now.saturating_sub(since) >= ttl {
                    Verdict::Take(number)
                } else {
                    Verdict::Wait
                }
            }
            _ => {
                self.seen = Some((number, now));
                Verdict::Wait
            }
        }
    }

    /// The server was away: whoever led could not say so.
    fn begin_anew(&mut self, now: Duration) {
        if let Some((_, since)) = &mut self.seen {
            *since = now;
        }
    }

    /// Whether another instance leads than the last time.
    fn changed(&mut self, leader: &Leader) -> bool {
        let before = std::mem::replace(&mut self.instance, leader.instance.clone());
        !before.is_empty() && before != leader.instance
    }
}

/// A standby.
#[derive(Debug)]
pub struct Candidate {
    bus: Bus,
    subject: Subject<Leader>,
    seat: String,
    terms: Terms,
    health: Health,
    check: HealthCheck,
    active: IntGauge,
    changes: IntCounter,
}

/// How long a lead lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// From each renewal.
    pub lead: Duration,
    /// While the check [`LOOP`] says nothing.
    pub still: Duration,
}

impl Candidate {
    /// Stands by at this place, as [`seat`] gives it.
    ///
    /// # Errors
    /// If a metric's name is taken.
    pub fn new(
        bus: &Bus,
        seat: String,
        terms: Terms,
        registry: &Registry,
        health: &Health,
    ) -> Result<Self, prometheus::Error> {
        let (active, changes) = declare(registry)?;
        // Nothing goes out before the lead is taken.
        bus.write_within(Stopwatch::start(), Duration::ZERO);
        Ok(Self {
            bus: bus.clone(),
            subject: address::leader(bus.cluster(), bus.service()),
            seat,
            terms,
            health: health.clone(),
            check: health.check("lead", None),
            active,
            changes,
        })
    }

    /// Waits until this instance is the active one.
    pub async fn wait(self) -> Lead {
        let clock = Stopwatch::start();
        let mut watch = Watch::default();
        let mut generation = self.bus.link().now().generation;
        let mut attempt = Stopwatch::start();
        let mut said = false;
        loop {
            let link: Link = self.bus.link().now();
            if link.generation != generation {
                generation = link.generation;
                watch.begin_anew(clock.span().to_std());
            }
            let looked =
                tokio::time::timeout(self.terms.lead, self.bus.newest(&self.subject)).await;
            if let Ok(Err(error @ BusError::Decode { .. })) = &looked {
                self.check.ok_but(format!("standby: {error}"));
            }
            if let Ok(Ok(found)) = looked {
                let found = found
                    .as_ref()
                    .map(|f: &Received<Leader>| (f.sequence, &f.message));
                let newest = match found {
                    Newest::Understood(newest) => Some(newest),
                    Newest::Nothing | Newest::Unreadable { .. } => None,
                };
                if let Some((number, leader)) = newest
                    && leader.instance == self.bus.instance()
                {
                    // The answer to the last attempt was lost.
                    let since = leader.since;
                    return Lead::new(self, number, since, attempt);
                }
                if newest.is_some_and(|(_, leader)| watch.changed(leader)) {
                    self.changes.inc();
                    said = false;
                }
                match watch.judge(&found, &self.seat, self.terms.lead, clock.span().to_std()) {
                    Verdict::Take(number) => {
                        attempt = Stopwatch::start();
                        // Later than the lead before it, whatever the clocks of two machines say.
                        let before = newest.map_or(Timestamp::default(), |(_, l)| l.since);
                        let since = wall().max(before + Span::from_ms(1));
                        let claim = self.record(since, false);
                        match self.bus.claim(&self.subject, &claim, number).await {
                            Ok(taken) => {
                                if newest.is_some() {
                                    self.changes.inc();
                                }
                                return Lead::new(self, taken, since, attempt);
                            }
                            Err(error) => tracing::debug!(%error, "lead not taken"),
                        }
                    }
                    Verdict::Wait => {
                        let leader = newest.map(|(_, leader)| leader);
                        let instance = leader.map_or("nobody", |l| l.instance.as_str());
                        let at = leader.map_or("", |l| l.seat.as_str());
                        self.check
                            .ok_but(format!("standby: {instance} at {at} leads"));
                        if !std::mem::replace(&mut said, true) {
                            tracing::info!(leader = instance, seat = at, "standby");
                        }
                    }
                }
            }
            tokio::time::sleep(self.terms.lead / LOOKS).await;
        }
    }

    fn record(&self, since: Timestamp, resigned: bool) -> Leader {
        Leader {
            instance: self.bus.instance().to_owned(),
            seat: self.seat.clone(),
            since,
            ttl_ms: u64::try_from(self.terms.lead.as_millis()).unwrap_or(u64::MAX),
            resigned,
        }
    }
}

/// The active instance.
#[derive(Debug)]
pub struct Lead {
    candidate: Candidate,
    since: Timestamp,
    /// The number of its newest message.
    newest: u64,
    /// When that was sent.
    renewed: Stopwatch,
    /// On which connection.
    generation: u64,
}

impl Lead {
    fn new(candidate: Candidate, newest: u64, since: Timestamp, renewed: Stopwatch) -> Self {
        candidate.bus.leads_since(since);
        candidate.active.set(1);
        candidate.check.ok();
        candidate.bus.write_within(renewed, candidate.terms.lead);
        tracing::info!(instance = candidate.bus.instance(), "this instance leads");
        let generation = candidate.bus.link().now().generation;
        Self {
            candidate,
            since,
            newest,
            renewed,
            generation,
        }
    }

    /// Renews the lead until `stop`.
    ///
    /// # Errors
    /// [`LostLead`]: then this instance must do nothing more.
    pub async fn keep(mut self, stop: &CancellationToken) -> Result<Self, LostLead> {
        let ttl = self.candidate.terms.lead;
        let mut link = self.candidate.bus.link();
        let mut generation = link.seen().generation;
        let mut still = 0;
        let mut wait = ttl / RENEWALS;
        loop {
            let slept = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(self),
                () = link.changed() => false,
                () = tokio::time::sleep(wait) => true,
            };
            let now = link.seen();
            if !now.up || now.generation != generation {
                // A loop that waits for the server does not stand still.
                (generation, still) = (now.generation, 0);
            }
            if !now.up {
                // Nobody else can take the lead here, and whoever is elsewhere will have.
                continue;
            }
            let silent = self.candidate.health.silence(LOOP).unwrap_or_default();
            if silent <= self.candidate.terms.still.as_secs_f64() {
                still = 0;
            } else if slept {
                still += 1;
            }
            if still >= STILL {
                self.resign().await;
                return Err(LostLead::StandsStill { seconds: silent });
            }
            let renewal = tokio::time::timeout(ttl / RENEWALS, self.renew()).await;
            wait = match renewal.unwrap_or(Ok(false))? {
                true => ttl / RENEWALS,
                // An acknowledgement was lost, or the server does not have its streams yet.
                false => ttl / LOOKS,
            };
        }
    }

    /// Says it once more; gives whether that is kept.
    async fn renew(&mut self) -> Result<bool, LostLead> {
        loop {
            let candidate = &self.candidate;
            let at = Stopwatch::start();
            let record = candidate.record(self.since, false);
            let claim = candidate
                .bus
                .claim(&candidate.subject, &record, self.newest);
            match claim.await {
                Ok(newest) => {
                    let since = std::mem::replace(&mut self.renewed, at).seconds();
                    self.newest = newest;
                    candidate.bus.write_within(at, candidate.terms.lead);
                    let link = candidate.bus.link().now();
                    let same = std::mem::replace(&mut self.generation, link.generation);
                    // After an outage all is repaired anyway.
                    if since > candidate.terms.lead.as_secs_f64() && same == link.generation {
                        tracing::warn!(since, "lead renewed late, nobody has taken it");
                        candidate.bus.begin_anew();
                    }
                    return Ok(true);
                }
                Err(error) if error.is_conflict() => {
                    let Ok(found) = candidate.bus.newest(&candidate.subject).await else {
                        return Ok(false);
                    };
                    self.newest = match found {
                        // A server that has lost all.
                        Newest::Nothing => 0,
                        // Nobody leads by that.
                        Newest::Unreadable { sequence } => sequence,
                        // An answer was lost, or the server has lost its newest writes.
                        Newest::Understood(own)
                            if own.message.instance == candidate.bus.instance() =>
                        {
                            own.sequence
                        }
                        Newest::Understood(other) => {
                            return Err(LostLead::Taken {
                                instance: other.message.instance,
                                seat: other.message.seat,
                            });
                        }
                    };
                }
                Err(error) => {
                    tracing::debug!(%error, "lead not renewed");
                    return Ok(false);
                }
            }
        }
    }

    /// Gives the lead up, so that another instance takes it at once.
    pub async fn resign(self) {
        let candidate = &self.candidate;
        candidate.active.set(0);
        let record = candidate.record(self.since, true);
        let claim = candidate
            .bus
            .claim(&candidate.subject, &record, self.newest);
        match tokio::time::timeout(candidate.terms.lead, claim).await {
            Ok(Ok(_)) => tracing::debug!("lead given up"),
            Ok(Err(error)) => tracing::debug!(%error, "lead not given up, it will lapse"),
            Err(_) => tracing::debug!("lead not given up in time"),
        }
        candidate
            .bus
            .write_within(Stopwatch::start(), Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(3);

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn leader(seat: &str, resigned: bool) -> Leader {
        Leader {
            instance: "other".to_owned(),
            seat: seat.to_owned(),
            since: Timestamp::from_unix(1),
            ttl_ms: 3000,
            resigned,
        }
    }

    #[test]
    fn the_first_leads_at_once() {
        let mut watch = Watch::default();
        assert_eq!(
            watch.judge(&Newest::Nothing, "here", TTL, at(0)),
            Verdict::Take(0)
        );
    }

    #[test]
    fn a_silent_leader_is_followed_after_its_time_on_the_observers_clock() {
        let mut watch = Watch::default();
        let other = leader("there", false);
        let mut look =
            |number, ms| watch.judge(&Newest::Understood((number, &other)), "here", TTL, at(ms));
        assert_eq!(look(7, 100_000), Verdict::Wait);
        assert_eq!(look(7, 102_999), Verdict::Wait);
        assert_eq!(look(8, 103_000), Verdict::Wait, "it has renewed");
        assert_eq!(look(8, 105_999), Verdict::Wait);
        assert_eq!(look(8, 106_000), Verdict::Take(8));
    }

    #[test]
    fn a_leader_that_is_gone_is_followed_at_once() {
        for gone in [leader("there", true), leader("here", false)] {
            let mut watch = Watch::default();
            let verdict = watch.judge(&Newest::Understood((7, &gone)), "here", TTL, at(0));
            assert_eq!(verdict, Verdict::Take(7));
        }
    }

    #[test]
    fn an_outage_and_an_emptied_server_leave_the_leader_the_first_word() {
        let mut watch = Watch::default();
        let other = leader("there", false);
        let seen = &Newest::Understood((7, &other));
        assert_eq!(watch.judge(seen, "here", TTL, at(0)), Verdict::Wait);
        watch.begin_anew(at(60_000));
        assert_eq!(watch.judge(seen, "here", TTL, at(62_999)), Verdict::Wait);
        assert_eq!(
            watch.judge(&Newest::Nothing, "here", TTL, at(62_999)),
            Verdict::Wait
        );
        assert_eq!(
            watch.judge(&Newest::Nothing, "here", TTL, at(65_998)),
            Verdict::Wait
        );
        assert_eq!(
            watch.judge(&Newest::Nothing, "here", TTL, at(65_999)),
            Verdict::Take(0)
        );
    }

    #[test]
    fn what_cannot_be_understood_leaves_the_leader_the_first_word() {
        let mut watch = Watch::default();
        let mut look = |number, ms| {
            let found = Newest::Unreadable { sequence: number };
            watch.judge(&found, "here", TTL, at(ms))
        };
        assert_eq!(look(7, 0), Verdict::Wait);
        assert_eq!(look(7, 2999), Verdict::Wait);
        assert_eq!(look(8, 3000), Verdict::Wait, "more of it");
        assert_eq!(look(8, 6000), Verdict::Take(8));
    }

    #[test]
    fn a_change_of_the_leader_is_seen_once() {
        let mut watch = Watch::default();
        let mut other = leader("there", false);
        assert!(!watch.changed(&other), "the first is no change");
        other.instance = "third".to_owned();
        assert!(watch.changed(&other));
        assert!(!watch.changed(&other));
    }
}
