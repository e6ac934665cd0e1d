use super::*;
use crate::check::worst;

/// As `scontrol show config` prints it, shortened.
const CONFIG: &str = "\
Configuration data as of 2026-01-31T12:00:00
CompleteWait            = 0 sec
Epilog                  = (null)
EpilogSlurmctld         = (null)
HealthCheckInterval     = 0 sec
HealthCheckNodeState    = ANY
HealthCheckProgram      = (null)
JobSubmitPlugins        = (null)
KillWait                = 30 sec
MCSPlugin               = mcs/none
MessageTimeout          = 10 sec
MinJobAge               = 300 sec
PreemptMode             = CANCEL
PreemptParameters       = (null)
PreemptType             = preempt/partition_prio
PreemptExemptTime       = 00:00:00
ProctrackType           = proctrack/cgroup
SchedulerParameters     = bf_interval=30,bf_continue
SchedulerType           = sched/backfill
SLURM_VERSION           = 22.05.8
SlurmctldParameters     = (null)
SuspendProgram          = (null)
SuspendTime             = INFINITE
UnkillableStepTimeout   = 60 sec

Slurmctld(primary) at ctl is UP
";

const PARTITIONS: &str = "\
PartitionName=batch
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   Default=YES QoS=N/A
   ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxTime=UNLIMITED Nodes=n[1-4]
   PriorityJobFactor=1 PriorityTier=10 RootOnly=NO ReqResv=NO OverSubscribe=EXCLUSIVE
   OverTimeLimit=NONE PreemptMode=OFF
   State=UP TotalCPUs=16 TotalNodes=4

PartitionName=filler
   AllowGroups=ALL AllowAccounts=lacuna AllowQos=ALL
   Default=NO QoS=N/A
   ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxTime=1-00:00:00 Nodes=n[1-4]
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=EXCLUSIVE
   OverTimeLimit=NONE PreemptMode=CANCEL
   State=UP TotalCPUs=16 TotalNodes=4
";

const QOS: &str = "\
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageFactor|MaxWall|MaxJobsPU
normal|0|00:00:00|||cluster||1.000000|1-00:00:00|
lacuna|0|00:00:00|||cancel|NoReserve|0.000000||
";

fn filler() -> Filler {
    Filler {
        partition: "filler".to_owned(),
        qos: "lacuna".to_owned(),
        account: "lacuna".to_owned(),
        exclusive: true,
        rate: 20,
    }
}

fn site(config: &str, partitions: &str, qos: &str) -> Vec<Finding> {
    let mut facts = Facts::default();
    for text in [config, partitions, qos] {
        facts.read(text);
    }
    check(&facts, &filler())
}

/// The verdict on a condition; the worst if there are several.
fn verdict(findings: &[Finding], condition: &str) -> Option<Verdict> {
    let of = findings.iter().filter(|f| f.condition == condition);
    of.map(|f| f.verdict).max()
}

#[test]
fn a_sound_site_needs_no_remedy_but_for_immediate_jobs() {
    let findings = site(CONFIG, PARTITIONS, QOS);
    let bad: Vec<&Finding> = findings
        .iter()
        .filter(|f| f.verdict != Verdict::Ok)
        .collect();
    let names: Vec<&str> = bad.iter().map(|f| f.condition).collect();
    assert_eq!(names, ["immediate jobs"], "{bad:#?}");
    assert!(findings.len() >= 18, "{}", findings.len());
    assert_eq!(worst(&findings), Verdict::Warning);
}

