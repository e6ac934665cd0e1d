//! Faults that are injected into a running Lacuna.

use std::time::Duration;

use lacuna_runtime::Stopwatch;
use lacuna_testkit::Need;
use lacuna_wire::address;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::cluster::{Cluster, LED};
use super::history::Observation;
use super::place::faketime;
use super::proxy::Weather;
use super::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fault {
    /// `kill -9`; started again at once or later.
    Kill,
    /// SIGSTOP, and SIGCONT some seconds later.
    Stop,
    /// SIGTERM; started again at once or later.
    Restart,
    /// The network is cut, in both directions or in one.
    Cut,
    CutTowardsServer,
    CutFromServer,
    /// The network delays everything.
    Delay,
    /// The network loses, repeats or swaps whole messages.
    Lost,
    Twice,
    Swapped,
    /// The process reads nothing while it is sent a lot, until the server drops it.
    Slow,
    /// A second instance takes over while the first still works.
    TwoAtOnce,
    /// The disk is full.
    DiskFull,
    /// The server starts again with an empty store.
    Emptied,
    /// All processes are killed at once, the server too.
    Reboot,
    /// The clock is wrong by some minutes.
    Skew,
}

/// The target of a fault: a service, `agent`, `nats`, or `all`.
pub(super) type Target = &'static str;

/// Every fault with each of its targets.
pub(super) fn matrix(world: &World) -> Vec<(Fault, Target)> {
    let mut all = Vec::new();
    let processes = LED.into_iter().chain(["agent"]);
    for target in processes {
        for fault in [
            Fault::Kill,
            Fault::Stop,
            Fault::Restart,
            Fault::Cut,
            Fault::CutTowardsServer,
            Fault::CutFromServer,
            Fault::Delay,
            Fault::Lost,
            Fault::Twice,
            Fault::Swapped,
        ] {
            all.push((fault, target));
        }
    }
    all.extend(LED.map(|service| (Fault::TwoAtOnce, service)));
    // Only control and agents have subscriptions to which the server pushes.
    all.extend([(Fault::Slow, "control"), (Fault::Slow, "agent")]);
    all.extend([
        (Fault::Kill, "nats"),
        (Fault::Stop, "nats"),
        (Fault::Restart, "nats"),
        (Fault::Emptied, "nats"),
        (Fault::Reboot, "all"),
    ]);
    if world.disk_can_be_filled() {
        all.push((Fault::DiskFull, "nats"));
    } else {
        Need::Root
            .missing("full disk: no tmpfs can be mounted")
            .skip_part();
    }
    if faketime().is_some() {
        all.push((Fault::Skew, "agent"));
    } else {
        Need::Faketime
            .missing("wrong clock: no libfaketime")
            .skip_part();
    }
    all
}

/// Injects a fault, and ends it. The agents' deadlines allow for faults of up to ten seconds.
pub(super) async fn inject(world: &mut World, fault: Fault, target: Target, rng: &mut ChaCha8Rng) {
    match target {
        "nats" => server(world, fault, rng).await,
        "all" => reboot(world).await,
        _ => {
            let at = victim(world, target, rng).await;
            process(world, at, fault, rng).await;
        }
    }
}

/// The leading process, or any of the agents.
async fn victim(world: &mut World, target: Target, rng: &mut ChaCha8Rng) -> usize {
    if target != "agent" {
        let since = Stopwatch::start();
        while since.seconds() < 20.0 {
            if let Some(at) = world.active(target).await {
                return at;
            }
            wait(world, 0.1).await;
        }
    }
    let of: Vec<usize> = (0..world.processes.len())
        .filter(|at| {
            world
                .processes
                .get(*at)
                .is_some_and(|p| p.service == target)
        })
        .collect();
    of.get(rng.random_range(0..of.len())).copied().unwrap()
}

