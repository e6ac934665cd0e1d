//! The gateway as a process, and a generated cluster that it shows.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lacuna_cli::Config;
use lacuna_model::{
    AgentStatus, Allocation, ClusterId, Controls, Drain, Generation, Harm, HoleVerdict, Outcome,
    Pause, Plan, PlanReport, Solve, Span, Timestamp, TrainerRecord, TrainerVerdict, TroubleKind,
    Troubled, UseLimit, Verdict,
};
use lacuna_runtime::Bus;
use lacuna_testkit::{TestNats, connect, events, logged_address, node, pool, record, spec};
use lacuna_wire::address;
use lacuna_wire::msg::{Leader, PlanState, PoolState, Totals, TrainersState};

/// A running gateway and its bus.
pub(crate) struct Page {
    gateway: Option<Child>,
    at: SocketAddr,
    config: PathBuf,
    folder: tempfile::TempDir,
    id: ClusterId,
    pub(crate) bus: Bus,
    _nats: TestNats,
}

/// A cluster at a moment: numbers of nodes, idle nodes and training nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Counts events of the cluster.
    pub(crate) number: u64,
    pub(crate) idle: usize,
    pub(crate) training: usize,
    pub(crate) trainers: usize,
}

fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap();
    let path = path.join("lacuna-gateway");
    assert!(
        path.is_file(),
        "{} is missing: `make test` builds it first",
        path.display()
    );
    path
}

impl Page {
    /// Starts nats-server and the gateway, with or without a token for the page.
    pub(crate) async fn start(token: Option<&str>) -> Self {
        let nats = TestNats::start();
        let folder = tempfile::Builder::new()
            .prefix("lacuna-page-")
            .tempdir()
            .unwrap();
        let mut config = Config::default();
        config.bus.url = nats.url();
        if let Some(token) = token {
            let file = folder.path().join("token");
            std::fs::write(&file, format!("{token}\n")).unwrap();
            config.gateway.token_file = Some(file);
        }
        let path = folder.path().join("lacuna.toml");
        std::fs::write(&path, toml::to_string(&config).unwrap()).unwrap();
        let id = config.cluster.id.clone();
        let bus = connect(&nats, &id, "test").await;
        let mut page = Self {
            gateway: None,
            at: SocketAddr::from(([127, 0, 0, 1], 0)),
            config: path,
            folder,
            id,
            bus,
            _nats: nats,
        };
        page.go().await;
        page
    }