/// Each line: the changed text, its replacement, and the expected verdict.
#[test]
fn each_condition_is_refuted_by_its_breach() {
    for (from, to, condition, expected) in [
        ("22.05.8", "20.02.3", "version", Verdict::Fatal),
        (
            "preempt/partition_prio",
            "preempt/none",
            "preempt type",
            Verdict::Fatal,
        ),
        (
            "PreemptMode             = CANCEL",
            "PreemptMode             = OFF",
            "preempt mode",
            Verdict::Fatal,
        ),
        (
            "PreemptMode             = CANCEL",
            "PreemptMode             = CANCEL,PRIORITY",
            "priority only",
            Verdict::Fatal,
        ),
        (
            "PreemptMode             = CANCEL",
            "PreemptMode             = CANCEL,WITHIN",
            "preempt within",
            Verdict::Warning,
        ),
        (
            "PreemptMode=CANCEL",
            "PreemptMode=OFF",
            "preempt mode",
            Verdict::Fatal,
        ),
        (
            "PreemptMode=CANCEL",
            "PreemptMode=SUSPEND",
            "preempt mode",
            Verdict::Fatal,
        ),
        (
            "PreemptMode=CANCEL",
            "PreemptMode=REQUEUE",
            "preempt mode",
            Verdict::Warning,
        ),
        (
            "PriorityTier=10",
            "PriorityTier=1",
            "priority tier",
            Verdict::Fatal,
        ),
        (
            "PriorityTier=1 ",
            "PriorityTier=20 ",
            "priority tier",
            Verdict::Fatal,
        ),
        (
            "PriorityTier=1 RootOnly=NO",
            "PriorityTier=1 RootOnly=YES",
            "submission",
            Verdict::Fatal,
        ),
        (
            "AllowAccounts=lacuna",
            "AllowAccounts=physics,biology",
            "submission",
            Verdict::Fatal,
        ),
        (
            "PartitionName=filler",
            "PartitionName=other",
            "partition",
            Verdict::Fatal,
        ),
        (
            "Default=NO",
            "Default=YES",
            "default partition",
            Verdict::Fatal,
        ),
        (
            "00:00:00\nProctrack",
            "00:05:00\nProctrack",
            "exempt time",
            Verdict::Fatal,
        ),
        (
            "KillWait                = 30",
            "KillWait                = 120",
            "kill wait",
            Verdict::Warning,
        ),
        (
            "MessageTimeout          = 10",
            "MessageTimeout          = 100",
            "second preemption",
            Verdict::Warning,
        ),
        (
            "GraceTime=0 Hidden=NO\n   MaxTime=1-",
            "GraceTime=30 Hidden=NO\n   MaxTime=1-",
            "grace time",
            Verdict::Warning,
        ),
        (
            "GraceTime=0 Hidden=NO\n   MaxTime=1-",
            "GraceTime=600 Hidden=NO\n   MaxTime=1-",
            "grace time",
            Verdict::Fatal,
        ),
        (
            "PreemptParameters       = (null)",
            "PreemptParameters       = min_exempt_priority=5",
            "exempt priority",
            Verdict::Fatal,
        ),
        (
            "ExclusiveUser=NO",
            "ExclusiveUser=YES",
            "exclusive user",
            Verdict::Fatal,
        ),
        ("mcs/none", "mcs/account", "mcs labels", Verdict::Warning),
        (
            "OverSubscribe=EXCLUSIVE",
            "OverSubscribe=FORCE:4",
            "whole nodes",
            Verdict::Fatal,
        ),
        (
            "OverSubscribe=EXCLUSIVE",
            "OverSubscribe=FORCE:4",
            "forced sharing",
            Verdict::Warning,
        ),
        (
            "sched/backfill",
            "sched/builtin",
            "backfill",
            Verdict::Warning,
        ),
        (
            "bf_continue",
            "batch_sched_delay=10",
            "scheduling delay",
            Verdict::Warning,
        ),
        (
            "bf_continue",
            "defer",
            "deferred scheduling",
            Verdict::Warning,
        ),
        (
            "proctrack/cgroup",
            "proctrack/linuxproc",
            "process tracking",
            Verdict::Warning,
        ),
        (
            "UnkillableStepTimeout   = 60",
            "UnkillableStepTimeout   = 5",
            "unkillable",
            Verdict::Warning,
        ),
        (
            "Epilog                  = (null)",
            "Epilog                  = /etc/slurm/epilog.sh",
            "epilog",
            Verdict::Warning,
        ),
        (
            "CompleteWait            = 0",
            "CompleteWait            = 32",
            "complete wait",
            Verdict::Warning,
        ),
        (
            "SlurmctldParameters     = (null)",
            "SlurmctldParameters     = rl_enable",
            "request budget",
            Verdict::Warning,
        ),
        (
            "MinJobAge               = 300",
            "MinJobAge               = 10",
            "job age",
            Verdict::Warning,
        ),
        (
            "JobSubmitPlugins        = (null)",
            "JobSubmitPlugins        = lua",
            "submit plugins",
            Verdict::Unknown,
        ),
        (
            "SchedulerType ",
            "CliFilterPlugins = lua\nSchedulerType ",
            "immediate jobs",
            Verdict::Unknown,
        ),
        ("State=UP", "State=DRAIN", "partition", Verdict::Fatal),
        ("|0.000000", "|1.000000", "accounting", Verdict::Warning),
        ("|NoReserve|", "||", "reservation", Verdict::Warning),
        (
            "|0.000000||",
            "|0.000000||4",
            "qos limits",
            Verdict::Warning,
        ),
        (
            "|0.000000||",
            "|0.000000|01:00:00|",
            "qos limits",
            Verdict::Warning,
        ),
        ("lacuna|0|", "other|0|", "accounting", Verdict::Fatal),
    ] {
        let changed = |text: &str| text.replace(from, to);
        let all = CONFIG.to_owned() + PARTITIONS + QOS;
        assert!(all.contains(from), "{from:?} is missing");
        let findings = site(&changed(CONFIG), &changed(PARTITIONS), &changed(QOS));
        assert_eq!(
            verdict(&findings, condition),
            Some(expected),
            "{from:?} -> {to:?}: {findings:#?}"
        );
        let finding = findings
            .iter()
            .find(|f| f.condition == condition && f.verdict == expected);
        assert!(
            !finding.unwrap().remedy.is_empty(),
            "{condition} has no remedy"
        );
    }
}

