//! Real training by PyTorch on nodes that come and go: by `regroup`, in the running process, and
//! by `torchrun`, from checkpoints. The program's own state counts how often each sample was
//! used. Needs a Python with torch: `LACUNA_PYTHON`, `python3` or `/usr/bin/python3`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lacuna_cli::Config;
use lacuna_model::{Elastic, Launch, Phase, Program, RescaleCost, ScalingCurve, Span};
use lacuna_model::{TrainerId, TrainerRecord, TrainerSpec};
use lacuna_testkit::or_skip;
pub(super) use lacuna_testkit::torch_python as python;
use lacuna_wire::msg::{Reply, Request};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::Cluster;
use super::program::{left_behind, nothing_is_left, publish};

/// Samples of an epoch, and how often each is to be used.
const SAMPLES: usize = 256;
const BATCH: usize = 16;

/// The package's folder.
pub(super) fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../libs/lacuna-py")
}

struct Training {
    cluster: Cluster,
    dir: tempfile::TempDir,
    events: u32,
    epochs: usize,
}

impl Training {
    /// A cluster whose agents are pilots, and a trainer of up to three nodes; no node yet. Its steps
    /// take a quarter of a second until the end, so that it outlasts what the test does to it, also
    /// where a program needs half a minute to import torch.
    async fn start(python: &str, elastic: Elastic, epochs: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("hold"), "").unwrap();
        let spec = trainer(python, dir.path(), elastic, epochs);
        Self::of(python, dir, spec, epochs).await
    }

    /// The same with this trainer.
    async fn of(python: &str, dir: tempfile::TempDir, spec: TrainerSpec, epochs: usize) -> Self {
        let mut config = Config::default();
        config.control.renew_every = Span::from_secs(1);
        config.control.reconcile_every = Span::from_ms(500);
        config.control.retry_after = Span::from_secs(1);
        config.control.require_agents = true;
        config.control.store = Some("127.0.0.1:0".to_owned());
        config.agent.report_every = Span::from_ms(500);
        config.agent.grace = Span::from_secs(5);
        // The other members find one that hangs: other ways take longer than the test waits.
        config.agent.hang_after = Span::from_secs(600);
        config.control.silent_after = Span::from_secs(300);
        config.agent.torchrun = [python, "-m", "torch.distributed.run"]
            .map(str::to_owned)
            .into();
        let mut cluster = Cluster::new(config).await;
        for service in ["control", "planner", "forecast", "ingest"] {
            cluster.start(service);
        }
        cluster.submit(vec![spec]).await;
        Self {
            cluster,
            dir,
            events: 0,
            epochs,
        }
    }

    /// A pilot on a node that the scheduler says is idle.
    async fn open(&mut self, node: &str) {
        self.cluster.start_pilot(node);
        self.events += 1;
        publish(&self.cluster, self.events, "node.idle", node).await;
    }

    /// The scheduler takes a node: SIGTERM first, its event afterwards.
    async fn close(&mut self, node: &str) {
        self.cluster.end_pilot(node);
        self.events += 1;
        publish(&self.cluster, self.events, "node.busy", node).await;
    }

    async fn record(&self) -> TrainerRecord {
        self.cluster.trainers().await.remove(0)
    }

    async fn wait(&self, what: &str, wanted: impl Fn(&TrainerRecord) -> bool) -> TrainerRecord {
        let mut seen = self.record().await;
        // Importing torch takes its time on a loaded machine.
        for _ in 0..1200 {
            if wanted(&seen) {
                return seen;
            }
            assert!(seen.phase != Phase::Failed, "{seen:?}\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(100)).await;
            seen = self.record().await;
        }
        panic!(
            "not {what}: {seen:?}\n{}\n{}",
            self.said(),
            self.cluster.logs()
        );
    }

    /// Waits until it trains on `nodes` nodes and has done a step there.
    async fn trains_on(&self, nodes: usize) -> TrainerRecord {
        let what = format!("training on {nodes} nodes");
        self.wait(&what, |r| r.nodes.len() == nodes && r.samples_run >= 64.0)
            .await
    }

    /// Sends a signal to the programs on a node, and to nothing else.
    fn signal_program(&self, node: &str, signal: Signal) {
        let mark = format!("LACUNA_NODE={node}");
        let mut found = 0;
        for pid in left_behind(self.dir.path()) {
            let proc = Path::new("/proc").join(&pid);
            let environment = std::fs::read(proc.join("environ")).unwrap_or_default();
            let name = std::fs::read_to_string(proc.join("comm")).unwrap_or_default();
            if environment.split(|b| *b == 0).any(|e| e == mark.as_bytes())
                && name.starts_with("python")
            {
                kill(Pid::from_raw(pid.parse().unwrap()), signal).unwrap();
                found += 1;
            }
        }
        assert!(found > 0, "no program on {node}");
    }

    /// The output of the programs.
    fn said(&self) -> String {
        let work = self.cluster.work_dir();
        let mut all = String::new();
        for node in ["n1", "n2", "n3"] {
            let path = work.join("counted").join(node).join("output.log");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(15)..];
            all.push_str(&format!("--- program on {node}\n{}\n", tail.join("\n")));
        }
        all
    }

    /// The end: each sample was used as often as there were epochs, nothing is left.
    async fn ends(&self) -> TrainerRecord {
        std::fs::remove_file(self.dir.path().join("hold")).unwrap();
        self.wait("done", |r| r.phase == Phase::Done).await;
        nothing_is_left(self.dir.path()).await;
        let text = std::fs::read_to_string(self.dir.path().join("result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        let used: Vec<f64> = serde_json::from_value(result["used"].clone()).unwrap();
        assert_eq!(used.len(), SAMPLES);
        let wrong = used
            .iter()
            .filter(|n| (**n - self.epochs as f64).abs() > 0.01);
        assert_eq!(
            wrong.count(),
            0,
            "samples used other than {} times",
            self.epochs
        );
        let Reply::Nodes { nodes, .. } = self.cluster.ask(&Request::Nodes).await else {
            panic!("no nodes");
        };
        let held = nodes.iter().filter(|node| node.trainer.is_some());
        assert_eq!(held.count(), 0, "{nodes:?}");
        self.record().await
    }
}

fn trainer(python: &str, dir: &Path, elastic: Elastic, epochs: usize) -> TrainerSpec {
    let script = package().join("tests/program.py").display().to_string();
    let folder = dir.display().to_string();
    let own = [
        "--samples",
        &SAMPLES.to_string(),
        "--batch",
        &BATCH.to_string(),
        "--epochs",
        &epochs.to_string(),
        "--sleep",
        "0.03",
        "--every",
        "8",
        "--into",
        &folder,
    ]
    .map(str::to_owned);
    let (program, first) = match elastic {
        Elastic::Torchrun { .. } => (script, None),
        Elastic::Restart | Elastic::Regroup { .. } => (python.to_owned(), Some(script)),
    };
    TrainerSpec {
        max_nodes: 3,
        rescale: RescaleCost::of(0.2, 0.2),
        launch: Launch::Command(Program {
            program,
            args: first.into_iter().chain(own).collect(),
            env: BTreeMap::from([
                (
                    "PYTHONPATH".to_owned(),
                    package().join("src").display().to_string(),
                ),
                ("OMP_NUM_THREADS".to_owned(), "1".to_owned()),
                ("PROGRAM_SEED".to_owned(), "7".to_owned()),
            ]),
            checkpoint_dir: Some(folder),
            elastic,
            ..Program::default()
        }),
        ..TrainerSpec::simulated(
            TrainerId::new("counted").unwrap(),
            ScalingCurve::new([(1, 100.0), (3, 280.0)]).unwrap(),
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn training_lives_on_while_nodes_join_leave_and_die_and_counts_each_sample_once() {
    let python = or_skip!(python());
    let epochs = 80;
    let mut training = Training::start(&python, Elastic::REGROUP, epochs).await;
    training.open("n1").await;
    training.open("n2").await;
    training.trains_on(2).await;
    training.open("n3").await;
    training.trains_on(3).await;
    // Rank 0 loses its node.
    training.close("n1").await;
    let record = training.trains_on(2).await;
    assert_eq!((record.preemptions, record.failures), (1, 0));
    // A program dies: the other goes on, and its node comes back.
    training.signal_program("n2", Signal::SIGKILL);
    training.wait("a failure", |r| r.failures == 1).await;
    training.trains_on(2).await;
    // A program hangs: the other reports that the group broke, and goes on without it.
    training.signal_program("n3", Signal::SIGSTOP);
    training.wait("a loss", |r| r.preemptions == 2).await;
    training.trains_on(2).await;
    let end = training.ends().await;
    assert_eq!(end.samples(), (SAMPLES * epochs) as f64, "{end:?}");
    // A minute of progress ends a row of failures.
    assert!(end.failures <= 1, "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn torchrun_goes_on_from_its_checkpoint_on_whatever_nodes_are_left() {
    let python = or_skip!(python());
    let epochs = 20;
    let by = Elastic::Torchrun {
        workers_per_node: 1,
    };
    let mut training = Training::start(&python, by, epochs).await;
    training.open("n1").await;
    training.open("n2").await;
    training.trains_on(2).await;
    training.close("n1").await;
    let record = training.trains_on(1).await;
    assert_eq!((record.preemptions, record.failures), (1, 0));
    let end = training.ends().await;
    // Steps between the last reported checkpoint and the kill count as repeated.
    let goal = (SAMPLES * epochs) as f64;
    let missing = goal - end.samples();
    let most = (3 * 8 * BATCH) as f64;
    assert!(
        (0.0..=most).contains(&missing),
        "{missing} uncounted: {end:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_tables_take_no_rank_and_the_steps_of_the_others_count_to_the_end() {
    let python = or_skip!(python());
    let dir = tempfile::tempdir().unwrap();
    let mut spec = trainer(&python, dir.path(), Elastic::REGROUP, 1);
    (spec.min_nodes, spec.max_nodes) = (3, 3);
    if let Launch::Command(Program { args, env, .. }) = &mut spec.launch {
        let script = package().join("tests/tabled.py").display().to_string();
        let into = dir.path().display().to_string();
        *args = [&script, "--into", &into, "--steps", "20", "--pause", "0.1"]
            .map(str::to_owned)
            .into();
        // By their names these come before the one that trains.
        env.insert(Launch::TABLE_NODES.to_owned(), "cpu*".to_owned());
    }
    let mut training = Training::of(&python, dir, spec, 1).await;
    for node in ["cpu1", "cpu2", "n1"] {
        training.open(node).await;
    }
    training.trains_on(3).await;
    let end = training.wait("done", |r| r.phase == Phase::Done).await;
    nothing_is_left(training.dir.path()).await;
    assert!(training.dir.path().join("rows.json").exists(), "{end:?}");
    // Batches of 32 samples.
    assert!(end.samples() >= 20.0 * 32.0, "{end:?}");
    assert_eq!((end.failures, end.preemptions), (0, 0), "{end:?}");
}