    /// Starts the gateway, at its former address if it had one.
    pub(crate) async fn go(&mut self) {
        let path = self.folder.path().join("gateway.log");
        for _ in 0..300 {
            let ended = match &mut self.gateway {
                Some(gateway) => gateway.try_wait().unwrap(),
                None => None,
            };
            if let Some(status) = ended {
                println!("the gateway: {status}, is {} taken? Trying again", self.at);
            }
            if ended.is_some() || self.gateway.is_none() {
                self.spawn(&path);
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            let log = std::fs::read_to_string(&path).unwrap();
            if let Some(at) = logged_address(&log, "page") {
                self.at = at;
                return;
            }
        }
        let log = std::fs::read_to_string(&path).unwrap();
        panic!("the gateway does not come up: {log}");
    }

    /// Its log is empty at its start.
    fn spawn(&mut self, log: &Path) {
        let log = std::fs::File::create(log).unwrap();
        let child = Command::new(program())
            .arg("--config")
            .arg(&self.config)
            .args(["--listen", "127.0.0.1:0", "--page", &self.at.to_string()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.gateway = Some(child.unwrap());
    }

    /// Ends the gateway, as in a crash.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.gateway.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}/", self.at)
    }

    /// Publishes the states of all services of a cluster at a moment.
    pub(crate) async fn say(&self, moment: Moment) {
        let names: Vec<String> = (0..moment.idle).map(|i| format!("n{i:05}.hall")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let as_of = 1_790_000_000 + i64::try_from(moment.number).unwrap() * 60;
        let state = PoolState {
            pool: pool(moment.number, as_of, &names),
            predictor: "hazard".to_owned(),
        };
        let bus = &self.bus;
        bus.store(&address::pool(&self.id), &state, "")
            .await
            .unwrap();
        let each = moment.training / moment.trainers.max(1);
        let trainers: Vec<TrainerRecord> = (0..moment.trainers)
            .map(|i| {
                let nodes = names.get(i * each..(i + 1) * each).unwrap();
                let most = u32::try_from(each).unwrap().max(1) * 2;
                record(spec(&format!("resnet-{i}"), most), moment.number, nodes)
            })
            .collect();
        let plan = plan(&moment, as_of, &names, &trainers);
        let state = TrainersState {
            version: moment.number,
            as_of: Timestamp::from_unix(as_of),
            trainers,
            unusable: names.last().map(|name| node(name)).into_iter().collect(),
            pilot_s: 0.0,
            followed: Generation(0),
        };
        bus.store(&address::trainers(&self.id), &state, "")
            .await
            .unwrap();
        bus.store(&address::plan(&self.id), &plan, "")
            .await
            .unwrap();
    }

    /// Publishes the rest: events, releases, totals, controls, leaders.
    pub(crate) async fn say_the_rest(&self) {
        let (bus, id) = (&self.bus, &self.id);
        for event in events(
            1,
            &[
                ("idle", "n00001.hall"),
                ("busy", "n00002.hall"),
                ("idle", "n7"),
            ],
        ) {
            bus.store(&address::event(id), &event, "").await.unwrap();
        }
        for (name, ms) in [("n00002.hall", 41), ("n00009.hall", 1300)] {
            let status = AgentStatus {
                released: Some("wanted".to_owned()),
                leaving: true,
                gave_back_in: Some(Span::from_ms(ms)),
                ..lacuna_testkit::status(name)
            };
            let subject = address::agent(id, &node(name));
            bus.publish(&subject, &status, "").await.unwrap();
        }
        let mut harm = Harm::default();
        for ms in [20, 41, 1300] {
            harm.give_back(Span::from_ms(ms), Timestamp::from_unix(1_789_950_000));
        }
        let totals = Totals {
            since: Timestamp::from_unix(1_789_900_000),
            idle_node_s: 9e7,
            harvested_node_s: 8.1e7,
            samples: 4e9,
            preemptions: 1234,
            rescales: 5678,
            trainers_done: 12,
            harm: [("preempted".to_owned(), harm)].into(),
            unconfirmed: 1,
            troubled: vec![Troubled {
                kind: TroubleKind::Quarantined,
                nodes: 7,
                some: vec![node("n00004.hall"), node("n00005.hall")],
            }],
            ..Totals::default()
        };
        bus.store(&address::totals(id), &totals, "").await.unwrap();
        let mut controls = Controls {
            version: 3,
            max_nodes: Some(4000),
            ..Controls::default()
        };
        controls.pause = Some(Pause {
            limit: UseLimit::NoGrowth,
            until: Some(Timestamp::from_unix(1_790_010_000)),
            by: "ada".to_owned(),
            since: Timestamp::from_unix(1_790_000_000),
            reason: "the cooling is being looked at".to_owned(),
        });
        let drain = Drain {
            by: "ada".to_owned(),
            since: Timestamp::from_unix(1_790_000_000),
            reason: "a fan is loud".to_owned(),
        };
        controls.drained.insert(node("n00003.hall"), drain);
        let subject = address::controls(id);
        bus.store(&subject, &controls, "").await.unwrap();
        for service in ["control", "forecast", "ingest", "planner"] {
            let failing = (service == "ingest")
                .then_some("scheduler: sinfo: exit code 1: slurm_load_partitions");
            let leader = Leader {
                instance: "0123456789ab".to_owned(),
                seat: "boot/4026531840/127.0.0.1:9101".to_owned(),
                since: Timestamp::from_unix(1_790_000_000),
                ttl_ms: 3_600_000,
                resigned: false,
                failing: failing.map(str::to_owned).into_iter().collect(),
            };
            let subject = address::leader(id, service);
            bus.store(&subject, &leader, "").await.unwrap();
        }
    }
}

fn plan(moment: &Moment, as_of: i64, names: &[&str], trainers: &[TrainerRecord]) -> PlanState {
    let holder = |name: &str| trainers.iter().find(|t| t.nodes.contains(&node(name)));
    let few = names.get(..names.len().min(500)).unwrap();
    let hole = |name: &&str| {
        let verdict = holder(name).map_or(HoleVerdict::NoBidder, |t| HoleVerdict::Kept {
            trainer: t.spec.id.clone(),
        });
        (node(name), verdict)
    };
    let plan = Plan {
        generation: Generation(moment.number),
        as_of: Timestamp::from_unix(as_of),
        seq: moment.number,
        allocations: trainers
            .iter()
            .map(|t| Allocation {
                trainer: t.spec.id.clone(),
                nodes: t.nodes.clone(),
            })
            .collect(),
        replaced: vec![],
        report: PlanReport {
            solve: Solve {
                outcome: Outcome::Optimal,
                objective: 1.0,
                solver: "dp".to_owned(),
                shortcut: None,
                stopped_by_clock: false,
            },
            trainers: trainers
                .iter()
                .map(|t| TrainerVerdict {
                    trainer: t.spec.id.clone(),
                    before: 1,
                    after: u32::try_from(t.nodes.len()).unwrap(),
                    verdict: Verdict::RescaleNotWorthIt {
                        gain: 310.0,
                        cost: 700.0,
                    },
                    basis: None,
                    share: None,
                })
                .collect(),
            holes: few.iter().map(hole).collect(),
            forecast: None,
            followed: None,
        },
    };
    PlanState {
        plan,
        trainers_version: moment.number,
        latency_s: 0.012,
        judged: None,
        runs: vec![],
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.kill();
    }
}
