//! Pilots under their owners' accounts, by a stand-in for the helper.

use std::collections::BTreeMap;

use lacuna_model::{Allocation, Command, Elastic, NodeId, Plan, TrainerId, TrainerSpec};
use lacuna_owner::{Signed, Ticket, digest};
use lacuna_runtime::{Follow, Start};
use lacuna_testkit::Server;
use lacuna_trainer::Now;
use lacuna_trainer::agent::{Agent, Effect};
use lacuna_wire::msg::{PlanState, Reply, Request};
use nkeys::KeyPair;

use super::*;

/// Writes its requests down. Each owner's job is in the list of all.
const HELPER: &str = r#"#!/bin/bash
d=@DIR@; req=$(cat); echo "$req" >> $d/helper.log
field() { sed -n "s/.*$1.*/\\1/p" <<< "$req"; }
case $req in
*'"do":"submit"'*)
  owner=$(field '\\"owner\\":\\"\([^\\]*\)\\"'); node=$(field '"node":"\([^"]*\)"')
  [ -e $d/refuse-$owner ] && { echo "lacuna-pilot-helper: permission denied: the ticket is stale" >&2; exit 77; }
  exec 9> $d/lock; flock 9
  n=$(( $(cat $d/next 2>/dev/null || echo 100) + 1 )); echo $n > $d/next
  echo "$n|1700000$n|$owner|RUNNING|$node|$node|lacuna-pilot|lacuna:c" > $d/jobs/$n
  echo $n ;;
*'"do":"cancel"'*)
  sed -i 's/RUNNING/CANCELLED/' $d/jobs/$(field '"jobs":\["\([^"]*\)"\]') ;;
esac
"#;

fn config(slurm: &Slurm) -> Config {
    let path = slurm.path("helper");
    let dir = slurm.0.path().display().to_string();
    std::fs::write(&path, HELPER.replace("@DIR@", &dir)).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let mut config = slurm.config("on");
    let pilots = config.control.pilots.as_mut().unwrap();
    pilots.helper = vec![path.display().to_string()];
    config.check().unwrap();
    config
}

fn program(id: &str, owner: &str) -> TrainerSpec {
    TrainerSpec {
        owner: Some(owner.to_owned()),
        launch: lacuna_testkit::command("/bin/train", &[id], Elastic::Restart),
        ..lacuna_testkit::spec(id, 4)
    }
}

/// A packed ticket that this owner has signed.
fn ticket(spec: &TrainerSpec, by: &str, seconds: i64) -> String {
    let ticket = Ticket {
        cluster: cluster(),
        trainer: spec.id.clone(),
        owner: by.to_owned(),
        program: digest(&spec.launch).unwrap(),
        pilots: 4,
        not_after: lacuna_runtime::clock::wall() + Span::from_secs(seconds),
    };
    let word = Signed::new(&ticket, &KeyPair::new_user()).unwrap();
    word.packed().unwrap()
}

/// A submission with a ticket that this owner has signed.
fn signed(spec: TrainerSpec, by: &str) -> Request {
    Request::Submit {
        tickets: [(spec.id.clone(), ticket(&spec, by, 3600))].into(),
        trainers: vec![spec],
        test_only: false,
    }
}

async fn ask(bus: &Bus, request: &Request) -> Reply {
    let subject = address::requests_of(&cluster(), "tester");
    bus.request(&subject, request, LIMIT).await.unwrap()
}

/// The agents of pilots.
struct Fleet {
    bus: Bus,
    commands: Follow<Command>,
    agents: BTreeMap<NodeId, Agent>,
    generation: u64,
}

impl Fleet {
    async fn start(nats: &Server) -> Self {
        let bus = nats.connect(&cluster(), "agent").await;
        let commands = address::commands(&cluster());
        Self {
            commands: bus.follow(&commands, Start::Last).await.unwrap(),
            bus,
            agents: BTreeMap::new(),
            generation: 0,
        }
    }

    async fn report(&self, status: &AgentStatus) {
        let subject = address::agent(&cluster(), &status.node);
        self.bus.publish(&subject, status, "").await.unwrap();
    }

    fn come(&mut self, name: &str, serves: &str) {
        let agent = Agent::new(node(name), Span::from_secs(60));
        let agent = agent.with_serves(Some(TrainerId::new(serves).unwrap()));
        self.agents.insert(node(name), agent);
    }

    async fn leave(&mut self, name: &str) {
        let last = self.agents.remove(&node(name)).unwrap().leave("wanted");
        self.report(&last).await;
    }

    /// The trainer whose program runs on a node.
    fn runs(&self, name: &str) -> Option<String> {
        let running = self.agents.get(&node(name))?.running()?;
        Some(running.trainer.to_string())
    }

