//! Leadership: one active instance of ingest, forecast, planner and control. Further instances are
//! standbys: connected, healthy, without work. Agents need no leader, since a lock and the epochs
//! of leases order them. The gateway changes nothing and needs none either.
//!
//! The leadership is the newest [`Leader`] message of the service on
//! `lacuna.v1.c.leader.<service>`, written by compare-and-set on the number of the one before. The
//! active instance renews it three times within its length (`cluster.lead`).
//!
//! - **Takeover.** A standby takes the leadership when the number of the newest message has not
//!   changed for the length in that message. It measures by its own clock, from when it first saw
//!   that number, and a suspension of the machine does not stop this clock. No clocks are compared.
//!   The active instance's time starts when it *sends* a renewal, so it has stopped writing
//!   (`bus::gate`) by then.
//! - **At once.** A standby takes over at once after a resignation. It also does so if it has bound
//!   the address of the leader itself (`seat`: machine since its start, network namespace,
//!   address), since that instance has then ended.
//! - **Loss.** An instance that loses its leadership to another one ends. An instance whose loop is
//!   stuck for `cluster.still` resigns, and so does one whose loop has not begun two minutes after its start.
//! - **Outage.** While the server is away the leadership cannot be taken. An instance that renews
//!   too late and finds no newer leader continues. Its messages of the meantime are lost, so the
//!   bus counts a new connection, and everything is repaired as after an outage.

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

/// Services with one active instance.
pub const SINGLE_ACTIVE: [&str; 4] = ["ingest", "forecast", "planner", "control"];

/// Checks of the leadership within its length.
const CHECKS: u32 = 12;

/// Renewals of the leadership within its length.
const RENEWALS: u32 = 3;

pub use crate::http::LOOP;

/// Lengths of a leadership without a renewal after which requests are refused. A slow disk takes less.
const UNLED: u32 = 2;

/// Longest time until the loop first turns. A start reads files and states.
const START: Duration = Duration::from_secs(120);

/// Consecutive checks in which the loop must have been stuck. A process that was stopped has had no
/// time to turn its loop at the first check.
const STUCK_CHECKS: u32 = 4;

/// Whether a service has one active instance, and standbys.
#[must_use]
pub fn is_led(service: &str) -> bool {
    SINGLE_ACTIVE.contains(&service)
}

/// The location of this process: machine since its start, network namespace, and bound address. Two
/// processes that run at the same time never share one.
#[must_use]
pub fn seat(listening: SocketAddr) -> String {
    use std::os::unix::fs::MetadataExt;
    let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let network = std::fs::metadata("/proc/self/ns/net").map(|m| m.ino());
    match (machine, network) {
        (Ok(machine), Ok(network)) => format!("{}/{network}/{listening}", machine.trim()),
        // A unique location, so that no standby takes this instance for ended.
        _ => format!("unknown/{:032x}", crate::virtual_time::unique()),
    }
}

crate::metrics! {
    struct Metrics {
        active: IntGauge = "lacuna_leader",
            "whether this instance is the active one of its service (1), or a standby (0)";
        changes: IntCounter = "lacuna_leader_changes_total",
            "times that another instance of the service became the active one, as seen by this one";
    }
}

/// Declares the metrics, so that a service's golden exposition includes them.
///
/// # Errors
/// If a name is taken.
pub fn declare_metrics(registry: &Registry) -> Result<(), prometheus::Error> {
    Metrics::new(registry).map(|_| ())
}

/// Why the leadership is lost.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LostLeadership {
    /// Another instance has it.
    #[error("the leadership is lost: {instance} at {seat} is the active instance now")]
    Taken {
        /// The other instance.
        instance: String,
        /// Its location.
        seat: String,
    },
    /// The service's loop is stuck, and another instance may work.
    #[error("the leadership is resigned: the service's loop has been stuck for {seconds:.0} s")]
    Stuck {
        /// Seconds since it last turned.
        seconds: f64,
    },
}

/// The observations of a standby. `now` is the time on its own clock.
#[derive(Debug, Default)]
struct Watch {
    /// The number of the newest message, and when it was first seen; 0 for none.
    seen: Option<(u64, Duration)>,
    /// The instance that wrote it.
    instance: String,
}

/// The decision of a standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Take the leadership, by a write after the message of this number.
    Take(u64),
    /// Wait, since another instance leads.
    Wait,
}

