//! Control against a real nats-server; the test plays ingest, planner and agents.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use lacuna_control_service::Config;
use lacuna_control_service::run;
use lacuna_model::{
    Action, Activity, AgentStatus, Allocation, Command, Directory, Elastic, EventKind, Hole,
    Launch, NodeEvent, NodeId, Plan, Progress, Span, Timestamp, TrainerId, TrainerRecord,
    TrainerSpec,
};
use lacuna_runtime::{
    Bus, Follow, NoArgs, ServiceError, Start, Stopwatch, Subscription,
    metrics::{Registry, expose},
};
use lacuna_testkit::{TestNats, connect, torch_python};
use lacuna_trainer::Now;
use lacuna_trainer::agent::{Agent, Effect};
use lacuna_wire::address;
use lacuna_wire::msg::{LeaseRecord, PlanState, Reply, Request, TrainersState};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use common::{cluster, context};

const LIMIT: Duration = Duration::from_secs(20);

fn name(n: usize) -> NodeId {
    NodeId::new(format!("n{n:03}")).unwrap()
}

type Running = tokio::task::JoinHandle<Result<(), ServiceError>>;

async fn control(nats: &TestNats, registry: &Registry) -> (CancellationToken, Running) {
    let shutdown = CancellationToken::new();
    let ctx = context(nats, Config::default(), registry, &shutdown).await;
    (shutdown, tokio::spawn(run(ctx, NoArgs {})))
}

/// Plays all agents on one connection; keeps the commands that each has obeyed.
struct Agents {
    bus: Bus,
    commands: Follow<Command>,
    agents: BTreeMap<NodeId, Agent>,
}

impl Agents {
    async fn new(nats: &TestNats) -> Self {
        let bus = connect(nats, &cluster(), "agent").await;
        let commands = bus
            .follow(&address::commands(&cluster()), Start::Last)
            .await
            .unwrap();
        Self {
            bus,
            commands,
            agents: BTreeMap::new(),
        }
    }

    /// Obeys commands until `enough`.
    async fn until(&mut self, enough: impl Fn(&BTreeMap<NodeId, Agent>) -> bool) {
        let deadline = tokio::time::sleep(LIMIT);
        tokio::pin!(deadline);
        while !enough(&self.agents) {
            tokio::select! {
                () = &mut deadline => panic!("agents are not where they should be"),
                command = self.commands.next() => {
                    let command = command.unwrap().message;
                    let node = command.node.clone();
                    let agent = self.agents.entry(node.clone())
                        .or_insert_with(|| Agent::new(node.clone(), Span::from_secs(60)));
                    let mut effects = agent.command(command, Now::default());
                    while let Some(effect) = (!effects.is_empty()).then(|| effects.remove(0)) {
                        match effect {
                            Effect::Stop { run, .. } => effects.extend(agent.stopped(run)),
                            Effect::Report(status) => {
                                let subject = address::agent(&cluster(), &node);
                                self.bus.publish(&subject, &status, "").await.unwrap();
                            }
                            // No trainer here regroups.
                            Effect::Start(_)
                            | Effect::Prepare(_)
                            | Effect::Regroup { .. }
                            | Effect::Refused { .. }
                            | Effect::Contradicted { .. } => {}
                        }
                    }
                }
            }
        }
    }
}

fn running(agents: &BTreeMap<NodeId, Agent>, trainer: &str) -> usize {
    agents
        .values()
        .filter(|a| {
            a.running()
                .is_some_and(|run| run.trainer.as_str() == trainer)
        })
        .count()
}

/// The newest trainers for which `wanted` holds.
async fn trainers(
    follow: &mut Follow<TrainersState>,
    wanted: impl Fn(&TrainersState) -> bool,
) -> TrainersState {
    let found = tokio::time::timeout(LIMIT, async {
        loop {
            let state = follow.next().await.unwrap().message;
            if wanted(&state) {
                return state;
            }
        }
    });
    found.await.expect("trainers never came to that")
}