    /// Agents obey and report until something is reached.
    async fn until(&mut self, what: &str, reached: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + LIMIT;
        while !reached(self) {
            assert!(tokio::time::Instant::now() < deadline, "never: {what}");
            let next = tokio::time::timeout(Duration::from_millis(200), self.commands.next()).await;
            let mut statuses = Vec::new();
            if let Ok(command) = next {
                let command = command.unwrap().message;
                let Some(agent) = self.agents.get_mut(&command.node) else {
                    continue;
                };
                let mut effects = agent.command(command, Now::default());
                while let Some(effect) = effects.pop() {
                    match effect {
                        Effect::Stop { run, .. } => effects.extend(agent.stopped(run)),
                        Effect::Report(status) => statuses.push(status),
                        _ => {}
                    }
                }
            } else {
                statuses.extend(self.agents.values().map(Agent::status));
            }
            for status in statuses {
                self.report(&status).await;
            }
        }
    }

    async fn until_runs(&mut self, node: &str, trainer: &str) {
        let runs = |fleet: &Self| fleet.runs(node).as_deref() == Some(trainer);
        self.until("it runs there", runs).await;
    }

    /// The planner gives nodes, from the present trainers.
    async fn plan(&mut self, given: &[(&str, &[&str])]) {
        self.generation += 1;
        let trainers = self.bus.last(&address::trainers(&cluster())).await.unwrap();
        let trainers = trainers.unwrap().message;
        let allocations = given.iter().map(|(id, nodes)| Allocation {
            trainer: TrainerId::new(*id).unwrap(),
            nodes: nodes.iter().map(|name| node(name)).collect(),
        });
        let plan = PlanState {
            plan: Plan::by_hand(
                self.generation,
                Timestamp::from_unix(100),
                1,
                allocations.collect(),
            ),
            trainers_version: trainers.version,
            runs: trainers.runs(),
            latency_s: 0.0,
            judged: None,
        };
        let subject = address::plan(&cluster());
        let id = format!("plan {}", self.generation);
        self.bus.store(&subject, &plan, &id).await.unwrap();
    }
}

