//! The simulated server behaves as a nats-server does, and its outages repeat by their seed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::fmt::Debug;
use std::time::Duration;

use lacuna_model::{ClusterId, NodeId, Timestamp, TrainerId};
use lacuna_runtime::leader::LOOP;
use lacuna_runtime::virtual_time::{self, Host};
use lacuna_runtime::{
    Bus, BusError, Config, Context, Delays, Follow, SimulatedServer, Start, Trap, simulate,
};
use lacuna_testkit::{TestNats, connect, events};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, LeaseRecord, Pace, Reply, Request, Settled};

fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

fn tick(step: u64) -> Clock {
    Clock {
        now: Timestamp::from_unix(i64::try_from(step).unwrap()),
        pace: Pace::LockStep,
        step,
        events_upto: 0,
        complete: false,
        ended: false,
        recording: String::new(),
    }
}

async fn simulated(server: &SimulatedServer, service: &str) -> Bus {
    let bus = Bus::simulated_client(server, &cluster(), service).await;
    bus.unwrap()
}

/// The result of each operation, as text.
#[derive(Default)]
struct Transcript(Vec<String>);

impl Transcript {
    fn note(&mut self, act: &str, came: impl Debug) {
        self.0.push(format!("{act}: {came:?}"));
    }

    fn result<T: Debug>(&mut self, act: &str, came: Result<T, BusError>) {
        match came {
            Ok(done) => self.note(act, done),
            Err(error) => self.0.push(format!("{act}: {error}")),
        }
    }
}

/// Numbers and steps of the next messages, with the number of messages behind each.
async fn heard(follow: &mut Follow<Clock>, count: usize) -> Vec<(u64, u64, u64)> {
    let mut all = Vec::new();
    for _ in 0..count {
        let next = follow.next().await.unwrap();
        all.push((next.sequence, next.message.step, next.pending));
    }
    all
}