impl Watch {
    /// Judges the newest message. `seat` is the own location, `ttl` the own length of a leadership.
    fn judge(
        &mut self,
        found: &Newest<(u64, &Leader)>,
        seat: &str,
        ttl: Duration,
        now: Duration,
    ) -> Verdict {
        let (number, ttl) = match *found {
            Newest::Nothing if self.seen.is_none() => return Verdict::Take(0),
            // An emptied server. The former leader may renew first.
            Newest::Nothing => (0, ttl),
            // An unreadable message. The leader may overwrite it first.
            Newest::Unreadable { sequence } => (sequence, ttl),
            Newest::Decoded((number, leader)) => {
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

    /// The server was away, so the leader could not renew. The time starts again.
    fn restart(&mut self, now: Duration) {
        if let Some((_, since)) = &mut self.seen {
            *since = now;
        }
    }

    /// Whether the leader is another instance than the last time.
    fn changed(&mut self, leader: &Leader) -> bool {
        let before = std::mem::replace(&mut self.instance, leader.instance.clone());
        !before.is_empty() && before != leader.instance
    }
}

/// A standby: an instance that waits for the leadership.
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

/// The times of a leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Its length from each renewal.
    pub length: Duration,
    /// How long the check [`LOOP`] may be silent.
    pub still: Duration,
}

impl Candidate {
    /// A standby at this location (see [`seat`]).
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
        let Metrics { active, changes } = Metrics::new(registry)?;
        // No message is sent before the leadership is taken.
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
    pub async fn wait(self) -> Leadership {
        let clock = Stopwatch::start();
        let mut watch = Watch::default();
        let mut generation = self.bus.link().now().generation;
        let mut attempt = Stopwatch::start();
        let mut logged = false;
        loop {
            let link: Link = self.bus.link().now();
            if link.generation != generation {
                generation = link.generation;
                watch.restart(clock.span().to_std());
            }
            let newest =
                tokio::time::timeout(self.terms.length, self.bus.newest(&self.subject)).await;
            if let Ok(Err(error @ BusError::Decode { .. })) = &newest {
                self.check.ok_but(format!("standby: {error}"));
            }
            if let Ok(Ok(found)) = newest {
                let found = found
                    .as_ref()
                    .map(|f: &Received<Leader>| (f.sequence, &f.message));
                let newest = match found {
                    Newest::Decoded(newest) => Some(newest),
                    Newest::Nothing | Newest::Unreadable { .. } => None,
                };
                if let Some((number, leader)) = newest
                    && leader.instance == self.bus.instance()
                {
                    // The answer to the last attempt was lost.
                    let since = leader.since;
                    return Leadership::new(self, number, since, attempt);
                }
                if newest.is_some_and(|(_, leader)| watch.changed(leader)) {
                    self.changes.inc();
                    logged = false;
                }
                match watch.judge(&found, &self.seat, self.terms.length, clock.span().to_std()) {
                    Verdict::Take(number) => {
                        attempt = Stopwatch::start();
                        // Later than the leadership before it, whatever the clocks of the machines
                        // show.
                        let before = newest.map_or(Timestamp::default(), |(_, l)| l.since);
                        let since = wall().max(before + Span::from_ms(1));
                        let claim = self.record(since, false);
                        match self.bus.claim(&self.subject, &claim, number).await {
                            Ok(taken) => {
                                if newest.is_some() {
                                    self.changes.inc();
                                }
                                return Leadership::new(self, taken, since, attempt);
                            }
                            Err(error) => {
                                tracing::debug!(%error, "leadership not taken");
                                let unkept = match error {
                                    BusError::NoRoom { .. } | BusError::Timeout { .. } => {
                                        Some(error.to_string())
                                    }
                                    _ => None,
                                };
                                self.bus.set_unled(unkept);
                            }
                        }
                    }
                    Verdict::Wait => {
                        self.bus.set_led();
                        let leader = newest.map(|(_, leader)| leader);
                        let instance = leader.map_or("no instance", |l| l.instance.as_str());
                        let at = leader.map_or("", |l| l.seat.as_str());
                        self.check
                            .ok_but(format!("standby: {instance} at {at} leads"));
                        if !std::mem::replace(&mut logged, true) {
                            tracing::info!(leader = instance, seat = at, "standby");
                        }
                    }
                }
            }
            tokio::time::sleep(self.terms.length / CHECKS).await;
        }
    }

    fn record(&self, since: Timestamp, resigned: bool) -> Leader {
        Leader {
            instance: self.bus.instance().to_owned(),
            seat: self.seat.clone(),
            since,
            ttl_ms: u64::try_from(self.terms.length.as_millis()).unwrap_or(u64::MAX),
            resigned,
            failing: self.health.failing(),
        }
    }
}

/// The leadership of the active instance.
#[derive(Debug)]
pub struct Leadership {
    candidate: Candidate,
    since: Timestamp,
    /// The number of its newest message.
    newest: u64,
    /// When that message was sent.
    renewed: Stopwatch,
    /// The connection on which it was sent.
    generation: u64,
}

impl Leadership {
    fn new(candidate: Candidate, newest: u64, since: Timestamp, renewed: Stopwatch) -> Self {
        candidate.bus.set_leader_since(since);
        candidate.bus.set_unled(None);
        candidate.active.set(1);
        candidate.check.ok();
        candidate.bus.write_within(renewed, candidate.terms.length);
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

    /// Renews the leadership until `stop`.
    ///
    /// # Errors
    /// [`LostLeadership`]. Then this instance must not do anything more.
    pub async fn keep(mut self, stop: &CancellationToken) -> Result<Self, LostLeadership> {
        let ttl = self.candidate.terms.length;
        let mut link = self.candidate.bus.link();
        let mut generation = link.seen().generation;
        let mut stuck = 0;
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
                // A loop that waits for the server is not stuck.
                (generation, stuck) = (now.generation, 0);
            }
            if !now.up {
                // While the server is away no standby can take the leadership.
                continue;
            }
            let silence = self.candidate.health.silence(LOOP);
            let (silent, has_turned) = silence.unwrap_or_default();
            let still = self.candidate.terms.still;
            let most = if has_turned { still } else { still.max(START) };
            if silent <= most.as_secs_f64() {
                stuck = 0;
            } else if slept {
                stuck += 1;
            }
            if stuck >= STUCK_CHECKS {
                self.resign().await;
                return Err(LostLeadership::Stuck { seconds: silent });
            }
            let renewal = tokio::time::timeout(ttl / RENEWALS, self.renew()).await;
            wait = match renewal.unwrap_or(Ok(false))? {
                true => ttl / RENEWALS,
                // An acknowledgement was lost, or the server does not have its streams yet.
                false => ttl / CHECKS,
            };
            let since = self.renewed.seconds();
            let is_long = since >= (ttl * UNLED).as_secs_f64();
            let why = || format!("its leadership was not renewed for {since:.0} s");
            self.candidate.bus.set_unled(is_long.then(why));
        }
    }

    /// Renews the leadership once; gives whether the renewal was stored.
    async fn renew(&mut self) -> Result<bool, LostLeadership> {
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
                    candidate.bus.write_within(at, candidate.terms.length);
                    let link = candidate.bus.link().now();
                    let same = std::mem::replace(&mut self.generation, link.generation);
                    // After an outage everything is repaired anyway.
                    if since > candidate.terms.length.as_secs_f64() && same == link.generation {
                        tracing::warn!(
                            since,
                            "leadership renewed late, no other instance has taken it"
                        );
                        candidate.bus.count_outage();
                    }
                    return Ok(true);
                }
                Err(error) if error.is_conflict() => {
                    let Ok(found) = candidate.bus.newest(&candidate.subject).await else {
                        return Ok(false);
                    };
                    self.newest = match found {
                        // An emptied server.
                        Newest::Nothing => 0,
                        // An unreadable message gives no leadership.
                        Newest::Unreadable { sequence } => sequence,
                        // An answer was lost, or the server has lost its newest writes.
                        Newest::Decoded(own)
                            if own.message.instance == candidate.bus.instance() =>
                        {
                            own.sequence
                        }
                        Newest::Decoded(other) => {
                            return Err(LostLeadership::Taken {
                                instance: other.message.instance,
                                seat: other.message.seat,
                            });
                        }
                    };
                }
                Err(error) => {
                    tracing::debug!(%error, "leadership not renewed");
                    return Ok(false);
                }
            }
        }
    }

    /// Resigns, so that a standby takes over at once.
    pub async fn resign(self) {
        let candidate = &self.candidate;
        candidate.active.set(0);
        let record = candidate.record(self.since, true);
        let claim = candidate
            .bus
            .claim(&candidate.subject, &record, self.newest);
        match tokio::time::timeout(candidate.terms.length, claim).await {
            Ok(Ok(_)) => tracing::debug!("leadership resigned"),
            Ok(Err(error)) => tracing::debug!(%error, "leadership not resigned, it will expire"),
            Err(_) => tracing::debug!("leadership not resigned in time"),
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
            failing: Vec::new(),
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
    fn a_silent_leader_is_replaced_after_its_length_on_the_standbys_clock() {
        let mut watch = Watch::default();
        let other = leader("there", false);
        let mut judge =
            |number, ms| watch.judge(&Newest::Decoded((number, &other)), "here", TTL, at(ms));
        assert_eq!(judge(7, 100_000), Verdict::Wait);
        assert_eq!(judge(7, 102_999), Verdict::Wait);
        assert_eq!(judge(8, 103_000), Verdict::Wait, "it has renewed");
        assert_eq!(judge(8, 105_999), Verdict::Wait);
        assert_eq!(judge(8, 106_000), Verdict::Take(8));
    }

    #[test]
    fn a_leader_that_has_ended_is_replaced_at_once() {
        for gone in [leader("there", true), leader("here", false)] {
            let mut watch = Watch::default();
            let verdict = watch.judge(&Newest::Decoded((7, &gone)), "here", TTL, at(0));
            assert_eq!(verdict, Verdict::Take(7));
        }
    }

    #[test]
    fn after_an_outage_or_with_an_emptied_server_the_leader_may_renew_first() {
        let mut watch = Watch::default();
        let other = leader("there", false);
        let seen = &Newest::Decoded((7, &other));
        assert_eq!(watch.judge(seen, "here", TTL, at(0)), Verdict::Wait);
        watch.restart(at(60_000));
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
    fn after_an_unreadable_message_the_leader_may_renew_first() {
        let mut watch = Watch::default();
        let mut judge = |number, ms| {
            let found = Newest::Unreadable { sequence: number };
            watch.judge(&found, "here", TTL, at(ms))
        };
        assert_eq!(judge(7, 0), Verdict::Wait);
        assert_eq!(judge(7, 2999), Verdict::Wait);
        assert_eq!(judge(8, 3000), Verdict::Wait, "more of it");
        assert_eq!(judge(8, 6000), Verdict::Take(8));
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
