//! Two of each service: one leads, the other is a standby and takes over.

use std::time::Duration;

use lacuna_runtime::{Bus, Start, Stopwatch};
use lacuna_wire::{Message, Subject, address};
use nix::sys::signal::Signal;

use super::check::violations;
use super::cluster::{Cluster, LED, converge, record_counts};
use super::world::World;

/// Waits for work of another instance than this one. Returns the seconds since `since`.
async fn work_of_another<M: Message + Send + 'static>(
    bus: &Bus,
    subject: Subject<M>,
    kept: bool,
    not: String,
    since: Stopwatch,
) -> f64 {
    if kept {
        let mut heard = bus.follow(&subject, Start::New).await.unwrap();
        loop {
            let word = heard.next().await.unwrap();
            if Bus::sender(&word.envelope) != not {
                return since.seconds();
            }
        }
    }
    let mut heard = bus.subscribe(&subject).await.unwrap();
    loop {
        let word = heard.next().await.unwrap();
        if Bus::sender(&word.envelope) != not {
            return since.seconds();
        }
    }
}

/// Sends a signal to the active instance; returns the seconds until another one works.
async fn takeover(world: &mut World, service: &'static str, signal: Signal) -> f64 {
    let since = Stopwatch::start();
    let at = loop {
        world.tend();
        if let Some(at) = world.active(service).await {
            break at;
        }
        assert!(
            since.seconds() < 30.0,
            "no instance leads {service}\n{}",
            world.logs()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let lead = world.bus.last(&address::leader(&world.id, service)).await;
    let old = lead.unwrap().unwrap().message.instance;
    let (bus, id) = (world.bus.clone(), world.id.clone());
    world.process(at).held = true;
    let since = Stopwatch::start();
    let next = tokio::spawn(async move {
        match service {
            "ingest" => work_of_another(&bus, address::snapshot(&id), true, old, since).await,
            "forecast" => work_of_another(&bus, address::pool(&id), true, old, since).await,
            "planner" => work_of_another(&bus, address::plan(&id), true, old, since).await,
            _ => work_of_another(&bus, address::renewals(&id), false, old, since).await,
        }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.process(at).signal(signal);
    let took = tokio::time::timeout(Duration::from_secs(30), next).await;
    let took = match took {
        Ok(took) => took.unwrap() - 0.05,
        Err(_) => panic!("{service} is not taken over\n{}", world.logs()),
    };
    if signal == Signal::SIGSTOP {
        tokio::time::sleep(Duration::from_secs_f64((5.0 - took).max(0.0))).await;
        let before = world.process(at).ends.clone();
        world.process(at).signal(Signal::SIGCONT);
        let since = Stopwatch::start();
        while world.process(at).ends == before {
            assert!(
                since.seconds() < 20.0,
                "the old {service} goes on\n{}",
                world.logs()
            );
            world.tend();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let new = world.process(at).ends.clone();
        assert!(
            new.keys().any(|end| end.contains("75")),
            "the old {service} ended so: {new:?}\n{}",
            world.logs()
        );
    }
    world.process(at).held = false;
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_from_the_active_instance() {
    let mut world = World::start(12, 3).await;
    // Both were started at once: one leads, the other waits.
    for service in LED {
        let of = world.processes.iter().filter(|p| p.service == service);
        assert!(of.clone().count() == 2 && of.clone().all(|p| p.ends.is_empty()));
    }
    for (signal, what) in [
        (Signal::SIGTERM, "stopped in order"),
        (Signal::SIGKILL, "killed"),
        (Signal::SIGSTOP, "stopped for five seconds"),
    ] {
        for service in LED {
            let took = takeover(&mut world, service, signal).await;
            println!("{service} {what}: another one works after {took:.2} s");
            // Generous, since the time depends on the machine. The lead lasts 3 s.
            assert!(took < 15.0, "{service} {what}: only after {took} s");
            let settled = converge(&mut world, 60.0, false).await;
            assert!(
                settled.is_ok(),
                "{service} {what}: {settled:?}\n{}",
                world.logs()
            );
        }
    }
    record_counts(world.view()).await;
    let found = violations(&world.recorder.writer.history());
    assert_eq!(found, Vec::<String>::new(), "{}", world.logs());
    assert_eq!(world.panics(), Vec::<String>::new());
}