/// Every operation of services on a server, once.
async fn acts(one: &Bus, other: &Bus) -> Vec<String> {
    let mut transcript = Transcript::default();
    let clock = address::clock(&cluster());
    transcript.note("nothing yet", one.last(&clock).await.unwrap().is_none());
    for step in 1..=3 {
        transcript.result("store", one.store(&clock, &tick(step), "").await);
    }
    transcript.result(
        "after the newest",
        one.store_after(&clock, &tick(4), "", 3).await,
    );
    transcript.result(
        "after an older",
        one.store_after(&clock, &tick(5), "", 2).await,
    );
    transcript.note("newest", other.newest(&clock).await.unwrap().sequence());
    let mut follow = other.follow(&clock, Start::Last).await.unwrap();
    let mut direct = other.follow_direct(&clock, Start::Last).await.unwrap();
    let mut steps = vec![direct.next().await.unwrap().message.step];
    one.store(&clock, &tick(6), "").await.unwrap();
    transcript.note("followed", heard(&mut follow, 2).await);
    while steps.last() != Some(&6) {
        steps.push(direct.next().await.unwrap().message.step);
        steps.dedup();
    }
    transcript.note("direct", steps);

    // A stream that keeps several messages of a subject.
    let event = address::event(&cluster());
    let words = [("idle", "a"), ("busy", "a"), ("idle", "b"), ("busy", "b")];
    for word in events(1, &words) {
        transcript.result("event", one.store(&event, &word, "").await);
    }
    for start in [
        Start::All,
        Start::LastOn,
        Start::Newest(2),
        Start::Sequence(3),
    ] {
        let mut follow = other.follow(&event, start).await.unwrap();
        let first = follow.next().await.unwrap();
        let came = (first.sequence, first.pending, first.message.seq);
        transcript.note(&format!("{start:?}"), came);
    }
    let mut new = other.follow(&event, Start::New).await.unwrap();
    for word in events(5, &[("idle", "c")]) {
        one.store(&event, &word, "").await.unwrap();
    }
    transcript.note("New", new.next().await.unwrap().sequence);
    let (read, next) = other.read_from(&event, 2, 1 << 20).await.unwrap();
    transcript.note("read", (read.len(), next));
    let (read, next) = other.read_from(&event, 1, 1).await.unwrap();
    transcript.note("a page ends by bytes", (read.len(), next));

    // A bucket.
    let bucket = one.bucket(address::leases_bucket(&cluster()));
    let lease = |name: &str| LeaseRecord {
        trainer: Some(TrainerId::new(name).unwrap()),
        epoch: None,
    };
    let made = bucket.create("n.1", &lease("t1"), "").await.unwrap();
    let twice = bucket.create("n.1", &lease("t2"), "").await;
    transcript.note("created twice", twice.is_err_and(|e| e.is_conflict()));
    let newer = bucket.update("n.1", &lease("t3"), made, "").await.unwrap();
    transcript.note("revisions", newer - made);
    let stale = bucket.update("n.1", &lease("t4"), made, "").await;
    transcript.note("stale", stale.is_err_and(|e| e.is_conflict()));
    bucket.put("n.2", &lease("t5"), "").await.unwrap();
    let list = bucket.list().await.unwrap();
    let list = list
        .iter()
        .map(|e| (e.key.clone(), e.value.trainer.clone(), e.revision - made));
    transcript.note("list", list.collect::<Vec<_>>());
    let deleted = bucket.delete("n.1", newer).await.unwrap();
    transcript.note("deleted", deleted - made);
    transcript.note("after that", bucket.get("n.1").await.unwrap().is_none());
    transcript.note("keys", bucket.list().await.unwrap().len());

    // A queue.
    let incoming = address::incoming_from(&cluster(), "x");
    for text in ["p", "q", "r"] {
        let headers = [("ce-id", text)];
        let stored = one.store_raw(incoming.as_str(), &headers, text.into());
        transcript.result("queued", stored.await.unwrap().wait().await);
    }
    let mut queue = other.queue(&address::incoming(&cluster())).await.unwrap();
    let mut came = Vec::new();
    for _ in 0..3 {
        let next = queue.next().await.unwrap();
        came.push((next.sequence, next.pending, next.payload().to_vec()));
        if next.sequence == 2 {
            queue.done(&next);
        }
    }
    transcript.note("queue", came);
    tokio::time::sleep(Duration::from_millis(700)).await;
    let mut again = other.queue(&address::incoming(&cluster())).await.unwrap();
    transcript.note("what is left", again.next().await.unwrap().sequence);

    // Subjects that no stream keeps, and requests.
    let settled = address::settled(&cluster());
    let mut hears = other.subscribe(&settled).await.unwrap();
    // An answer on the same connection: the subscription has reached the server.
    other.newest(&clock).await.unwrap();
    let word = Settled {
        step: 7,
        complete: true,
    };
    one.publish(&settled, &word, "why").await.unwrap();
    let came = hears.next().await.unwrap();
    transcript.note("published", (came.message.step, came.envelope.correlation));
    let deaf = address::logs(&cluster(), &NodeId::new("n1").unwrap());
    let limit = Duration::from_secs(2);
    transcript.result("no service", one.request_text(&deaf, "?", limit).await);
    let mut asked = other.subscribe_text(&deaf).await.unwrap();
    other.newest(&clock).await.unwrap();
    let answering = async {
        let request = futures::StreamExt::next(&mut asked).await.unwrap();
        request.respond(format!("{}!", request.text)).await.unwrap();
    };
    let (answer, ()) = tokio::join!(one.request_text(&deaf, "here", limit), answering);
    transcript.result("a service", answer);
    transcript.0
}

#[test]
fn it_behaves_as_a_nats_server_does() {
    let nats = TestNats::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let real = runtime.block_on(async {
        let one = connect(&nats, &cluster(), "control").await;
        let other = connect(&nats, &cluster(), "planner").await;
        acts(&one, &other).await
    });
    let delays = Delays {
        least_ms: 1,
        most_ms: 20,
    };
    let simulated = virtual_time::run(1, async {
        let server = SimulatedServer::new(1, delays);
        let one = simulated(&server, "control").await;
        let other = simulated(&server, "planner").await;
        acts(&one, &other).await
    });
    assert!(real.len() > 30, "{real:#?}");
    similar_asserts(&real, &simulated.unwrap());
}

fn similar_asserts(real: &[String], simulated: &[String]) {
    for (real, simulated) in real.iter().zip(simulated) {
        assert_eq!(real, simulated);
    }
    assert_eq!(real.len(), simulated.len());
}

