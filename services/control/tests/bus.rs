//! Control on its bus; the test plays ingest, planner and agents.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use lacuna_control_service::{Config, Sections};
use lacuna_model::{
    Action, Activity, AgentStatus, Allocation, Command, Elastic, EventKind, NodeEvent, NodeId,
    Plan, Progress, Span, Timestamp, TrainerId, TrainerRecord, TrainerSpec,
};
use lacuna_runtime::{Bus, Follow, Start, Subscription};
use lacuna_testkit::{
    Server, Service, TestNats, in_virtual_and_real_time, in_virtual_time, torch_python, until,
};
use lacuna_trainer::Now;
use lacuna_trainer::agent::{Agent, Effect};
use lacuna_wire::address;
use lacuna_wire::msg::{LeaseRecord, PlanState, Reply, Request, TrainersState};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::common::{cluster, start};

const LIMIT: Duration = Duration::from_secs(20);

fn name(n: usize) -> NodeId {
    NodeId::new(format!("n{n:03}")).unwrap()
}

/// Plays all agents on one connection; keeps the commands that each has obeyed.
struct Agents {
    bus: Bus,
    commands: Follow<Command>,
    agents: BTreeMap<NodeId, Agent>,
}

impl Agents {
    async fn new(nats: &Server) -> Self {
        let bus = nats.connect(&cluster(), "agent").await;
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

/// Trainers as control publishes them.
async fn published(bus: &Bus) -> Follow<TrainersState> {
    let subject = address::trainers(&cluster());
    bus.follow(&subject, Start::Last).await.unwrap()
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
    let submit = lacuna_testkit::submission(vec![lacuna_testkit::spec("a", 2)]);
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
        judged: None,
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
    let snapshot = lacuna_testkit::snapshot(1, 100, (0..nodes).map(name));
    let subject = address::snapshot(&cluster());
    bus.store(&subject, &snapshot, "").await.unwrap();
}

#[test]
fn members_are_stored_before_any_command_and_go_with_the_trainer() {
    in_virtual_time(async |nats| {
        const NODES: usize = 40;
        let bus = nats.connect(&cluster(), "test").await;
        idle(&bus, NODES).await;
        let control = start(&nats, Config::default()).await;
        let mut states = published(&bus).await;
        let program = TrainerSpec {
            launch: lacuna_testkit::launch(Elastic::Restart),
            ..lacuna_testkit::spec("a", 100)
        };
        let a = program.id.clone();
        let submit = lacuna_testkit::submission(vec![program]);
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
        until("they are gone", async || {
            let kept = bus.last(&members).await.unwrap().unwrap().message;
            kept.nodes.is_empty().then_some(())
        })
        .await;
        control.stop().await;
    });
}

#[test]
fn leases_first_then_commands_and_a_restart_touches_nothing() {
    in_virtual_and_real_time(async |nats| {
        const NODES: usize = 100;
        let bus = nats.connect(&cluster(), "test").await;
        idle(&bus, NODES).await;
        let control = start(&nats, Config::default()).await;
        let mut agents = Agents::new(&nats).await;
        let mut states = published(&bus).await;
        trainers(&mut states, |_| true).await;
        let submit = lacuna_testkit::submission(vec![
            lacuna_testkit::spec("a", 100),
            lacuna_testkit::spec("b", 100),
        ]);
        assert!(matches!(ask(&bus, &submit).await, Reply::Accepted { .. }));
        assert!(
            matches!(ask(&bus, &submit).await, Reply::Refused { code, .. } if code == "L0008"),
            "the same names were taken twice"
        );
        let state = trainers(&mut states, |s| s.trainers.len() == 2).await;

        // Many leases in one plan.
        let plans = address::plan(&cluster());
        let first = plan(1, 1, state.version, &[("a", 0..80), ("b", 80..100)]);
        bus.store(&plans, &first, "plan-1").await.unwrap();
        agents
            .until(|a| running(a, "a") == 80 && running(a, "b") == 20)
            .await;
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

        // Twenty nodes change hands, each after its agent has let go.
        let state = trainers(&mut states, |s| nodes_of(s, "b") == 20).await;
        let second = plan(2, 1, state.version, &[("a", 0..60), ("b", 60..100)]);
        bus.store(&plans, &second, "plan-2").await.unwrap();
        agents.until(|a| running(a, "b") == 40).await;
        let state = trainers(&mut states, |s| nodes_of(s, "b") == 40).await;
        let runs: Vec<_> = state.trainers.iter().map(|t| t.run).collect();

        // Control ends and starts again: the same runs, the same leases.
        control.stop().await;
        let before = leases.list().await.unwrap();
        let control = start(&nats, Config::default()).await;
        let again = trainers(&mut states, |s| s.version > state.version).await;
        assert_eq!(
            again.trainers.iter().map(|t| t.run).collect::<Vec<_>>(),
            runs
        );
        agents.until(|a| running(a, "b") == 40).await;
        assert_eq!(leases.list().await.unwrap(), before);

        // Three nodes leave at once: one preemption, without a plan.
        for (seq, n) in (2..).zip([60, 61, 99]) {
            let event = NodeEvent {
                seq,
                at: Timestamp::from_unix(200),
                kind: EventKind::NodeBusy { node: name(n) },
            };
            let subject = address::event(&cluster());
            bus.store(&subject, &event, "event").await.unwrap();
        }
        agents
            .until(|a| running(a, "b") == 37 && a[&name(99)].status().activity == Activity::Free)
            .await;
        let state = trainers(&mut states, |s| nodes_of(s, "b") == 37).await;
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
        assert_eq!((totals.leased_nodes, totals.pool_nodes), (37, 97));
        control.stop().await;
    });
}

#[test]
fn reports_count_that_came_while_control_was_away_though_its_start_ends_their_run() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        idle(&bus, 2).await;
        let control = start(&nats, Config::default()).await;
        let mut agents = Agents::new(&nats).await;
        let mut states = published(&bus).await;
        train_on_two(&bus, &mut agents, &mut states).await;
        let state = trainers(&mut states, |s| nodes_of(s, "a") == 2).await;
        let run = state.trainers[0].run;
        control.stop().await;

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
        let control = start(&nats, Config::default()).await;
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
        control.stop().await;
    });
}