#[test]
fn reports_of_utilization_need_an_account_of_pilots() {
    let mut facts = Facts::default();
    let storage = "AccountingStorageType   = accounting_storage/slurmdbd\n";
    facts.read(&(CONFIG.to_owned() + storage));
    facts.read(PARTITIONS);
    for (account, expected) in [("lacuna", Verdict::Ok), ("", Verdict::Warning)] {
        let account = account.to_owned();
        let findings = check(
            &facts,
            &Filler {
                account,
                ..filler()
            },
        );
        assert_eq!(verdict(&findings, "utilization reports"), Some(expected));
    }
    // Without the list of QOS nothing is said of the account of pilots.
    assert_eq!(
        verdict(&check(&facts, &filler()), "accounting"),
        Some(Verdict::Unknown)
    );
    assert_eq!(
        verdict(&site(CONFIG, PARTITIONS, QOS), "utilization reports"),
        None
    );
}

#[test]
fn health_checks_and_power_saving_of_idle_nodes_give_warnings() {
    let config = CONFIG
        .replace(
            "HealthCheckInterval     = 0 sec",
            "HealthCheckInterval     = 300 sec",
        )
        .replace(
            "HealthCheckProgram      = (null)",
            "HealthCheckProgram      = /usr/sbin/nhc",
        )
        .replace(
            "HealthCheckNodeState    = ANY",
            "HealthCheckNodeState    = IDLE",
        )
        .replace(
            "SuspendProgram          = (null)",
            "SuspendProgram          = /etc/slurm/off.sh",
        )
        .replace(
            "SuspendTime             = INFINITE",
            "SuspendTime             = 600 sec",
        );
    let findings = site(&config, PARTITIONS, QOS);
    assert_eq!(verdict(&findings, "health check"), Some(Verdict::Warning));
    assert_eq!(verdict(&findings, "power saving"), Some(Verdict::Warning));
}

#[test]
fn preemption_by_qos_needs_every_qos_to_preempt() {
    let config = CONFIG.replace("preempt/partition_prio", "preempt/qos");
    let findings = site(&config, PARTITIONS, QOS);
    assert_eq!(verdict(&findings, "preempting qos"), Some(Verdict::Fatal));
    let qos = QOS.replace("normal|0|00:00:00||", "normal|0|00:00:00|lacuna|");
    let findings = site(&config, PARTITIONS, &qos);
    assert_eq!(verdict(&findings, "preempting qos"), Some(Verdict::Ok));
    let findings = site(&config, PARTITIONS, "");
    assert_eq!(verdict(&findings, "preempting qos"), Some(Verdict::Unknown));
}

#[test]
fn settings_that_a_file_leaves_out_have_their_defaults() {
    let file = "\
# a comment
ClusterName=test
PreemptType=preempt/partition_prio   # with a comment
PreemptMode=CANCEL
NodeName=n[1-4] CPUs=4
PartitionName=DEFAULT Nodes=ALL \\
  State=UP
PartitionName=batch Default=YES PriorityTier=10 PreemptMode=OFF
PartitionName=filler PriorityTier=1 PreemptMode=CANCEL OverSubscribe=EXCLUSIVE
";
    let findings = site(file, "", "");
    for (condition, expected) in [
        ("preempt type", Verdict::Ok),
        ("preempt mode", Verdict::Ok),
        ("priority tier", Verdict::Ok),
        ("kill wait", Verdict::Ok),
        ("exempt time", Verdict::Ok),
        ("partition", Verdict::Ok),
        ("version", Verdict::Unknown),
    ] {
        assert_eq!(
            verdict(&findings, condition),
            Some(expected),
            "{condition}: {findings:#?}"
        );
    }
    let silent = file
        .replace("PreemptMode=CANCEL\n", "")
        .replace("PreemptType", "#");
    let findings = site(&silent, "", "");
    assert_eq!(verdict(&findings, "preempt type"), Some(Verdict::Fatal));
    assert_eq!(verdict(&findings, "preempt mode"), Some(Verdict::Fatal));
}

