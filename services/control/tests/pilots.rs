//! The executor against fake commands of Slurm; the test plays forecast and agents.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "pilots/operator.rs"]
mod operator;
#[path = "pilots/owners.rs"]
mod owners;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lacuna_control_service::{Config, Sections};
use lacuna_model::{AgentStatus, EventKind, NodeEvent, Span, Timestamp};
use lacuna_runtime::Bus;
use lacuna_testkit::{Service, in_virtual_and_real_time, in_virtual_time, node, pool};
use lacuna_wire::address;
use lacuna_wire::msg::PoolState;

use crate::common::{cluster, start};

const LIMIT: Duration = Duration::from_secs(30);

/// A Slurm of three scripts and a folder.
struct Slurm(tempfile::TempDir);

const SBATCH: &str = r#"#!/bin/bash
d=@DIR@
cat > $d/script.$$; mv $d/script.$$ $d/script
echo "$*" >> $d/sbatch.log
[ -e $d/deny ] && { echo "sbatch: error: Batch job submission failed: Access/permission denied" >&2; exit 1; }
[ -e $d/hang ] && { sleep 100 & wait; }
exec 9> $d/lock; flock 9
n=$(( $(cat $d/next 2>/dev/null || echo 100) + 1 )); echo $n > $d/next
for a in "$@"; do case $a in
  --nodelist=*) node=${a#*=} ;; --comment=*) mark=${a#*=} ;; --job-name=*) name=${a#*=} ;;
esac; done
echo "$n|1700000$n|train|RUNNING|$node|$node|$name|$mark" > $d/jobs/$n
echo $n
"#;
const SQUEUE: &str = r#"#!/bin/bash
[ -e @DIR@/away ] && { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
cat @DIR@/jobs/* 2>/dev/null | while IFS='|' read -r id at user state nodes asked name mark; do
  printf '%s\037' "$id" "$at" "$asked" "$state" filler fill "$user" "$nodes" 1:00 N/A N/A '' "$mark"
  printf '%s\036\n' "$name"
done
exit 0
"#;
const SCANCEL: &str = r#"#!/bin/bash
echo "$*" >> @DIR@/scancel.log
for a in "$@"; do case $a in -*) ;; *) sed -i 's/RUNNING/CANCELLED/' @DIR@/jobs/$a ;; esac; done
"#;

impl Slurm {
    fn new() -> Self {
        let slurm = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(slurm.path("jobs")).unwrap();
        for (name, text) in [("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)] {
            let path = slurm.path(name);
            let dir = slurm.0.path().display().to_string();
            std::fs::write(&path, text.replace("@DIR@", &dir)).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        slurm
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn touch(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until this number of pilots was submitted.
    async fn has(&self, control: &Service<Sections>, submitted: usize) {
        let reached = |_: &_| self.lines("sbatch.log").len() == submitted;
        control.until("the submissions", reached).await;
    }

    fn config(&self, mode: &str) -> Config {
        let text = format!(
            "[control.pilots]\nmode = \"{mode}\"\npartition = \"filler\"\noverride_check = true\n\
             agent_config = \"/etc/lacuna/lacuna.toml\"\n\
             [control.pilots.commands]\nsubmit = [{:?}]\ncancel = [{:?}]\nlist = [{:?}]\n\
             [control.pilots.pace]\nonly_with_work = false\nlist_soon = \"100ms\"\n\
             list_every = \"500ms\"\ncommand_limit = \"1s\"\n[agent]\nreport_every = \"1s\"\n",
            self.path("sbatch"),
            self.path("scancel"),
            self.path("squeue")
        );
        let config = Config::parse(&text, Path::new("test")).unwrap();
        config.check().unwrap();
        config
    }
}

async fn idle(bus: &Bus, seq: u64, names: &[&str]) {
    let state = PoolState {
        pool: pool(seq, 100, names),
        predictor: "test".to_owned(),
    };
    bus.store(&address::pool(&cluster()), &state, "")
        .await
        .unwrap();
}

async fn speak(bus: &Bus, name: &str, leaving: bool) {
    speaks(bus, name, leaving, None).await;
}

async fn speaks(bus: &Bus, name: &str, leaving: bool, gave_back_in: Option<Span>) {
    let status = AgentStatus {
        leaving,
        gave_back_in,
        ..lacuna_testkit::status(name)
    };
    let subject = address::agent(&cluster(), &status.node);
    bus.publish(&subject, &status, "").await.unwrap();
}

#[test]
fn idle_nodes_get_pilots_which_outlive_control_and_are_adopted_and_cancelled() {
    in_virtual_and_real_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        // Jobs of others, one of the same name.
        let theirs =
            "7|1|train|RUNNING|n9|n9|lacuna-pilot|lacuna:other\n8|1|train|RUNNING|n8|n8|x|y\n";
        std::fs::write(slurm.path("jobs/7"), theirs).unwrap();
        let control = start(&nats, slurm.config("on")).await;
        idle(&bus, 1, &["n1", "n2", "n3"]).await;
        slurm.has(&control, 3).await;
        let lines = slurm.lines("sbatch.log");
        let first = lines.iter().find(|l| l.contains("--nodelist=n1 ")).unwrap();
        for part in [
            "--parsable",
            "--comment=lacuna:c",
            "--nodelist=n1",
            "--no-requeue",
            "--partition=filler",
            // The forecast says two minutes; nothing is shorter than the setting.
            "--time=00:05:00",
        ] {
            assert!(first.contains(part), "{first}");
        }
        let script = std::fs::read_to_string(slurm.path("script")).unwrap();
        assert!(script.contains("exec srun"), "{script}");
        for name in ["n1", "n2", "n3"] {
            speak(&bus, name, false).await;
        }
        let running = "lacuna_control_pilots{state=\"running\"}";
        control.shows(running, 3.0).await;
        // Control goes; the pilots stay.
        control.stop().await;
        assert_eq!(slurm.lines("scancel.log"), Vec::<String>::new());
        let control = start(&nats, slurm.config("on")).await;
        control.shows(running, 3.0).await;
        assert_eq!(control.metric("lacuna_control_pilots_adopted_total"), 3.0);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(slurm.lines("sbatch.log").len(), 3);
        control.stop().await;
        // Off: ours go, others stay.
        let control = start(&nats, slurm.config("off")).await;
        let ended = "lacuna_control_pilots_ended_total{end=\"cancelled\"}";
        control.shows(ended, 3.0).await;
        let cancelled = slurm.lines("scancel.log").join(" ");
        for ours in ["101", "102", "103", "--name=lacuna-pilot"] {
            assert!(cancelled.contains(ours), "{cancelled}");
        }
        let words: Vec<&str> = cancelled.split(' ').collect();
        assert!(
            !words.contains(&"7") && !words.contains(&"8"),
            "{cancelled}"
        );
        // A batch job waited for the pilot that another user ended, and for none of these.
        for name in ["n1", "n2", "n3", "n4"] {
            speaks(&bus, name, true, Some(Span::from_ms(5))).await;
        }
        let left = "lacuna_control_harm_seconds_count{cause=\"idle\"}";
        control.shows(left, 4.0).await;
        for (seq, name) in [(1, "n1"), (2, "n2"), (3, "n3"), (4, "n4")] {
            let begins = NodeEvent {
                seq,
                at: Timestamp::from_unix(200),
                kind: EventKind::NodeBusy { node: node(name) },
            };
            let id = format!("{seq}.{name}.node.busy.200");
            let subject = address::event(&cluster());
            bus.store(&subject, &begins, &id).await.unwrap();
        }
        let jobs = "lacuna_control_handover_seconds_count";
        control
            .until("the last has begun", |c| c.metric(jobs) > 0.0)
            .await;
        assert_eq!(control.metric(jobs), 1.0);
        control.stop().await;
    });
}

#[test]
fn a_preempted_pilot_is_followed_by_another_when_its_node_is_idle_again() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        let control = start(&nats, slurm.config("on")).await;
        idle(&bus, 1, &["n1"]).await;
        slurm.has(&control, 1).await;
        speak(&bus, "n1", false).await;
        let running = "lacuna_control_pilots{state=\"running\"}";
        control.shows(running, 1.0).await;
        speak(&bus, "n1", true).await;
        let job = std::fs::read_to_string(slurm.path("jobs/101")).unwrap();
        std::fs::write(slurm.path("jobs/101"), job.replace("RUNNING", "PREEMPTED")).unwrap();
        idle(&bus, 2, &[]).await;
        let preempted = "lacuna_control_pilots_ended_total{end=\"preempted\"}";
        control.shows(preempted, 1.0).await;
        assert_eq!(slurm.lines("sbatch.log").len(), 1);
        idle(&bus, 3, &["n1"]).await;
        slurm.has(&control, 2).await;
        let failed = "lacuna_control_pilots_failed_total{cause=\"died young\"}";
        assert_eq!(control.metric(failed), 0.0);
        control.stop().await;
    });
}

#[test]
fn no_pilot_is_submitted_in_mode_observe_or_without_lists() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        let control = start(&nats, slurm.config("observe")).await;
        idle(&bus, 1, &["n1"]).await;
        let seen = "lacuna_control_pilots_nodes{state=\"idle\"}";
        control.shows(seen, 1.0).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(slurm.lines("sbatch.log"), Vec::<String>::new());
        control.stop().await;
        // The scheduler's lists do not come: pilots may be there.
        slurm.touch("away");
        let control = start(&nats, slurm.config("on")).await;
        let failures = "lacuna_control_pilots_command_failures_total{command=\"list\"}";
        control
            .until("lists fail", |c| c.metric(failures) >= 3.0)
            .await;
        assert_eq!(slurm.lines("sbatch.log"), Vec::<String>::new());
        assert_eq!(control.metric("lacuna_control_pilots_blind"), 1.0);
        control.stop().await;
    });
}

#[test]
fn a_submission_that_is_denied_hangs_or_has_no_program_is_named() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        idle(&bus, 1, &["n1"]).await;
        let refused =
            |cause: &str| format!("lacuna_control_pilots_refused_total{{cause=\"{cause}\"}}");
        slurm.touch("deny");
        let control = start(&nats, slurm.config("on")).await;
        control.shows(&refused("denied"), 1.0).await;
        control.stop().await;
        std::fs::remove_file(slurm.path("deny")).unwrap();
        slurm.touch("hang");
        let control = start(&nats, slurm.config("on")).await;
        control.shows(&refused("unreachable"), 1.0).await;
        control.stop().await;
        let mut config = slurm.config("on");
        if let Some(pilots) = &mut config.control.pilots {
            pilots.commands.submit = vec!["/no/such/sbatch".to_owned()];
        }
        let control = start(&nats, config).await;
        control.shows(&refused("missing"), 1.0).await;
        control.stop().await;
    });
}

const GOOD: &str = "PreemptType = preempt/partition_prio\nPreemptMode = CANCEL\n\n\
                    PartitionName=batch\n   Nodes=ALL PriorityTier=10 PreemptMode=OFF\n\n\
                    PartitionName=filler\n   Nodes=ALL PriorityTier=1 PreemptMode=CANCEL\n";

fn checked(slurm: &Slurm, answer: &str, overridden: bool) -> Config {
    let text = format!("#!/bin/sh\ncat <<'E'\n{answer}\nE\n");
    std::fs::write(slurm.path("scontrol"), text).unwrap();
    std::fs::set_permissions(slurm.path("scontrol"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut config = slurm.config("on");
    let pilots = config.control.pilots.as_mut().unwrap();
    pilots.commands.scontrol = vec![slurm.path("scontrol").display().to_string()];
    pilots.override_check = overridden;
    config
}

#[test]
fn a_slurm_that_would_harm_batch_jobs_gets_no_pilots_unless_overridden() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        idle(&bus, 1, &["n1"]).await;
        let bad = GOOD.replace("PriorityTier=10", "PriorityTier=1");
        let fatal = "lacuna_control_pilots_check_conditions{verdict=\"fatal\"}";
        let control = start(&nats, checked(&slurm, &bad, false)).await;
        let observes = "lacuna_control_pilots_mode{mode=\"observe\"}";
        control.shows(observes, 1.0).await;
        assert!(control.metric(fatal) >= 1.0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(slurm.lines("sbatch.log"), Vec::<String>::new());
        control.stop().await;
        for (answer, overridden, nodes) in [(bad.as_str(), true, "n1"), (GOOD, false, "n2")] {
            idle(&bus, 2, &[nodes]).await;
            let control = start(&nats, checked(&slurm, answer, overridden)).await;
            let wanted = format!("--nodelist={nodes} ");
            control
                .until("a submission", |_| {
                    slurm
                        .lines("sbatch.log")
                        .iter()
                        .any(|l| l.contains(&wanted))
                })
                .await;
            control.stop().await;
        }
    });
}

#[test]
fn an_observer_counts_what_plans_would_have_used_and_what_was_taken() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        let mut config = slurm.config("observe");
        if let Some(pilots) = &mut config.control.pilots {
            pilots.assumed.start = lacuna_model::Span::ZERO;
            pilots.assumed.delay = lacuna_model::Span::from_secs(3);
        }
        let control = start(&nats, config).await;
        idle(&bus, 1, &["n1", "n2", "n3"]).await;
        let allocation = lacuna_model::Allocation {
            trainer: lacuna_model::TrainerId::new("t").unwrap(),
            nodes: vec![node("n1"), node("n2")],
        };
        let plan = lacuna_wire::msg::PlanState {
            plan: lacuna_model::Plan::by_hand(1, Timestamp::from_unix(100), 1, vec![allocation]),
            trainers_version: 1,
            runs: Vec::new(),
            latency_s: 0.0,
            judged: None,
        };
        bus.store(&address::plan(&cluster()), &plan, "")
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        // A batch job takes one of the plan and one that is not in it.
        idle(&bus, 2, &["n2"]).await;
        let wanted = "lacuna_control_observed_wanted_nodes_total";
        control.shows(wanted, 1.0).await;
        assert_eq!(
            control.metric("lacuna_control_observed_delay_seconds_total"),
            3.0
        );
        control.stop().await;
        let bucket = bus.bucket(address::observed_bucket(&cluster()));
        let kept = bucket.list().await.unwrap();
        let sum = |of: fn(&lacuna_wire::msg::ObservedHour) -> f64| -> f64 {
            kept.iter().map(|entry| of(&entry.value)).sum()
        };
        assert_eq!(sum(|h| h.wanted as f64), 1.0);
        assert_eq!(sum(|h| h.pilots as f64), 2.0);
        assert!(sum(|h| h.harvested_node_s) >= 2.0, "{kept:?}");
        assert!(sum(|h| h.idle_node_s) > sum(|h| h.planned_node_s));
        assert_eq!(slurm.lines("sbatch.log"), Vec::<String>::new());
    });
}