/// Submits trainer a, gives it two nodes by a plan, and waits until their agents run it.
async fn train_on_two(bus: &Bus, agents: &mut Agents, states: &mut Follow<TrainersState>) {
    let submit = Request::Submit {
        trainers: vec![lacuna_testkit::spec("a", 2)],
        tickets: std::collections::BTreeMap::new(),
        test_only: false,
    };
    assert!(matches!(ask(bus, &submit).await, Reply::Accepted { .. }));
    let state = trainers(states, |s| s.trainers.len() == 1).await;
    let first = plan(1, 1, state.version, &[("a", 0..2)]);
    let plans = address::plan(&cluster());
    bus.store(&plans, &first, "plan").await.unwrap();
    agents.until(|a| running(a, "a") == 2).await;
}

fn plan(
    generation: u64,
    seq: u64,
    version: u64,
    sizes: &[(&str, std::ops::Range<usize>)],
) -> PlanState {
    let allocations = sizes
        .iter()
        .map(|(trainer, nodes)| Allocation {
            trainer: TrainerId::new(trainer).unwrap(),
            nodes: nodes.clone().map(name).collect(),
        })
        .collect();
    PlanState {
        plan: Plan::by_hand(generation, Timestamp::from_unix(100), seq, allocations),
        trainers_version: version,
        runs: Vec::new(),
        latency_s: 0.0,
    }
}

fn nodes_of(state: &TrainersState, trainer: &str) -> usize {
    let found = state
        .trainers
        .iter()
        .find(|t| t.spec.id.as_str() == trainer);
    found.map_or(0, |t| t.nodes.len())
}

async fn ask(bus: &Bus, request: &Request) -> Reply {
    let subject = address::requests_of(&cluster(), "tester");
    bus.request(&subject, request, LIMIT).await.unwrap()
}

