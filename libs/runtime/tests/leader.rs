//! One of several instances leads.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::time::Duration;

use lacuna_model::{ClusterId, Timestamp};
use lacuna_runtime::leader::{Candidate, LOOP, Leadership, LostLeadership, Terms};
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::{Bus, Health, Stopwatch};
use lacuna_testkit::{Server, TestNats, in_virtual_and_real_time, in_virtual_time};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, Pace};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TTL: Duration = Duration::from_millis(900);
const SERVICE: &str = "planner";

fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

fn tick(step: u64) -> Clock {
    Clock {
        now: Timestamp::from_unix(1),
        pace: Pace::Real,
        step,
        events_upto: 0,
        complete: true,
        ended: false,
        recording: String::new(),
    }
}

/// One process of the service, as far as its leadership is concerned.
struct Instance {
    bus: Bus,
    registry: Registry,
    health: Health,
    stop: CancellationToken,
    lead: JoinHandle<Result<Leadership, LostLeadership>>,
}

impl Instance {
    async fn start(nats: &Server, seat: &str) -> Self {
        let bus = nats.connect(&cluster(), SERVICE).await;
        let (registry, health) = (Registry::new(), Health::default());
        let terms = Terms {
            length: TTL,
            still: TTL,
        };
        let candidate = Candidate::new(&bus, seat.to_owned(), terms, &registry, &health).unwrap();
        let stop = CancellationToken::new();
        let until = stop.clone();
        let lead = tokio::spawn(async move { candidate.wait().await.keep(&until).await });
        Self {
            bus,
            registry,
            health,
            stop,
            lead,
        }
    }