/// The messages that a follower receives during all kinds of outages. The sender publishes a number
/// every 100 ms.
fn outages(seed: u64) -> (Vec<String>, Vec<u64>) {
    let world = virtual_time::run(seed, async {
        let delays = Delays {
            least_ms: 0,
            most_ms: 30,
        };
        let server = SimulatedServer::new(seed, delays);
        let (sender, receiver) = (Host::new("ingest"), Host::new("forecast"));
        let (into, mut out) = tokio::sync::mpsc::unbounded_channel();
        let of_receiver = server.clone();
        receiver.spawn(async move {
            let bus = simulated(&of_receiver, "forecast").await;
            let clock = address::clock(&cluster());
            let mut follow = bus.follow(&clock, Start::LastOn).await.unwrap();
            while let Ok(next) = follow.next().await {
                let at = lacuna_runtime::clock::wall();
                if into.send((at, next.sequence, next.message.step)).is_err() {
                    return;
                }
            }
        });
        let of_sender = server.clone();
        sender.spawn(async move {
            let bus = simulated(&of_sender, "ingest").await;
            let clock = address::clock(&cluster());
            for step in 1..=300 {
                while bus.store(&clock, &tick(step), "").await.is_err() {}
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let pause = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        pause(5).await;
        server.cut("forecast");
        pause(3).await;
        server.mend("forecast");
        pause(5).await;
        server.kill();
        pause(2).await;
        server.start();
        pause(5).await;
        receiver.pause();
        pause(5).await;
        receiver.go_on();
        pause(60).await;
        receiver.kill();
        sender.kill();
        let mut all = Vec::new();
        while let Some(next) = out.recv().await {
            all.push(next);
        }
        all
    });
    let world = world.unwrap();
    let steps = world.iter().map(|(_, _, step)| *step).collect();
    (
        world.iter().map(|next| format!("{next:?}")).collect(),
        steps,
    )
}

#[test]
fn outages_repeat_by_their_seed_and_the_newest_message_arrives_after_each() {
    for seed in 1..=5 {
        let (first, steps) = outages(seed);
        assert_eq!(first, outages(seed).0, "seed {seed}");
        assert!(steps.is_sorted(), "seed {seed}: {steps:?}");
        assert_eq!(steps.last(), Some(&300), "seed {seed}");
    }
    assert_ne!(outages(1).0, outages(2).0);
}

#[test]
fn a_closed_connection_repeats_no_state() {
    let delays = Delays {
        least_ms: 0,
        most_ms: 20,
    };
    for seed in 1..=10 {
        let steps = virtual_time::run(seed, async {
            let server = SimulatedServer::new(seed, delays);
            let clock = address::clock(&cluster());
            let ended = simulated(&server, "ingest").await;
            ended.store(&clock, &tick(1), "").await.unwrap();
            ended.close().await;
            server.kill();
            server.start();
            let next = simulated(&server, "ingest").await;
            next.store(&clock, &tick(2), "").await.unwrap();
            // A client has reconnected by then. The ended process holds its connection still.
            let steps = newest(&next, Duration::from_secs(3)).await;
            drop(ended);
            steps
        });
        assert_eq!(steps.unwrap(), 2, "seed {seed}");
    }
}

/// The newest step that the stream has, some time later.
async fn newest(bus: &Bus, after: Duration) -> u64 {
    tokio::time::sleep(after).await;
    let last = bus.last(&address::clock(&cluster())).await.unwrap();
    last.map_or(0, |last| last.message.step)
}

/// A host that publishes a number every 100 ms.
fn counting(server: &SimulatedServer) -> Host {
    let (host, server) = (Host::new("ingest"), server.clone());
    host.spawn(async move {
        let bus = simulated(&server, "ingest").await;
        for step in 1.. {
            let _ = bus
                .store(&address::clock(&cluster()), &tick(step), "")
                .await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    host
}

#[test]
fn a_stalled_host_is_heard_after_its_end_and_a_failed_machine_no_more() {
    let subject = address::clock(&cluster()).to_string();
    let delays = Delays {
        least_ms: 1,
        most_ms: 20,
    };
    let (short, long) = (Duration::from_millis(100), Duration::from_secs(5));
    virtual_time::run(1, async {
        let server = SimulatedServer::new(1, delays);
        let reader = simulated(&server, "reader").await;
        let host = counting(&server);
        let stalls = server.set_trap("ingest", &subject, 2, Trap::Stall);
        stalls.await.unwrap();
        assert_eq!(newest(&reader, long).await, 2, "the third message is held");
        host.kill();
        server.flow("ingest");
        assert!(newest(&reader, short).await > 2, "it arrives late");
        let server = SimulatedServer::new(2, delays);
        let reader = simulated(&server, "reader").await;
        let host = counting(&server);
        let fails = server.set_trap("ingest", &subject, 2, Trap::Lose);
        fails.await.unwrap();
        host.kill();
        assert_eq!(newest(&reader, long).await, 3, "the third message arrives");
    })
    .unwrap();
}

#[test]
fn a_control_that_cannot_lead_since_nothing_is_kept_says_so() {
    let delays = Delays {
        least_ms: 1,
        most_ms: 20,
    };
    virtual_time::run(1, async {
        let server = SimulatedServer::new(1, delays);
        let mut config: Config = Config::default();
        config.cluster.id = cluster();
        let start = |host: &Host| {
            simulate(host, "control", &server, &config, |_: Context| {
                Box::pin(std::future::pending())
            });
        };
        let hosts = [Host::new("first"), Host::new("second")];
        let bus = simulated(&server, "cli").await;
        let asked = address::requests_of(&cluster(), "ann");
        let ask = || bus.request::<Request, Reply>(&asked, &Request::Nodes, Duration::from_secs(2));
        start(&hosts[0]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.fill();
        hosts[0].kill();
        start(&hosts[1]);
        let none = ask().await;
        assert!(
            matches!(none, Err(BusError::NoResponders { .. })),
            "{none:?}"
        );
        let mut answer = ask().await;
        for _ in 0..120 {
            if answer.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            answer = ask().await;
        }
        let (code, reason) = match answer.unwrap() {
            Reply::Refused { code, reason } => (code, reason),
            other => (String::new(), format!("{other:?}")),
        };
        assert_eq!(code, "L0002");
        assert!(reason.contains("its disk may be full"), "{reason}");
        // With room again it leads, and answers no more.
        server.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.start();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let none = ask().await;
        assert!(
            matches!(none, Err(BusError::NoResponders { .. })),
            "{none:?}"
        );
    })
    .unwrap();
}

#[test]
fn a_control_that_leads_when_the_disk_fills_refuses_with_the_reason_and_does_nothing_of_it_later() {
    virtual_time::run(1, async {
        let server = SimulatedServer::new(
            1,
            Delays {
                least_ms: 1,
                most_ms: 20,
            },
        );
        let mut config: Config = Config::default();
        config.cluster.id = cluster();
        let host = Host::new("leads");
        let (into, mut taken) = tokio::sync::mpsc::unbounded_channel();
        // Its loop is at each request for a second.
        simulate(
            &host,
            "control",
            &server,
            &config,
            move |context: Context| {
                Box::pin(async move {
                    let mut requests = context.bus.requests().await?;
                    let turns = context.health.check(LOOP, None);
                    loop {
                        turns.ok();
                        let request = requests.next().await?;
                        into.send(request.message.clone()).unwrap();
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        let _ = context
                            .bus
                            .respond(
                                &request,
                                &Reply::Accepted {
                                    trainers: Vec::new(),
                                },
                            )
                            .await;
                    }
                })
            },
        );
        let bus = simulated(&server, "cli").await;
        let asked = address::requests_of(&cluster(), "ann");
        let ask = |name: &str| {
            let request = Request::Cancel {
                trainer: TrainerId::new(name).unwrap(),
            };
            let (bus, asked) = (bus.clone(), asked.clone());
            async move {
                bus.request::<Request, Reply>(&asked, &request, Duration::from_secs(20))
                    .await
            }
        };
        let pause = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        pause(5).await;
        assert!(matches!(ask("before").await, Ok(Reply::Accepted { .. })));
        server.fill();
        pause(4).await;
        let refused = futures::future::join_all(["a", "b", "c"].map(ask)).await;
        for answer in refused {
            let Ok(Reply::Refused { code, reason }) = answer else {
                panic!("{answer:?}");
            };
            assert_eq!(code, "L0002");
            assert!(reason.contains("its disk may be full"), "{reason}");
        }
        // With room again it leads on by itself.
        server.kill();
        pause(1).await;
        server.start();
        pause(20).await;
        assert!(matches!(ask("after").await, Ok(Reply::Accepted { .. })));
        let names = std::iter::from_fn(|| taken.try_recv().ok()).map(|request| match request {
            Request::Cancel { trainer } => trainer.to_string(),
            other => format!("{other:?}"),
        });
        assert_eq!(names.collect::<Vec<_>>(), ["before", "after"]);
    })
    .unwrap();
}
