//! The bus over a real nats-server, which is killed during the tests.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on stops"
)]

use std::time::Duration;

use lacuna_model::{ClusterId, NodeEvent, NodeId, Progress, RunId, Span, Timestamp, TrainerId};
use lacuna_runtime::clock::wall;
use lacuna_runtime::config::BusSettings;
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_runtime::{Bus, BusError, Follow, Health, Newest, Received, Start, Stopwatch};
use lacuna_testkit::{TestNats, connect, events};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, LeaseRecord, Pace, Reply, Request, Settled};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Headers of a tick of a newer release.
const NEWER: [(&str, &str); 3] = [
    ("ce-id", "1"),
    ("ce-type", "lacuna.clock"),
    ("ce-dataversion", "99"),
];

const WAIT: Duration = Duration::from_secs(20);

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

async fn next<M>(follow: &mut Follow<M>) -> Received<M> {
    tokio::time::timeout(WAIT, follow.next())
        .await
        .expect("nothing came")
        .unwrap()
}

async fn stored(bus: &Bus, event: &NodeEvent) {
    // An outage may lose the acknowledgement of a write, so the caller repeats it.
    let waiting = Stopwatch::start();
    while let Err(e) = bus.store(&address::event(&cluster()), event, "cause").await {
        assert!(waiting.seconds() < 20.0, "{e}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_follower_gets_the_last_value_and_then_every_newer_one() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let clock = address::clock(&cluster());
    assert!(bus.last(&clock).await.unwrap().is_none());
    for step in 1..=3 {
        bus.store(&clock, &tick(step), "cause").await.unwrap();
    }
    let mut follow = bus.follow(&clock, Start::Last).await.unwrap();
    let first = next(&mut follow).await;
    assert_eq!(first.message.step, 3);
    assert_eq!(first.envelope.correlation, "cause");
    assert_eq!(first.envelope.source, "lacuna/test");
    bus.store(&clock, &tick(4), "").await.unwrap();
    assert_eq!(next(&mut follow).await.message.step, 4);
    assert_eq!(bus.last(&clock).await.unwrap().unwrap().message.step, 4);
}

#[tokio::test]
async fn followers_survive_kill_and_restart_of_the_server() {
    let mut nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let clock = address::clock(&cluster());
    let mut states = bus.follow(&clock, Start::Last).await.unwrap();
    let mut stream = bus
        .follow(&address::event(&cluster()), Start::New)
        .await
        .unwrap();
    let all = events(
        1,
        &[("idle", "a"), ("busy", "a"), ("idle", "b"), ("busy", "b")],
    );
    stored(&bus, &all[0]).await;
    assert_eq!(next(&mut stream).await.message, all[0]);
    bus.store(&clock, &tick(1), "").await.unwrap();
    assert_eq!(next(&mut states).await.message.step, 1);
    for (round, event) in all.iter().enumerate().skip(1) {
        nats.kill();
        nats.restart();
        let back = Stopwatch::start();
        stored(&bus, event).await;
        let mut seen = next(&mut stream).await.message;
        // The event before may be lost with the server's buffer, but is never repeated.
        while seen.seq < event.seq {
            seen = next(&mut stream).await.message;
        }
        assert_eq!(&seen, event);
        let step = 10 + u64::try_from(round).unwrap();
        bus.store(&clock, &tick(step), "").await.unwrap();
        while next(&mut states).await.message.step != step {}
        println!(
            "round {round}: received again after {:.3} s",
            back.seconds()
        );
        assert!(back.seconds() < 10.0, "took {} s", back.seconds());
    }
}

/// Forwards connections to a server until it is dropped.
struct Wire {
    port: u16,
    _tasks: JoinSet<()>,
}

impl Wire {
    async fn start(port: u16, server: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut passed = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let mut server = TcpStream::connect(&server).await.unwrap();
                passed.spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self {
            port,
            _tasks: tasks,
        }
    }
}

#[tokio::test]
async fn no_report_is_missed_while_the_connection_is_away() {
    let nats = TestNats::start();
    let server = nats.url().replace("nats://", "");
    let wire = Wire::start(0, server.clone()).await;
    let port = wire.port;
    let settings = BusSettings {
        url: format!("nats://127.0.0.1:{port}"),
        ..nats.settings()
    };
    let (registry, health) = (Registry::new(), Health::default());
    let bus = Bus::connect(&settings, &cluster(), "test", &registry, &health)
        .await
        .unwrap();
    let trainer = TrainerId::new("a").unwrap();
    let node = NodeId::new("n1").unwrap();
    let of_a = address::progress(&cluster(), &node, &trainer);
    let report = |run: u64| {
        let at = Timestamp::from_unix(1);
        Progress::new(node.clone(), trainer.clone(), RunId(run), at, 1.0)
    };
    let other = connect(&nats, &cluster(), "other").await;
    for run in 1..=2 {
        other.store(&of_a, &report(run), "").await.unwrap();
    }
    let all = address::progress_all(&cluster());
    let mut reports = bus.follow(&all, Start::LastOn).await.unwrap();
    assert_eq!(next(&mut reports).await.message.run, RunId(2));
    drop(wire);
    for run in 3..=5 {
        other.store(&of_a, &report(run), "").await.unwrap();
    }
    let _wire = Wire::start(port, server).await;
    for run in 3..=5 {
        assert_eq!(next(&mut reports).await.message.run, RunId(run));
    }
}

#[tokio::test]
async fn streams_are_made_again_when_the_server_has_lost_its_disk() {
    let mut nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let clock = address::clock(&cluster());
    let mut states = bus.follow(&clock, Start::Last).await.unwrap();
    bus.store(&clock, &tick(1), "").await.unwrap();
    assert_eq!(next(&mut states).await.message.step, 1);
    nats.kill();
    nats.wipe();
    nats.restart();
    let waiting = Stopwatch::start();
    while bus.store(&clock, &tick(2), "").await.is_err() {
        assert!(waiting.seconds() < 20.0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(next(&mut states).await.message.step, 2);
}

#[tokio::test]
async fn only_one_writer_wins_a_lease() {
    let mut nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "control").await;
    let leases = bus.bucket(address::leases_bucket(&cluster()));
    assert!(leases.list().await.unwrap().is_empty());
    let lease = LeaseRecord {
        trainer: None,
        epoch: None,
    };
    let first = leases.create("a.b_c", &lease, "").await.unwrap();
    assert!(
        leases
            .create("a.b_c", &lease, "")
            .await
            .unwrap_err()
            .is_conflict()
    );
    let racers = (0..8).map(|_| leases.update("a.b_c", &lease, first, ""));
    let results = futures::future::join_all(racers).await;
    let won: Vec<u64> = results
        .iter()
        .filter_map(|r| r.as_ref().ok().copied())
        .collect();
    assert_eq!(won.len(), 1);
    assert!(
        results
            .iter()
            .flat_map(|r| r.as_ref().err())
            .all(BusError::is_conflict)
    );
    leases.create("other", &lease, "").await.unwrap();
    nats.kill();
    nats.restart();
    let waiting = Stopwatch::start();
    let listed = loop {
        match leases.list().await {
            Ok(listed) => break listed,
            Err(e) => assert!(waiting.seconds() < 20.0, "{e}"),
        }
    };
    let keys: Vec<&str> = listed.iter().map(|e| e.key.as_str()).collect();
    assert_eq!(keys, ["a.b_c", "other"]);
    assert_eq!(listed[0].revision, won[0]);
    assert_eq!(leases.get("a.b_c").await.unwrap().unwrap().revision, won[0]);
    let other = listed[1].revision;
    assert!(leases.delete("other", 1).await.unwrap_err().is_conflict());
    let marker = leases.delete("other", other).await.unwrap();
    assert_eq!(leases.list().await.unwrap().len(), 1);
    // The next write goes after the marker, which expires.
    let newest = leases.newest("other").await.unwrap();
    assert_eq!(newest, Newest::Unreadable { sequence: marker });
    let subject = address::leases_bucket(&cluster()).key("other");
    let stream = bus
        .nats()
        .unwrap()
        .jetstream
        .get_stream(subject.stream().unwrap())
        .await;
    let kept = stream.unwrap().direct_get(marker).await.unwrap();
    assert_eq!(kept.headers.get("Nats-TTL").unwrap().as_str(), "60s");
}

#[tokio::test]
async fn an_undecodable_message_becomes_a_dead_letter() {
    let nats = TestNats::start();
    let (registry, health) = (Registry::new(), Health::default());
    let bus = Bus::connect(&nats.settings(), &cluster(), "test", &registry, &health)
        .await
        .unwrap();
    let clock = address::clock(&cluster());
    let mut states = bus.follow(&clock, Start::Last).await.unwrap();
    let mut dead = bus
        .follow(&address::dead_all(&cluster()), Start::All)
        .await
        .unwrap();
    let raw = bus.store_raw(clock.as_str(), &NEWER, vec![1, 2, 3]).await;
    raw.unwrap().wait().await.unwrap();
    let letter = next(&mut dead).await.message;
    assert_eq!(letter.subject, "lacuna.v1.c.state.clock");
    assert_eq!(letter.payload, [1, 2, 3]);
    assert!(letter.reason.contains("version 99"), "{}", letter.reason);
    assert!(letter.reason.contains("upgrade"), "{}", letter.reason);
    bus.store(&clock, &tick(7), "").await.unwrap();
    assert_eq!(next(&mut states).await.message.step, 7);
    let text = expose(&registry).unwrap();
    assert!(
        text.contains("lacuna_bus_dead_letters_total{service=\"test\"} 1"),
        "{text}"
    );
}

#[tokio::test]
async fn an_undecodable_message_has_a_number_and_is_overwritten() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let clock = address::clock(&cluster());
    assert!(matches!(bus.newest(&clock).await, Ok(Newest::Nothing)));
    let raw = bus.store_raw(clock.as_str(), &[], vec![1, 2, 3]).await;
    let sequence = raw.unwrap().wait().await.unwrap();
    let found = bus.newest(&clock).await.unwrap();
    assert!(matches!(found, Newest::Unreadable { sequence: at } if at == sequence));
    assert!(bus.last(&clock).await.unwrap().is_none());
    bus.store_after(&clock, &tick(1), "", sequence)
        .await
        .unwrap();
    let found = bus.newest(&clock).await.unwrap().decoded().unwrap();
    assert_eq!(found.message.step, 1);
    // A message of a version that is not read is kept.
    let [id, kind, newer] = NEWER;
    for version in [newer, ("ce-dataversion", "0")] {
        let headers = [id, kind, version];
        let raw = bus.store_raw(clock.as_str(), &headers, vec![1, 2, 3]).await;
        raw.unwrap().wait().await.unwrap();
        let error = bus.newest(&clock).await.unwrap_err();
        assert!(matches!(error, BusError::Decode { .. }), "{error}");
        assert!(bus.last(&clock).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn an_answer_of_the_server_is_not_taken_for_a_message() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let clock = address::clock(&cluster());
    let mut heard = bus.follow(&clock, Start::All).await.unwrap();
    bus.store(&clock, &tick(1), "").await.unwrap();
    assert_eq!(next(&mut heard).await.message.step, 1);
    // A reader lets the server send the answer to a subject on which the reader has no permission,
    // twice. Then the subject carries a message of the server twice.
    let read = format!("$JS.API.DIRECT.GET.{}.{clock}", clock.stream().unwrap());
    for _ in 0..2 {
        let before = bus.newest_number(&clock).await.unwrap();
        let asked = bus.nats().unwrap().client.publish_with_reply(
            read.clone(),
            clock.to_string(),
            "".into(),
        );
        asked.await.unwrap();
        let waiting = Stopwatch::start();
        while bus.newest_number(&clock).await.unwrap() == before {
            assert!(waiting.seconds() < 10.0, "the answer was not stored");
        }
        let newest = bus.newest(&clock).await.unwrap();
        assert!(matches!(newest, Newest::Unreadable { .. }), "{newest:?}");
    }
    bus.store(&clock, &tick(2), "").await.unwrap();
    assert_eq!(next(&mut heard).await.message.step, 2);
}

#[tokio::test]
async fn requests_are_answered_or_fail_without_a_service() {
    let nats = TestNats::start();
    let asker = connect(&nats, &cluster(), "cli").await;
    let control = connect(&nats, &cluster(), "control").await;
    let subject = address::requests_of(&cluster(), "tester");
    let ask = |limit| asker.request::<Request, Reply>(&subject, &Request::Totals, limit);
    let error = ask(WAIT).await.unwrap_err();
    assert!(matches!(error, BusError::NoResponders { .. }), "{error}");
    let mut requests = control.subscribe(&subject).await.unwrap();
    let answer = Reply::Accepted { trainers: vec![] };
    let expected = answer.clone();
    tokio::spawn(async move {
        let request = requests.next().await.unwrap();
        control.respond(&request, &answer).await.unwrap();
        // The second request remains unanswered.
        requests.next().await.unwrap();
        std::future::pending::<()>().await;
    });
    assert_eq!(ask(WAIT).await.unwrap(), expected);
    let late = ask(Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(late, BusError::Timeout { .. }), "{late}");
}

#[tokio::test]
async fn a_queue_repeats_unprocessed_messages() {
    let mut nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "ingest").await;
    let incoming = address::incoming(&cluster());
    let publish = address::incoming_from(&cluster(), "slurm.1");
    for n in 0..3_u8 {
        let stored = bus.store_raw(publish.as_str(), &[], vec![n]).await;
        stored.unwrap().wait().await.unwrap();
    }
    let mut queue = bus.queue(&incoming).await.unwrap();
    for n in 0..2_u8 {
        let delivery = tokio::time::timeout(WAIT, queue.next()).await;
        let delivery = delivery.unwrap().unwrap();
        assert_eq!(delivery.payload(), [n]);
        if n == 0 {
            queue.done(&delivery);
        }
    }
    // The message is removed a moment later.
    let watch = Stopwatch::start();
    let held = || async {
        let stream = bus
            .nats()
            .unwrap()
            .jetstream
            .get_stream(incoming.stream().unwrap())
            .await;
        stream.unwrap().cached_info().state.first_sequence
    };
    while held().await != 2 {
        assert!(watch.span() < Span::from_secs(10), "not taken out");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(queue);
    nats.kill();
    nats.restart();
    let bus = connect(&nats, &cluster(), "ingest").await;
    let mut queue = bus.queue(&incoming).await.unwrap();
    for n in 1..3_u8 {
        let delivery = tokio::time::timeout(WAIT, queue.next()).await;
        assert_eq!(delivery.expect("not read again").unwrap().payload(), [n]);
    }
}

/// Of three messages the second ends its readers. The first, at which two end by chance, has been read
/// between.
#[tokio::test]
async fn a_message_that_ends_two_readers_is_a_dead_letter() {
    let nats = TestNats::start();
    let incoming = address::incoming(&cluster());
    let publish = address::incoming_from(&cluster(), "slurm.1");
    let bus = connect(&nats, &cluster(), "ingest").await;
    for n in 0..3_u8 {
        let stored = bus.store_raw(publish.as_str(), &[], vec![n]).await;
        stored.unwrap().wait().await.unwrap();
    }
    let mut letters = bus.subscribe(&address::dead_all(&cluster())).await.unwrap();
    // What each reader reads, and at which message it ends.
    for (ends_at, reads) in [
        (Some(0), vec![]),
        (Some(1), vec![0]),
        (Some(0), vec![]),
        (Some(1), vec![0]),
        (None, vec![0, 2]),
    ] {
        let bus = connect(&nats, &cluster(), "ingest").await;
        let mut queue = bus.queue(&incoming).await.unwrap();
        let mut read = Vec::new();
        for n in 0..3_u8 {
            let delivery = tokio::time::timeout(WAIT, queue.next()).await;
            let delivery = delivery.unwrap().unwrap();
            assert_eq!(delivery.payload(), [n]);
            let may_be_read = queue.begin(&delivery).await;
            if ends_at == Some(n) {
                break;
            }
            read.extend(may_be_read.then_some(n));
        }
        if ends_at.is_none() {
            queue.end().await;
        }
        assert_eq!(read, reads);
    }
    let letter = tokio::time::timeout(WAIT, letters.next()).await;
    let letter = letter.expect("no dead letter").unwrap().message;
    assert_eq!(
        (letter.payload, letter.subject),
        (vec![1], publish.to_string())
    );
    assert!(
        letter.reason.contains("readers have ended"),
        "{}",
        letter.reason
    );
}

#[tokio::test]
async fn a_queue_continues_at_its_place_after_an_outage() {
    let mut nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "ingest").await;
    let publish = address::incoming_from(&cluster(), "slurm.1");
    let mut queue = bus.queue(&address::incoming(&cluster())).await.unwrap();
    for n in 0..4_u8 {
        let stored = bus.store_raw(publish.as_str(), &[], vec![n]).await;
        stored.unwrap().wait().await.unwrap();
        let delivery = tokio::time::timeout(WAIT, queue.next()).await;
        // The messages are unprocessed, and still none is delivered twice to the same reader.
        assert_eq!(delivery.expect("not read").unwrap().payload(), [n]);
        if n == 1 {
            let mut link = bus.link();
            let before = link.seen().generation;
            nats.kill();
            nats.restart();
            let back = link.wait_for(|now| now.up && now.generation > before);
            tokio::time::timeout(WAIT, back).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_queue_of_an_older_release_is_refused_with_the_remedy() {
    let nats = TestNats::start();
    let name = address::incoming(&cluster()).stream().unwrap().to_owned();
    let client = async_nats::connect(nats.url()).await.unwrap();
    let older = async_nats::jetstream::stream::Config {
        name: name.clone(),
        subjects: vec![address::incoming(&cluster()).to_string()],
        retention: async_nats::jetstream::stream::RetentionPolicy::WorkQueue,
        ..Default::default()
    };
    let js = async_nats::jetstream::new(client);
    js.create_stream(older).await.unwrap();
    let settings = BusSettings {
        url: nats.url(),
        ..BusSettings::default()
    };
    let (registry, health) = (Registry::new(), Health::default());
    let connected = Bus::connect(&settings, &cluster(), "ingest", &registry, &health).await;
    let error = connected.err().unwrap().to_string();
    assert!(error.contains(&format!("nats stream rm {name}")), "{error}");
}

#[tokio::test]
async fn a_state_is_written_only_after_the_known_one() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "ingest").await;
    let other = connect(&nats, &cluster(), "ingest").await;
    let clock = address::clock(&cluster());
    let first = bus.store_after(&clock, &tick(1), "", 0).await.unwrap();
    let late = other.store_after(&clock, &tick(2), "", 0).await;
    assert!(late.unwrap_err().is_conflict());
    let second = other.store_after(&clock, &tick(3), "", first).await;
    let second = second.unwrap();
    let late = bus.store_after(&clock, &tick(4), "", first).await;
    assert!(late.unwrap_err().is_conflict());
    let last = bus.last(&clock).await.unwrap().unwrap();
    assert_eq!((last.message, last.sequence), (tick(3), second));
    assert_eq!(Bus::sender(&last.envelope), other.instance());
    assert_ne!(bus.instance(), other.instance());
}

#[tokio::test]
async fn a_new_reader_of_a_queue_gets_unprocessed_messages_at_once_and_in_order() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "ingest").await;
    let incoming = address::incoming(&cluster());
    let publish = address::incoming_from(&cluster(), "slurm.1");
    // More messages than a queue delivers ahead, so that the client holds some.
    let mut stored = Vec::new();
    for n in 0..1500_u16 {
        let bytes = n.to_be_bytes().to_vec();
        stored.push(bus.store_raw(publish.as_str(), &[], bytes).await.unwrap());
    }
    for ack in stored {
        ack.wait().await.unwrap();
    }
    let stored_by = wall();
    let mut first = bus.queue(&incoming).await.unwrap();
    let taken = tokio::time::timeout(WAIT, first.next()).await.unwrap();
    assert_eq!(taken.unwrap().payload(), [0, 0]);
    let mut second = bus.queue(&incoming).await.unwrap();
    drop(first);
    for n in 0..1500_u16 {
        let delivery = tokio::time::timeout(WAIT, second.next()).await;
        let delivery = delivery.expect("not read").unwrap();
        assert_eq!(delivery.payload(), n.to_be_bytes());
        assert!(delivery.stored <= stored_by, "{delivery:?}");
        second.done(&delivery);
    }
}

#[tokio::test]
async fn without_a_server_the_error_has_a_remedy() {
    let settings = BusSettings {
        // The system never gives this port to a program.
        url: "nats://127.0.0.1:1".to_owned(),
        connect_limit: Span::from_ms(300),
        ..BusSettings::default()
    };
    let (registry, health) = (Registry::new(), Health::default());
    let error = Bus::connect(&settings, &cluster(), "test", &registry, &health)
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, BusError::Unreachable { .. }));
    assert!(
        text.contains("lacuna up") && text.contains("--nats"),
        "{text}"
    );
}

#[tokio::test]
async fn a_subject_that_no_stream_keeps_cannot_be_followed() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let error = bus
        .follow(&address::settled(&cluster()), Start::Last)
        .await
        .unwrap_err();
    assert!(matches!(error, BusError::NotKept { .. }), "{error}");
    let mut settled = bus.subscribe(&address::settled(&cluster())).await.unwrap();
    let message = Settled {
        step: 1,
        complete: true,
    };
    bus.publish(&address::settled(&cluster()), &message, "")
        .await
        .unwrap();
    let heard = tokio::time::timeout(WAIT, settled.next())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(heard.message, message);
}

#[tokio::test]
async fn a_server_waits_for_its_port_while_another_program_has_it() {
    let mut nats = TestNats::start();
    let at = nats.url().replace("nats://", "");
    nats.kill();
    let other = std::net::TcpListener::bind(at).unwrap();
    let freed = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(other);
    });
    nats.restart();
    freed.join().unwrap();
    connect(&nats, &cluster(), "test").await;
}