    fn metric(&self, name: &str) -> f64 {
        let text = expose(&self.registry).unwrap();
        let line = text.lines().find(|l| l.starts_with(&format!("{name} ")));
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn leads(&self) -> bool {
        self.metric("lacuna_leader") == 1.0 && !self.lead.is_finished()
    }

    /// Seconds until it leads.
    async fn leading(&self) -> f64 {
        let watch = Stopwatch::start();
        while !self.leads() {
            assert!(watch.seconds() < 30.0, "it never leads");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        watch.seconds()
    }

    fn note(&self) -> String {
        let report = self.health.report();
        let check = report.checks.iter().find(|c| c.name == "lead").unwrap();
        check.note.clone().unwrap_or_default()
    }

    /// Ends like `kill -9`, without a further message.
    fn die(self) -> Bus {
        self.lead.abort();
        self.bus
    }

    async fn lost(self) -> LostLeadership {
        let ended = tokio::time::timeout(Duration::from_secs(30), self.lead).await;
        match ended.unwrap().unwrap() {
            Err(lost) => lost,
            Ok(_) => unreachable!("nothing stopped it"),
        }
    }
}

#[test]
fn one_of_two_leads_and_a_dead_leader_is_replaced_after_its_length() {
    in_virtual_and_real_time(async |nats| {
        let first = Instance::start(&nats, "a").await;
        first.leading().await;
        let second = Instance::start(&nats, "b").await;
        tokio::time::sleep(TTL * 2).await;
        assert!(first.leads() && !second.leads());
        assert!(
            second.note().contains(first.bus.instance()),
            "{}",
            second.note()
        );
        let report = second.health.report();
        assert!(report.checks.iter().all(|c| c.ok), "{report:?}");
        first.die();
        let waited = second.leading().await;
        assert!(waited > TTL.as_secs_f64() / 2.0, "after only {waited} s");
        assert_eq!(second.metric("lacuna_leader_changes_total"), 1.0);
        assert_eq!(second.note(), "");
    });
}

#[test]
fn a_leader_that_resigns_or_whose_address_is_taken_is_replaced_at_once() {
    in_virtual_time(async |nats| {
        let first = Instance::start(&nats, "a").await;
        first.leading().await;
        let second = Instance::start(&nats, "b").await;
        tokio::time::sleep(TTL / 2).await;
        first.stop.cancel();
        let lead = first.lead.await.unwrap().unwrap();
        lead.resign().await;
        let resigned = second.leading().await;
        second.die();
        let again = Instance::start(&nats, "b").await;
        let same_seat = again.leading().await;
        // Neither had to wait for the length of the leadership. The exact time depends on the machine.
        println!("after {resigned:.3} s and {same_seat:.3} s");
        assert!(!again.lead.is_finished());
    });
}

#[test]
fn of_several_candidates_at_once_one_leads() {
    in_virtual_time(async |nats| {
        let mut all = Vec::new();
        for n in 0..6 {
            all.push(Instance::start(&nats, &format!("seat {n}")).await);
        }
        tokio::time::sleep(TTL * 3).await;
        let leading = all.iter().filter(|i| i.leads()).count();
        assert_eq!(leading, 1);
        assert!(all.iter().all(|i| !i.lead.is_finished()), "none ends");
    });
}

#[test]
fn an_instance_that_has_lost_its_leadership_ends_and_cannot_write() {
    in_virtual_time(async |nats| {
        let first = Instance::start(&nats, "a").await;
        first.leading().await;
        let tick = tick(1);
        let subject = address::clock(&cluster());
        let kept = first.bus.store(&subject, &tick, "").await.unwrap();
        // Another process takes the leadership meanwhile, as after a long stop of this one.
        let other = nats.connect(&cluster(), "test").await;
        let at = address::leader(&cluster(), SERVICE);
        let mut record = other.last(&at).await.unwrap().unwrap().message;
        "thief".clone_into(&mut record.instance);
        other.store(&at, &record, "").await.unwrap();
        let bus = first.bus.clone();
        let lost = first.lost().await;
        assert!(
            matches!(&lost, LostLeadership::Taken { instance, .. } if instance == "thief"),
            "{lost}"
        );
        tokio::time::sleep(TTL).await;
        assert!(bus.store(&subject, &tick, "").await.is_err());
        bus.publish(&subject, &tick, "").await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let newest = other.last(&subject).await.unwrap().unwrap();
        assert_eq!(newest.sequence, kept, "nothing was written");
    });
}

#[test]
fn the_leader_stays_after_an_outage_and_with_an_emptied_server() {
    in_virtual_time(async |mut nats| {
        let first = Instance::start(&nats, "a").await;
        first.leading().await;
        let second = Instance::start(&nats, "b").await;
        for wipe in [false, true] {
            nats.kill();
            if wipe {
                nats.wipe();
            }
            tokio::time::sleep(TTL * 2).await;
            nats.restart();
            tokio::time::sleep(TTL * 2).await;
            assert!(!first.lead.is_finished(), "the first goes on");
            assert!(first.leads() && !second.leads(), "wiped: {wipe}");
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_leader_continues_if_no_other_has_taken_over_and_all_is_repaired() {
    let nats = TestNats::start();
    let server = Pid::from_raw(i32::try_from(nats.pid()).unwrap());
    let nats = Server::Real(nats);
    let first = Instance::start(&nats, "a").await;
    first.leading().await;
    let mut link = first.bus.link();
    let before = link.seen();
    // The connection is up, and no answer arrives.
    kill(server, Signal::SIGSTOP).unwrap();
    tokio::time::sleep(TTL * 3).await;
    kill(server, Signal::SIGCONT).unwrap();
    let repaired = tokio::time::timeout(TTL * 20, link.changed()).await;
    repaired.unwrap();
    let now = link.now();
    assert!(now.up && now.generation == before.generation + 1, "{now:?}");
    assert!(first.leads(), "it goes on");
    let clock = address::clock(&cluster());
    first.bus.store(&clock, &tick(1), "").await.unwrap();
}

#[test]
fn an_instance_whose_loop_is_stuck_resigns() {
    in_virtual_time(async |nats| {
        let first = Instance::start(&nats, "a").await;
        first.leading().await;
        // The loop has not turned yet, since it may have much to read.
        let turning = first
            .health
            .check(LOOP, Some(lacuna_model::Span::from_secs(60)));
        tokio::time::sleep(TTL * 3).await;
        assert!(first.leads());
        for _ in 0..12 {
            turning.ok();
            tokio::time::sleep(TTL / 2).await;
            assert!(first.leads(), "a loop that turns keeps the leadership");
        }
        let second = Instance::start(&nats, "b").await;
        let lost = first.lost().await;
        assert!(matches!(lost, LostLeadership::Stuck { .. }), "{lost}");
        second.leading().await;
    });
}

#[test]
fn a_former_leader_does_not_repeat_its_states() {
    in_virtual_time(async |mut nats| {
        let first = Instance::start(&nats, "a").await;
        first.leading().await;
        let subject = address::clock(&cluster());
        first.bus.store(&subject, &tick(1), "").await.unwrap();
        // The instance stops renewing, and another one publishes a newer state. Then the server comes
        // back.
        let bus = first.die();
        tokio::time::sleep(TTL * 2).await;
        let other = nats.connect(&cluster(), "test").await;
        other.store(&subject, &tick(2), "").await.unwrap();
        nats.kill();
        nats.restart();
        tokio::time::sleep(TTL * 2).await;
        assert!(bus.connected());
        let newest = other.last(&subject).await.unwrap().unwrap();
        assert_eq!(newest.message.step, 2);
    });
}