/// Lets time pass; supervisors go on.
async fn wait(world: &mut World, seconds: f64) {
    let since = Stopwatch::start();
    while since.seconds() < seconds {
        world.tend();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn process(world: &mut World, at: usize, fault: Fault, rng: &mut ChaCha8Rng) {
    let seconds = rng.random_range(2.0..7.0);
    let weather = Weather::default();
    let weather = match fault {
        Fault::Kill | Fault::Restart => {
            // Half of the time the supervisor is faster than the standby.
            let held = rng.random_bool(0.5);
            world.process(at).held = held;
            if fault == Fault::Kill {
                world.process(at).kill();
            } else {
                world.process(at).signal(Signal::SIGTERM);
            }
            wait(world, if held { seconds } else { 1.0 }).await;
            world.process(at).held = false;
            return;
        }
        Fault::Stop => {
            world.process(at).signal(Signal::SIGSTOP);
            wait(world, seconds).await;
            world.process(at).signal(Signal::SIGCONT);
            return;
        }
        Fault::TwoAtOnce => {
            usurp(world, at).await;
            wait(world, 1.0).await;
            return;
        }
        Fault::Skew => {
            let sign = if rng.random_bool(0.5) { 1 } else { -1 };
            for skew in [sign * rng.random_range(60..600), 0] {
                world.process(at).skew = skew;
                world.process(at).kill();
                wait(world, seconds).await;
            }
            return;
        }
        Fault::Slow => {
            let stalled = Weather {
                cut_down: true,
                ..weather
            };
            world.process(at).proxy.set(stalled);
            flood(world, at).await;
            wait(world, 5.0).await;
            world.process(at).proxy.set(weather);
            return;
        }
        Fault::Cut => Weather {
            cut_up: true,
            cut_down: true,
            ..weather
        },
        Fault::CutTowardsServer => Weather {
            cut_up: true,
            ..weather
        },
        Fault::CutFromServer => Weather {
            cut_down: true,
            ..weather
        },
        Fault::Delay => Weather {
            delay_ms: rng.random_range(50..400),
            ..weather
        },
        Fault::Lost => Weather {
            lose: 0.2,
            ..weather
        },
        Fault::Twice => Weather {
            double: 0.3,
            ..weather
        },
        Fault::Swapped => Weather {
            swap: 0.3,
            ..weather
        },
        Fault::DiskFull | Fault::Emptied | Fault::Reboot => weather,
    };
    world.process(at).proxy.set(weather);
    wait(world, seconds).await;
    world.process(at).proxy.set(Weather::default());
}

/// Takes the leadership from a process without its knowledge, so that the other one begins while
/// this one still works.
async fn usurp(world: &World, at: usize) {
    let Some(service) = world.processes.get(at).map(|p| p.service) else {
        return;
    };
    let subject = address::leader(&world.id, service);
    if let Ok(Some(newest)) = world.bus.last(&subject).await {
        let mut record = newest.message;
        record.resigned = true;
        let _ = world.bus.store(&subject, &record, "").await;
    }
}

/// Sends more than fits into the buffers between the server and a process that does not read.
async fn flood(world: &World, at: usize) {
    let agent = world
        .processes
        .get(at)
        .is_some_and(|p| p.service == "agent");
    let subject = if agent {
        address::renewals(&world.id).as_str().replace('*', "0")
    } else {
        address::agents(&world.id).as_str().replace('*', "junk")
    };
    for _ in 0..200 {
        let junk = vec![0; 100_000];
        let sent = world
            .bus
            .nats()
            .unwrap()
            .client
            .publish(subject.clone(), junk.into());
        let _ = tokio::time::timeout(Duration::from_secs(1), sent).await;
    }
}

async fn server(world: &mut World, fault: Fault, rng: &mut ChaCha8Rng) {
    let seconds = rng.random_range(1.0..6.0);
    match fault {
        Fault::Stop => {
            let pid = Pid::from_raw(i32::try_from(world.nats.pid()).unwrap());
            let _ = kill(pid, Signal::SIGSTOP);
            wait(world, seconds).await;
            let _ = kill(pid, Signal::SIGCONT);
            return;
        }
        Fault::DiskFull => {
            world.recorder.writer.note(Observation::WritesAtRisk);
            world.fill_disk();
            wait(world, seconds).await;
            world.recorder.writer.note(Observation::WritesAtRisk);
            world.empty_disk();
            // The server has turned its streams off, and must be started again.
            world.nats.stop();
        }
        Fault::Restart => world.nats.stop(),
        _ => {
            world.nats.kill();
            world.recorder.writer.note(Observation::WritesAtRisk);
        }
    }
    if fault == Fault::Emptied {
        world.wipe();
    }
    if fault != Fault::DiskFull {
        wait(world, seconds).await;
    }
    world.nats.restart().unwrap();
}

/// As a power failure.
async fn reboot(world: &mut World) {
    for at in 0..world.processes.len() {
        world.process(at).held = true;
        world.process(at).kill();
    }
    world.nats.kill();
    world.recorder.writer.note(Observation::WritesAtRisk);
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.nats.restart().unwrap();
    for at in 0..world.processes.len() {
        world.process(at).held = false;
    }
    wait(world, 0.5).await;
}