#[test]
fn without_facts_every_verdict_is_unknown() {
    let findings = site("", "", "");
    assert!(
        findings.iter().all(|f| f.verdict != Verdict::Fatal),
        "{findings:#?}"
    );
    assert_eq!(verdict(&findings, "configuration"), Some(Verdict::Unknown));
    assert_eq!(verdict(&findings, "partition"), Some(Verdict::Unknown));
}

#[test]
fn nodes_drained_by_a_failed_kill_are_reported() {
    let nodes = "NodeName=n1 Arch=x86_64 State=IDLE+DRAIN Reason=Kill task failed [root@x]\n\
                 NodeName=n2 State=IDLE\n";
    let findings = site(CONFIG, PARTITIONS, nodes);
    let found = findings
        .iter()
        .find(|f| f.condition == "drained nodes")
        .unwrap();
    assert_eq!(found.verdict, Verdict::Warning);
    assert!(
        found.seen.contains("n1: Kill task failed"),
        "{}",
        found.seen
    );
}

#[test]
fn partitions_of_other_nodes_do_not_count() {
    let other = PARTITIONS.to_owned()
        + "\nPartitionName=gpu\n   Nodes=g[1-4] PriorityTier=1 PreemptMode=OFF\n   State=UP\n";
    let findings = site(CONFIG, &other, QOS);
    assert_eq!(verdict(&findings, "priority tier"), Some(Verdict::Ok));
    let shared = other.replace("g[1-4]", "g[1-4],n4");
    let findings = site(CONFIG, &shared, QOS);
    assert_eq!(verdict(&findings, "priority tier"), Some(Verdict::Fatal));
}

/// The snippet fulfils all conditions of the check.
#[test]
fn the_snippet_passes_its_own_check() {
    let mut facts = Facts::default();
    facts.read("ClusterName=x\nPartitionName=batch Nodes=ALL Default=YES\n");
    let mut filler = filler();
    filler.qos = String::new();
    let text = snippet(&facts, &filler);
    let conf: String = text
        .lines()
        .take_while(|l| !l.is_empty())
        .collect::<Vec<_>>()
        .join("\n");
    let batch = "\nPartitionName=batch Nodes=ALL Default=YES PriorityTier=10 PreemptMode=OFF\n";
    assert!(
        conf.contains("# in the line of batch: PriorityTier=10 PreemptMode=OFF"),
        "{conf}"
    );
    let findings = site(&(conf + batch), "", "");
    let bad: Vec<&Finding> = findings
        .iter()
        .filter(|f| f.verdict >= Verdict::Warning && f.condition != "immediate jobs")
        .collect();
    assert!(bad.is_empty(), "{bad:#?}\n{text}");
    // Its commands ask nothing, and a shorter wait stays.
    let mut commands = text.lines().filter(|line| line.starts_with("sacctmgr"));
    assert!(
        commands.all(|line| line.starts_with("sacctmgr -i ")),
        "{text}"
    );
    facts.read("KillWait                = 5 sec\n");
    let text = snippet(&facts, &filler);
    assert!(
        text.contains("\n# KillWait=5 sec stays as it is.\n"),
        "{text}"
    );
    facts.read("KillWait                = 120 sec\n");
    assert!(snippet(&facts, &filler).contains("\nKillWait=30\n"));
}

#[test]
fn times_in_slurms_notation_are_read() {
    for (text, expected) in [
        ("30", Some(30)),
        ("30 sec", Some(30)),
        ("5 min", Some(300)),
        ("00:02:00", Some(120)),
        ("1-00:00:00", Some(86_400)),
        ("INFINITE", Some(u64::MAX)),
        ("NONE", None),
        ("2000 usec", Some(0)),
        ("", None),
    ] {
        assert_eq!(record::seconds(text), expected, "{text:?}");
    }
}