#[test]
fn a_second_control_is_noticed() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        let control = start(&nats, Config::default()).await;
        let mut states = published(&bus).await;
        let first = trainers(&mut states, |_| true).await;
        assert!(first.version > 1_700_000_000_000, "{}", first.version);
        let submit = |name: &str| lacuna_testkit::submission(vec![lacuna_testkit::spec(name, 4)]);
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
        assert!(control.is_running());
        let subject = address::requests_of(&cluster(), "tester");
        let unanswered = bus
            .request::<_, Reply>(&subject, &cancel("b"), Duration::from_secs(2))
            .await;
        assert!(unanswered.is_err(), "{unanswered:?}");
        let error = control.ended().await.unwrap_err().to_string();
        assert!(
            error.contains("another control runs for cluster c"),
            "{error}"
        );
        let kept = records.get("b").await.unwrap().unwrap().value;
        assert_eq!(kept.reason, "by another writer");

        // A new control adopts the records that are there, under versions of a later time.
        let control = start(&nats, Config::default()).await;
        trainers(&mut states, |s| s.version > first.version + 1000).await;
        let reply = ask(&bus, &cancel("b")).await;
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
        control.stop().await;
    });
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
    let nats = Server::Real(TestNats::start());
    let bus = nats.connect(&cluster(), "test").await;
    idle(&bus, 2).await;
    let control = start(&nats, Config::default()).await;
    let mut states = published(&bus).await;
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
    control.stop().await;
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
    let nats = Server::Real(TestNats::start());
    let bus = nats.connect(&cluster(), "test").await;
    idle(&bus, 2).await;
    let control = start(&nats, Config::default()).await;
    let mut states = published(&bus).await;
    trainers(&mut states, |_| true).await;
    let submit = |names: &[&str]| {
        lacuna_testkit::submission(names.iter().map(|n| lacuna_testkit::spec(n, 2)).collect())
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
    assert!(control.is_running());

    // With room again what is in force is kept.
    size_bucket(&bus, 256 << 20).await;
    let records = bus.bucket::<TrainerRecord>(address::trainers_bucket(&cluster()));
    until("its end is kept", async || {
        let entry = records.get("a").await.unwrap().unwrap();
        entry.value.phase.is_final().then_some(())
    })
    .await;
    let reply = ask(&bus, &submit(&["b", "c"])).await;
    assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    control.stop().await;
}

/// A scheduler that Lacuna does not know offers nodes and asks for them back.
#[test]
fn a_node_asked_back_by_an_event_is_released_and_its_scheduler_is_told() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "test").await;
        idle(&bus, 2).await;
        let control = start(&nats, Config::default()).await;
        let mut agents = Agents::new(&nats).await;
        let mut states = published(&bus).await;
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
        control.stop().await;
    });
}

#[test]
fn how_long_the_main_scheduler_waited_is_measured() {
    in_virtual_time(async |nats| {
        let bus = nats.connect(&cluster(), "agent").await;
        let control = start(&nats, Config::default()).await;
        let mut states = published(&bus).await;
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
        until("harm is counted", async || {
            let text = control.exposition();
            let is_shown = |line: &&str| text.lines().any(|l| l == *line);
            wanted.iter().all(is_shown).then_some(())
        })
        .await;
        control.stop().await;
    });
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
    let nats = Server::Real(TestNats::start());
    let bus = nats.connect(&cluster(), "test").await;
    idle(&bus, 2).await;
    let mut config = Config::default();
    config.control.store = Some("127.0.0.1:0".to_owned());
    let control = start(&nats, config.clone()).await;
    let mut states = published(&bus).await;
    let spec = |name: &str| TrainerSpec {
        launch: lacuna_testkit::launch(Elastic::Torchrun {
            workers_per_node: 1,
        }),
        ..lacuna_testkit::spec(name, 1)
    };
    let submit = lacuna_testkit::submission(vec![spec("a"), spec("b")]);
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
    let refused =
        |control: &Service<Sections>| control.metric("lacuna_control_store_refused_total");
    assert_eq!(asked(&store, &format!("/{token}/k")).await, Some(0));
    assert_eq!(asked(&store, &format!("/{others}/k")).await, Some(0));
    assert_eq!(refused(&control), 0.0);
    for key in ["/k", "/init/", &format!("/t/{token}")] {
        assert_eq!(asked(&store, key).await, None, "{key}");
    }
    assert_eq!(refused(&control), 3.0);
    let checks = control.context.health.report().checks;
    assert!(checks.iter().any(|check| check.name == "store" && check.ok));

    // Another control: an empty store, and the same tokens.
    control.stop().await;
    let control = start(&nats, config).await;
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
            assert_eq!(refused(&control), 4.0);
        }
    }
    control.stop().await;
}