/// Publishes a snapshot with this number of idle nodes.
async fn idle(bus: &Bus, nodes: usize) {
    let at = Timestamp::from_unix(100);
    let idle = (0..nodes)
        .map(|n| Hole {
            node: name(n),
            since: at,
        })
        .collect();
    let snapshot = NodeEvent {
        seq: 1,
        at,
        kind: EventKind::Snapshot { idle },
    };
    let subject = address::snapshot(&cluster());
    bus.store(&subject, &snapshot, "").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_stored_before_any_command_and_go_with_the_trainer() {
    const NODES: usize = 40;
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    idle(&bus, NODES).await;
    let (stop, running_control) = control(&nats, &Registry::new()).await;
    let mut states = bus
        .follow(&address::trainers(&cluster()), Start::Last)
        .await
        .unwrap();
    let program = TrainerSpec {
        launch: lacuna_testkit::launch(Elastic::Restart),
        ..lacuna_testkit::spec("a", 100)
    };
    let a = program.id.clone();
    let submit = Request::Submit {
        trainers: vec![program],
        tickets: std::collections::BTreeMap::new(),
        test_only: false,
    };
    trainers(&mut states, |_| true).await;
    assert!(matches!(ask(&bus, &submit).await, Reply::Accepted { .. }));
    let state = trainers(&mut states, |s| s.trainers.len() == 1).await;
    let mut commands = bus.subscribe(&address::commands(&cluster())).await.unwrap();
    let first = plan(1, 1, state.version, &[("a", 0..NODES)]);
    let plans = address::plan(&cluster());
    bus.store(&plans, &first, "").await.unwrap();
    let heard = tokio::time::timeout(LIMIT, commands.next()).await;
    let command = heard.expect("no command").unwrap().message;
    let members = address::members(&cluster(), &a);
    let kept = bus.last(&members).await.unwrap().unwrap().message;
    let all: Vec<NodeId> = (0..NODES).map(name).collect();
    assert_eq!(kept.nodes, all);
    let Action::Run(part) = command.action else {
        unreachable!("no agent was commanded before");
    };
    assert_eq!((part.run, part.nodes as usize), (kept.run, NODES));
    assert_eq!(kept.nodes.get(part.rank as usize), Some(&command.node));

    let cancel = Request::Cancel { trainer: a };
    assert!(matches!(ask(&bus, &cancel).await, Reply::Accepted { .. }));
    let watch = Stopwatch::start();
    while !bus
        .last(&members)
        .await
        .unwrap()
        .unwrap()
        .message
        .nodes
        .is_empty()
    {
        assert!(
            watch.seconds() < LIMIT.as_secs_f64(),
            "they are still there"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.cancel();
    running_control.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_first_then_commands_and_a_restart_touches_nothing() {
    const NODES: usize = 500;
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    idle(&bus, NODES).await;
    let registry = Registry::new();
    let (stop, running_control) = control(&nats, &registry).await;
    let mut agents = Agents::new(&nats).await;
    let mut states = bus
        .follow(&address::trainers(&cluster()), Start::Last)
        .await
        .unwrap();
    trainers(&mut states, |_| true).await;
    let submit = Request::Submit {
        trainers: vec![
            lacuna_testkit::spec("a", 500),
            lacuna_testkit::spec("b", 500),
        ],
        tickets: std::collections::BTreeMap::new(),
        test_only: false,
    };
    assert!(matches!(ask(&bus, &submit).await, Reply::Accepted { .. }));
    assert!(
        matches!(ask(&bus, &submit).await, Reply::Refused { code, .. } if code == "L0008"),
        "the same names were taken twice"
    );
    let state = trainers(&mut states, |s| s.trainers.len() == 2).await;

    // Hundreds of leases in one plan.
    let plans = address::plan(&cluster());
    let watch = Stopwatch::start();
    let first = plan(1, 1, state.version, &[("a", 0..400), ("b", 400..500)]);
    bus.store(&plans, &first, "plan-1").await.unwrap();
    agents
        .until(|a| running(a, "a") == 400 && running(a, "b") == 100)
        .await;
    println!(
        "plan to {NODES} running agents: {:.1} ms",
        watch.seconds() * 1e3
    );
    let leases = bus.bucket::<LeaseRecord>(address::leases_bucket(&cluster()));
    for entry in leases.list().await.unwrap() {
        let agent = &agents.agents[&entry.key.parse::<NodeId>().unwrap()];
        let run = agent.running().unwrap();
        assert_eq!(
            entry.value.trainer.as_ref(),
            Some(&run.trainer),
            "{}",
            entry.key
        );
        assert_eq!(agent.status().epoch.0, entry.revision, "{}", entry.key);
    }

    for line in lacuna_runtime::metrics::expose(&registry).unwrap().lines() {
        if line.starts_with("lacuna_control_lease_write_seconds_sum") {
            println!("{line}");
        }
    }

    // A hundred nodes change hands, each after its agent has let go.
    let state = trainers(&mut states, |s| nodes_of(s, "b") == 100).await;
    let watch = Stopwatch::start();
    let second = plan(2, 1, state.version, &[("a", 0..300), ("b", 300..500)]);
    bus.store(&plans, &second, "plan-2").await.unwrap();
    agents.until(|a| running(a, "b") == 200).await;
    println!("100 nodes change hands in {:.1} ms", watch.seconds() * 1e3);
    let state = trainers(&mut states, |s| nodes_of(s, "b") == 200).await;
    let runs: Vec<_> = state.trainers.iter().map(|t| t.run).collect();

    // Control ends and starts again: the same runs, the same leases.
    stop.cancel();
    running_control.await.unwrap().unwrap();
    let before = leases.list().await.unwrap();
    let (stop, running_control) = control(&nats, &Registry::new()).await;
    let again = trainers(&mut states, |s| s.version > state.version).await;
    assert_eq!(
        again.trainers.iter().map(|t| t.run).collect::<Vec<_>>(),
        runs
    );
    agents.until(|a| running(a, "b") == 200).await;
    assert_eq!(leases.list().await.unwrap(), before);

    // Three nodes leave at once: one preemption, without a plan.
    for (seq, n) in (2..).zip([300, 301, 499]) {
        let event = NodeEvent {
            seq,
            at: Timestamp::from_unix(200),
            kind: EventKind::NodeBusy { node: name(n) },
        };
        let subject = address::event(&cluster());
        bus.store(&subject, &event, "event").await.unwrap();
    }
    agents
        .until(|a| running(a, "b") == 197 && a[&name(499)].status().activity == Activity::Free)
        .await;
    let state = trainers(&mut states, |s| nodes_of(s, "b") == 197).await;
    let b = state
        .trainers
        .iter()
        .find(|t| t.spec.id.as_str() == "b")
        .unwrap();
    assert_eq!(b.preemptions, 1);

    // Cancelled, its nodes come back.
    let cancel = Request::Cancel {
        trainer: TrainerId::new("a").unwrap(),
    };
    assert!(matches!(ask(&bus, &cancel).await, Reply::Accepted { .. }));
    agents.until(|a| running(a, "a") == 0).await;
    let Reply::Totals(totals) = ask(&bus, &Request::Totals).await else {
        panic!("no totals");
    };
    assert_eq!((totals.leased_nodes, totals.pool_nodes), (197, 497));
    stop.cancel();
    running_control.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_count_that_came_while_control_was_away_though_its_start_ends_their_run() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    idle(&bus, 2).await;
    let (stop, running_control) = control(&nats, &Registry::new()).await;
    let mut agents = Agents::new(&nats).await;
    let mut states = bus
        .follow(&address::trainers(&cluster()), Start::Last)
        .await
        .unwrap();
    train_on_two(&bus, &mut agents, &mut states).await;
    let state = trainers(&mut states, |s| nodes_of(s, "a") == 2).await;
    let run = state.trainers[0].run;
    stop.cancel();
    running_control.await.unwrap().unwrap();

    // A control that led meanwhile gave one node back and died.
    let leases = bus.bucket::<LeaseRecord>(address::leases_bucket(&cluster()));
    let key = name(1).to_string();
    let held = leases.get(&key).await.unwrap().unwrap();
    let free = LeaseRecord {
        trainer: None,
        epoch: None,
    };
    leases.update(&key, &free, held.revision, "").await.unwrap();
    let (trainer, at) = (TrainerId::new("a").unwrap(), Timestamp::from_unix(150));
    let report = Progress::new(name(0), trainer, run, at, 50.0);
    let subject = address::progress(&cluster(), &name(0), &report.trainer);
    bus.store(&subject, &report, "").await.unwrap();
    let mut records = bus
        .follow(&address::trainers_bucket(&cluster()).all(), Start::New)
        .await
        .unwrap();
    let (stop, running_control) = control(&nats, &Registry::new()).await;
    let next = async {
        loop {
            let record = records.next().await.unwrap().message;
            if record.run > run {
                return record;
            }
        }
    };
    let next = tokio::time::timeout(LIMIT, next).await;
    let next: TrainerRecord = next.expect("the run without its node went on");
    assert_eq!(next.nodes, [name(0)]);
    assert!((next.samples() - 50.0).abs() < 1e-9, "{}", next.samples());
    stop.cancel();
    running_control.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_control_is_noticed() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let (stop, running_control) = control(&nats, &Registry::new()).await;
    let mut states = bus
        .follow(&address::trainers(&cluster()), Start::Last)
        .await
        .unwrap();
    let first = trainers(&mut states, |_| true).await;
    assert!(first.version > 1_700_000_000_000, "{}", first.version);
    let submit = |name: &str| Request::Submit {
        trainers: vec![lacuna_testkit::spec(name, 4)],
        tickets: std::collections::BTreeMap::new(),
        test_only: false,
    };
    let cancel = |name: &str| Request::Cancel {
        trainer: TrainerId::new(name).unwrap(),
    };
    for name in ["a", "b"] {
        let reply = ask(&bus, &submit(name)).await;
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    }
    let records = bus.bucket::<TrainerRecord>(address::trainers_bucket(&cluster()));

    // Another writer changes the record of b.
    let entry = records.get("b").await.unwrap().unwrap();
    let mut other = entry.value;
    other.reason = "by another writer".to_owned();
    records
        .update("b", &other, entry.revision, "")
        .await
        .unwrap();
    // The other writer has no trainer a.
    let reply = ask(&bus, &cancel("a")).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    assert!(!running_control.is_finished());
    let subject = address::requests_of(&cluster(), "tester");
    let unanswered = bus
        .request::<_, Reply>(&subject, &cancel("b"), Duration::from_secs(2))
        .await;
    assert!(unanswered.is_err(), "{unanswered:?}");
    let ended = tokio::time::timeout(LIMIT, running_control).await;
    let error = ended.unwrap().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("another control runs for cluster c"),
        "{error}"
    );
    stop.cancel();
    let kept = records.get("b").await.unwrap().unwrap().value;
    assert_eq!(kept.reason, "by another writer");

    // A new control adopts the records that are there, under versions of a later time.
    let (stop, running_control) = control(&nats, &Registry::new()).await;
    trainers(&mut states, |s| s.version > first.version + 1000).await;
    let reply = ask(&bus, &cancel("b")).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    stop.cancel();
    running_control.await.unwrap().unwrap();
}

/// Sends a message whose id, source and correlation are this text.
async fn send_as(bus: &Bus, subject: &str, kind: &str, text: &str, payload: Vec<u8>) {
    let mut headers = async_nats::HeaderMap::new();
    for (name, value) in [
        ("ce-id", text),
        ("ce-source", text),
        ("ce-correlationid", text),
        ("ce-type", kind),
        ("ce-dataversion", "1"),
        ("content-type", "application/msgpack"),
    ] {
        headers.insert(name, value);
    }
    let client = &bus.nats().unwrap().client;
    let sent = client.publish_with_headers(subject.to_owned(), headers, payload.into());
    sent.await.unwrap();
    client.flush().await.unwrap();
}

/// The bytes of a trainer's record in the server's stream beyond its payload.
async fn headers_of(bus: &Bus, trainer: &str) -> usize {
    let stream = bus.nats().unwrap().jetstream.clone();
    let stream = stream.get_stream("KV_lac_c_trainers").await.unwrap();
    let subject = format!("$KV.lac_c_trainers.{trainer}");
    let kept = stream.get_last_raw_message_by_subject(&subject).await;
    let headers = kept.unwrap().headers;
    let values = headers.iter().flat_map(|(name, values)| {
        let name: &str = name.as_ref();
        values
            .iter()
            .map(move |value| name.len() + value.as_str().len())
    });
    values.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_senders_long_texts_become_short_headers_of_what_follows() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    idle(&bus, 2).await;
    let (stop, running_control) = control(&nats, &Registry::new()).await;
    let mut states = bus
        .follow(&address::trainers(&cluster()), Start::Last)
        .await
        .unwrap();
    trainers(&mut states, |_| true).await;
    let requests = address::requests_of(&cluster(), "eve");
    let submit = |name: &str, test_only| {
        let submit = Request::Submit {
            trainers: vec![lacuna_testkit::spec(name, 2)],
            tickets: BTreeMap::new(),
            test_only,
        };
        lacuna_wire::codec::encode(&submit).unwrap()
    };
    let cancel = Request::Cancel {
        trainer: TrainerId::new("unknown").unwrap(),
    };
    let cancel = lacuna_wire::codec::encode(&cancel).unwrap();
    let status = Agent::new(name(0), Span::from_secs(60)).status();
    let status = lacuna_wire::codec::encode(&status).unwrap();
    for (n, text) in [
        "\"".repeat(23_000),
        "x".repeat(900_000),
        "\u{fc}\u{1}%".repeat(9_000),
    ]
    .iter()
    .enumerate()
    {
        let subject = requests.as_str();
        let kind = <Request as lacuna_wire::Message>::KIND;
        send_as(&bus, subject, kind, text, submit("checked", true)).await;
        send_as(&bus, subject, kind, text, cancel.clone()).await;
        let name = format!("t{n}");
        send_as(&bus, subject, kind, text, submit(&name, false)).await;
        let node = address::agent(&cluster(), &self::name(0));
        let kind = <AgentStatus as lacuna_wire::Message>::KIND;
        send_as(&bus, node.as_str(), kind, text, status.clone()).await;
        trainers(&mut states, |s| {
            s.trainers.iter().any(|t| t.spec.id.as_str() == name)
        })
        .await;
        let bytes = headers_of(&bus, &name).await;
        assert!(bytes < lacuna_wire::codec::MOST_HEADERS, "{bytes}");
    }
    stop.cancel();
    running_control.await.unwrap().unwrap();
}

/// Sets the size of the bucket of records.
async fn size_bucket(bus: &Bus, bytes: i64) {
    let jetstream = bus.nats().unwrap().jetstream.clone();
    let stream = jetstream.get_stream("KV_lac_c_trainers").await.unwrap();
    let mut config = stream.cached_info().config.clone();
    config.max_bytes = bytes;
    jetstream.update_stream(config).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_the_server_does_not_take_stops_no_other_work() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    idle(&bus, 2).await;
    let (stop, running_control) = control(&nats, &Registry::new()).await;
    let mut states = bus
        .follow(&address::trainers(&cluster()), Start::Last)
        .await
        .unwrap();
    trainers(&mut states, |_| true).await;
    let submit = |names: &[&str]| Request::Submit {
        trainers: names.iter().map(|n| lacuna_testkit::spec(n, 2)).collect(),
        tickets: BTreeMap::new(),
        test_only: false,
    };
    let cancel = |name: &str| Request::Cancel {
        trainer: TrainerId::new(name).unwrap(),
    };
    let no_room = |reply: &Reply| matches!(reply, Reply::Refused { code, .. } if code == "L0025");
    let reply = ask(&bus, &submit(&["a"])).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    trainers(&mut states, |s| s.trainers.len() == 1).await;

    // The server refuses each write, and control answers each request.
    size_bucket(&bus, 1_000).await;
    for _ in 0..2 {
        let reply = ask(&bus, &submit(&["b", "c"])).await;
        assert!(no_room(&reply), "{reply:?}");
    }
    let reply = ask(&bus, &cancel("b")).await;
    assert!(
        matches!(&reply, Reply::Refused { code, .. } if code == "L0009"),
        "{reply:?}"
    );
    let reply = ask(&bus, &cancel("a")).await;
    assert!(no_room(&reply), "{reply:?}");
    assert!(!running_control.is_finished());

    // With room again what is in force is kept.
    size_bucket(&bus, 256 << 20).await;
    let records = bus.bucket::<TrainerRecord>(address::trainers_bucket(&cluster()));
    let watch = Stopwatch::start();
    loop {
        let entry = records.get("a").await.unwrap().unwrap();
        if entry.value.phase.is_final() {
            break;
        }
        assert!(watch.seconds() < LIMIT.as_secs_f64(), "never kept");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let reply = ask(&bus, &submit(&["b", "c"])).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    stop.cancel();
    running_control.await.unwrap().unwrap();
}

/// A scheduler that Lacuna does not know offers nodes and asks for them back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_asked_back_by_an_event_is_released_and_its_scheduler_is_told() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    let at = Timestamp::from_unix(100);
    let idle = (0..2).map(|n| Hole {
        node: name(n),
        since: at,
    });
    let snapshot = NodeEvent {
        seq: 1,
        at,
        kind: EventKind::Snapshot {
            idle: idle.collect(),
        },
    };
    let subject = address::snapshot(&cluster());
    bus.store(&subject, &snapshot, "").await.unwrap();
    let (stop, running_control) = control(&nats, &Registry::new()).await;
    let mut agents = Agents::new(&nats).await;
    let mut states = bus
        .follow(&address::trainers(&cluster()), Start::Last)
        .await
        .unwrap();
    trainers(&mut states, |_| true).await;
    train_on_two(&bus, &mut agents, &mut states).await;

    let mut released = bus.subscribe(&address::released(&cluster())).await.unwrap();
    // A deadline far away: it is released at once all the same.
    let wanted = NodeEvent {
        seq: 2,
        at: Timestamp::from_unix(200),
        kind: EventKind::NodeWanted {
            node: name(1),
            deadline: Timestamp::from_unix(1_000_000),
        },
    };
    bus.store(&address::event(&cluster()), &wanted, "wanted")
        .await
        .unwrap();
    agents
        .until(|a| a[&name(1)].status().activity == Activity::Free && running(a, "a") == 1)
        .await;
    let answer = tokio::time::timeout(LIMIT, released.next()).await;
    let answer = answer.expect("no release was announced").unwrap().message;
    assert_eq!(answer.kind, EventKind::NodeReleased { node: name(1) });
    stop.cancel();
    running_control.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_the_main_scheduler_waited_is_measured() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "agent").await;
    let registry = Registry::new();
    let (stop, running_control) = control(&nats, &registry).await;
    let mut states = bus
        .follow(&address::trainers(&cluster()), Start::Last)
        .await
        .unwrap();
    let _ = trainers(&mut states, |_| true).await;
    let agent = Agent::new(name(1), Span::from_secs(60));
    let subject = address::agent(&cluster(), &name(1));
    let mut last = agent.status();
    last.leaving = true;
    for gave_back_in in [None, Some(Span::from_ms(34))] {
        last.gave_back_in = gave_back_in;
        bus.publish(&subject, &last, "").await.unwrap();
    }
    let wanted = [
        "lacuna_control_harm_seconds_count{cause=\"idle\"} 1",
        "lacuna_control_harm_seconds_sum{cause=\"idle\"} 0.034",
        "lacuna_control_harm_seconds_count{cause=\"preempted\"} 0",
    ];
    let shown = tokio::time::timeout(LIMIT, async {
        loop {
            let text = expose(&registry).unwrap();
            if wanted.iter().all(|line| text.lines().any(|l| l == *line)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    shown.await.expect("harm was not counted");
    stop.cancel();
    running_control.await.unwrap().unwrap();
}

/// A member as PyTorch is one: a group of two over gloo, the rendezvous of torchrun, and a stranger.
const MEMBERS: &str = r#"
import os, sys
from datetime import timedelta
import torch, torch.distributed as dist
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend

where, token = sys.argv[1:]
host, port = where.rsplit(":", 1)

def store():
    short = timedelta(seconds=20)
    return dist.TCPStore(host, int(port), is_master=False, wait_for_workers=False, timeout=short)

rank = 0 if os.fork() else 1
meeting = dist.PrefixStore("t/1", dist.PrefixStore(token, store()))
dist.init_process_group("gloo", store=meeting, rank=rank, world_size=2)
ones = torch.ones(1)
dist.all_reduce(ones)
assert ones.item() == 2.0, ones
dist.barrier()
if rank:
    os._exit(0)
assert os.wait()[1] == 0
backend, _ = create_backend(RendezvousParameters("c10d", where, token, 1, 1, is_host=0))
assert backend.get_state() is None
assert backend.set_state(b"state")[2]
assert backend.get_state()[0] == b"state"
for key in ("key", token[:-1] + "/key", "x" + token + "/key"):
    stranger = store()
    try:
        stranger.compare_set(key, "", "1")
    except (RuntimeError, OSError):
        continue
    raise SystemExit("the store took " + key[:3])
print("met", flush=True)
os._exit(0)
"#;

/// Sends PyTorch 1.13's request for a key. Returns the length of its value; nothing if the store
/// closes the connection.
async fn asked(store: &str, key: &str) -> Option<u64> {
    let mut stream = tokio::net::TcpStream::connect(store).await.unwrap();
    let length = (key.len() as u64).to_le_bytes();
    let get = [&[2_u8][..], &length, key.as_bytes()].concat();
    stream.write_all(&get).await.unwrap();
    let answer = tokio::time::timeout(LIMIT, stream.read_u64_le()).await;
    answer.expect("no answer").ok()
}

/// Stores and tokens of two trainers, as the next commands have them.
async fn meetings(commands: &mut Subscription<Command>) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    while found.len() < 2 {
        let heard = tokio::time::timeout(LIMIT, commands.next()).await;
        let command = heard.expect("no command").unwrap().message;
        assert!(!format!("{command:?}").contains("lacuna-token-"));
        if let Action::Run(part) = command.action {
            let token = part.token.unwrap().reveal().to_owned();
            found.insert(part.trainer.to_string(), (part.store.unwrap(), token));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn members_meet_by_the_token_of_their_command_which_outlives_control() {
    let nats = TestNats::start();
    let bus = connect(&nats, &cluster(), "test").await;
    idle(&bus, 2).await;
    let mut config = Config::default();
    config.control.store = Some("127.0.0.1:0".to_owned());
    let registry = Registry::new();
    let mut stop = CancellationToken::new();
    let ctx = context(&nats, config.clone(), &registry, &stop).await;
    let health = ctx.health.clone();
    let mut running_control = tokio::spawn(run(ctx, NoArgs {}));
    let mut states = bus
        .follow(&address::trainers(&cluster()), Start::Last)
        .await
        .unwrap();
    let spec = |name: &str| TrainerSpec {
        launch: Launch::Command {
            program: "train".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            checkpoint_dir: None,
            directory: Directory::default(),
            environment_from: Vec::new(),
            profile: false,
            family: None,
            elastic: Elastic::Torchrun {
                workers_per_node: 1,
            },
        },
        ..lacuna_testkit::spec(name, 1)
    };
    let submit = Request::Submit {
        trainers: vec![spec("a"), spec("b")],
        tickets: std::collections::BTreeMap::new(),
        test_only: false,
    };
    trainers(&mut states, |_| true).await;
    assert!(matches!(ask(&bus, &submit).await, Reply::Accepted { .. }));
    let state = trainers(&mut states, |s| s.trainers.len() == 2).await;
    let mut commands = bus.subscribe(&address::commands(&cluster())).await.unwrap();
    let first = plan(1, 1, state.version, &[("a", 0..1), ("b", 1..2)]);
    let plans = address::plan(&cluster());
    bus.store(&plans, &first, "").await.unwrap();

    let given = meetings(&mut commands).await;
    let (store, token) = given.get("a").unwrap().clone();
    let (_, others) = given.get("b").unwrap().clone();
    assert_ne!(token, others);
    let refused = |registry: &Registry| {
        let text = expose(registry).unwrap();
        let name = "lacuna_control_store_refused_total ";
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(asked(&store, &format!("/{token}/k")).await, Some(0));
    assert_eq!(asked(&store, &format!("/{others}/k")).await, Some(0));
    assert_eq!(refused(&registry), 0);
    for key in ["/k", "/init/", &format!("/t/{token}")] {
        assert_eq!(asked(&store, key).await, None, "{key}");
    }
    assert_eq!(refused(&registry), 3);
    let checks = health.report().checks;
    assert!(checks.iter().any(|check| check.name == "store" && check.ok));

    // Another control: an empty store, and the same tokens.
    stop.cancel();
    running_control.await.unwrap().unwrap();
    stop = CancellationToken::new();
    let registry = Registry::new();
    let ctx = context(&nats, config, &registry, &stop).await;
    running_control = tokio::spawn(run(ctx, NoArgs {}));
    let again = meetings(&mut commands).await;
    let (store, same) = again.get("a").unwrap();
    assert_eq!(*same, token);
    assert_eq!(asked(store, &format!("/{token}/k")).await, Some(0));
    assert_eq!(asked(store, "/k").await, None);
    match torch_python() {
        Err(missing) => missing.skip_part(),
        Ok(python) => {
            let mut members = tokio::process::Command::new(python);
            let members = members.args(["-c", MEMBERS, store, same]);
            let met = members.kill_on_drop(true).output().await.unwrap();
            let errors = String::from_utf8_lossy(&met.stderr);
            assert_eq!(met.stdout, b"met\n", "{errors}");
            assert_eq!(refused(&registry), 4);
        }
    }
    stop.cancel();
    running_control.await.unwrap().unwrap();
}