/// Programs of two owners are admitted, each with a ticket.
async fn two_owners(bus: &Bus, control: &Service<Sections>) {
    for (id, owner) in [("a", "ann"), ("b", "bob")] {
        let reply = ask(bus, &signed(program(id, owner), owner)).await;
        assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
    }
    let admitted = "lacuna_control_trainers{phase=\"active\"}";
    control.shows(admitted, 2.0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// The requests to the helper that contain all of these.
fn asked(slurm: &Slurm, parts: &[&str]) -> usize {
    let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
    slurm.lines("helper.log").iter().filter(has_all).count()
}

/// The nodes are holes, for control and for the executor.
async fn open(bus: &Bus, names: &[&str]) {
    let nodes = names.iter().map(|name| node(name));
    let snapshot = lacuna_testkit::snapshot(1, 100, nodes);
    let subject = address::snapshot(&cluster());
    bus.store(&subject, &snapshot, "").await.unwrap();
    idle(bus, 1, names).await;
}

#[test]
fn owners_pilots_come_after_the_plan_and_a_node_changes_hands() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        open(&bus, &["n1", "n2"]).await;
        let control = start(&nats, config(&slurm)).await;
        let mut fleet = Fleet::start(&nats).await;
        let listed = "lacuna_control_pilots_command_seconds_count{command=\"list\"}";
        control.until("lists", |c| c.metric(listed) >= 3.0).await;
        // At the door: no ticket, and one of another's.
        let bare = lacuna_testkit::submission(vec![program("a", "ann")]);
        let forged = signed(program("a", "ann"), "eve");
        for (request, said) in [(bare, "no ticket"), (forged, "signed by eve")] {
            match ask(&bus, &request).await {
                Reply::Refused { code, reason } => {
                    assert_eq!(code, "L0029");
                    assert!(
                        reason.contains(said) && reason.contains("lacuna submit"),
                        "{reason}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        two_owners(&bus, &control).await;
        assert_eq!(
            slurm.lines("helper.log"),
            Vec::<String>::new(),
            "before any plan"
        );
        // The plan names a on n1. Its pilot comes, and its program starts at once.
        fleet.plan(&[("a", &["n1"])]).await;
        let of_ann = [
            "\"do\":\"submit\"",
            "\\\"owner\\\":\\\"ann\\\"",
            "\"node\":\"n1\"",
        ];
        control
            .until("a pilot of ann's", |_| asked(&slurm, &of_ann) == 1)
            .await;
        assert_eq!(slurm.lines("helper.log").len(), 1);
        fleet.come("n1", "a");
        fleet.until_runs("n1", "a").await;
        // It gives the node back, then its pilot goes, then bob's comes.
        fleet.plan(&[("b", &["n1"])]).await;
        let cancel = [
            "\"do\":\"cancel\"",
            "\"owner\":\"ann\"",
            "\"jobs\":[\"101\"]",
        ];
        fleet
            .until("ann's pilot goes", |_| asked(&slurm, &cancel) == 1)
            .await;
        assert_eq!(asked(&slurm, &["\\\"owner\\\":\\\"bob\\\""]), 0);
        fleet.leave("n1").await;
        let of_bob = [
            "\"do\":\"submit\"",
            "\\\"owner\\\":\\\"bob\\\"",
            "\"node\":\"n1\"",
        ];
        control
            .until("a pilot of bob's", |_| asked(&slurm, &of_bob) == 1)
            .await;
        fleet.come("n1", "b");
        fleet.until_runs("n1", "b").await;
        let cause = "lacuna_control_pilots_cancelled_total{cause=\"other trainer\"}";
        assert_eq!(control.metric(cause), 1.0);
        // The helper hears that a trainer is over, also after a restart of control.
        let cancelled = Request::Cancel {
            trainer: TrainerId::new("a").unwrap(),
        };
        assert!(matches!(
            ask(&bus, &cancelled).await,
            Reply::Accepted { .. }
        ));
        let end = ["\"do\":\"end\"", "\\\"trainer\\\":\\\"a\\\""];
        control.until("an end", |_| asked(&slurm, &end) == 1).await;
        control.stop().await;
        let control = start(&nats, config(&slurm)).await;
        fleet
            .until("an end again", |_| asked(&slurm, &end) == 2)
            .await;
        let running = "lacuna_control_pilots{state=\"running\"}";
        control.shows(running, 1.0).await;
        assert_eq!(asked(&slurm, &["\"do\":\"submit\""]), 2);
        assert_eq!(slurm.lines("sbatch.log"), Vec::<String>::new());
        assert_eq!(slurm.lines("scancel.log"), Vec::<String>::new());
        control.stop().await;
    });
}

#[test]
fn a_refused_ticket_holds_back_its_trainer_alone() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        open(&bus, &["n1", "n2"]).await;
        slurm.touch("refuse-ann");
        let control = start(&nats, config(&slurm)).await;
        let mut fleet = Fleet::start(&nats).await;
        two_owners(&bus, &control).await;
        fleet.plan(&[("a", &["n1"]), ("b", &["n2"])]).await;
        let refused = "lacuna_control_pilots_refused_total{cause=\"owner\"}";
        control.shows(refused, 1.0).await;
        let submitted = "lacuna_control_pilots_submitted_total";
        control.shows(submitted, 1.0).await;
        let asked_for = Request::Trainer {
            trainer: TrainerId::new("a").unwrap(),
        };
        let reason = loop {
            let reply = format!("{:?}", ask(&bus, &asked_for).await);
            if reply.contains("the ticket is stale") {
                break reply;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert!(
            reason.contains("no pilot under its owner's account"),
            "{reason}"
        );
        fleet.come("n2", "b");
        fleet.until_runs("n2", "b").await;
        // The node that ann's trainer could not use is bob's.
        fleet.plan(&[("b", &["n1", "n2"])]).await;
        control.shows(submitted, 2.0).await;
        assert_eq!(control.metric(refused), 1.0);
        control.stop().await;
    });
}

#[test]
fn a_trainer_whose_owner_signs_again_is_tried_at_once() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        open(&bus, &["n1", "n2"]).await;
        slurm.touch("refuse-ann");
        let mut config = config(&slurm);
        // Without another ticket ann's would not be tried again in this test.
        let pilots = config.control.pilots.as_mut().unwrap();
        (pilots.pace.backoff, pilots.pace.backoff_max) =
            (Span::from_secs(900), Span::from_secs(900));
        let control = start(&nats, config).await;
        let mut fleet = Fleet::start(&nats).await;
        two_owners(&bus, &control).await;
        fleet.plan(&[("a", &["n1"]), ("b", &["n2"])]).await;
        let refused = "lacuna_control_pilots_refused_total{cause=\"owner\"}";
        control.shows(refused, 1.0).await;
        std::fs::remove_file(slurm.path("refuse-ann")).unwrap();
        let renew = |spec: TrainerSpec, by: &str| Request::Renew {
            ticket: ticket(&spec, by, 7200),
            trainer: spec.id,
        };
        let other = TrainerSpec {
            launch: program("z", "ann").launch,
            ..program("a", "ann")
        };
        for wrong in [renew(program("a", "bob"), "bob"), renew(other, "ann")] {
            let Reply::Refused { code, .. } = ask(&bus, &wrong).await else {
                panic!("it was taken: {wrong:?}");
            };
            assert_eq!(code, "L0029");
        }
        let unknown = ask(&bus, &renew(program("y", "ann"), "ann")).await;
        assert!(matches!(unknown, Reply::Refused { code, .. } if code == "L0009"));
        let renewed = ask(&bus, &renew(program("a", "ann"), "ann")).await;
        assert!(matches!(renewed, Reply::Accepted { .. }), "{renewed:?}");
        fleet.plan(&[("a", &["n1"]), ("b", &["n2"])]).await;
        let submitted = "lacuna_control_pilots_submitted_total";
        control.shows(submitted, 2.0).await;
        let of_ann = ["\"do\":\"submit\"", "\\\"owner\\\":\\\"ann\\\""];
        assert_eq!(asked(&slurm, &of_ann), 2, "with the old and the new ticket");
        control.stop().await;
    });
}
