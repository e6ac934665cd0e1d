//! Conditions of preemption: batch jobs get all nodes of pilots, at once.

use super::Site;
use super::record::{Record, seconds};
use crate::check::{Finding, Verdict, add};

/// Seconds of KillWait that a batch job may wait for a pilot without harm worth a warning.
pub(super) const LONGEST_KILL_WAIT: u64 = 30;
/// Seconds for which Slurm holds a job that was requeued.
const REQUEUE_HOLD: u64 = 120;

pub(super) fn judge(site: &Site<'_>, out: &mut Vec<Finding>) {
    kind(site, out);
    modes(site, out);
    tiers(site, out);
    grace(site, out);
    exempt(site, out);
    parameters(site, out);
    blocked(site, out);
    sharing(site, out);
    backfill(site, out);
}

fn kind(site: &Site<'_>, out: &mut Vec<Finding>) {
    let by = site.setting("PreemptType");
    let verdict = match by.as_deref() {
        Some("preempt/partition_prio" | "preempt/qos") => Verdict::Ok,
        Some(_) => Verdict::Fatal,
        None if site.facts.knows("PreemptType") => Verdict::Fatal,
        None => Verdict::Unknown,
    };
    add(
        out,
        "preempt type",
        verdict,
        by.clone().unwrap_or_else(|| "none".to_owned()),
        "without preemption a batch job waits until the time of a pilot is up",
        "PreemptType=preempt/partition_prio",
    );
    if by.as_deref() == Some("preempt/qos") {
        by_qos(site, out);
    }
}

fn by_qos(site: &Site<'_>, out: &mut Vec<Finding>) {
    let Some(all) = &site.facts.qos else {
        add(
            out,
            "preempting qos",
            Verdict::Unknown,
            "no list of QOS",
            "a QOS preempts only those that it names",
            "give the output of `sacctmgr show qos --parsable2`",
        );
        return;
    };
    let ours = &site.filler.qos;
    let names = |qos: &Record| {
        let list = qos.get("Preempt").unwrap_or_default();
        !ours.is_empty() && list.split(',').any(|each| each == ours)
    };
    let others = || all.iter().filter(|qos| qos.name != *ours);
    let blind: Vec<&str> = others()
        .filter(|q| !names(q))
        .map(|q| q.name.as_str())
        .collect();
    let verdict = if ours.is_empty() || !others().any(names) {
        Verdict::Fatal
    } else if blind.is_empty() {
        Verdict::Ok
    } else {
        Verdict::Fatal
    };
    add(
        out,
        "preempting qos",
        verdict,
        if blind.is_empty() {
            "every QOS preempts that of pilots".to_owned()
        } else {
            format!("these do not preempt {ours:?}: {}", blind.join(", "))
        },
        "jobs of a QOS that does not name that of pilots wait for them",
        "sacctmgr modify qos NAME set Preempt+=(that of pilots), for each of them",
    );
}

fn modes(site: &Site<'_>, out: &mut Vec<Finding>) {
    let whole = site.setting("PreemptMode");
    let by_qos = site.setting("PreemptType").as_deref() == Some("preempt/qos");
    let Some(whole) = whole.filter(|_| site.facts.has_config) else {
        add(
            out,
            "preempt mode",
            Verdict::Unknown,
            "unknown",
            "without PreemptMode nothing is preempted",
            "PreemptMode=CANCEL",
        );
        return;
    };
    let words =
        |text: &str| -> Vec<String> { text.split(',').map(|w| w.trim().to_uppercase()).collect() };
    let cluster = words(&whole);
    let has = |word: &str| cluster.iter().any(|w| w == word);
    if has("PRIORITY") {
        add(
            out,
            "priority only",
            Verdict::Fatal,
            format!("PreemptMode={whole}"),
            "a batch job then preempts a pilot only if its priority is greater, and waits for it \
             otherwise",
            "PreemptMode without PRIORITY",
        );
    }
    if has("OFF") {
        add(
            out,
            "preempt mode",
            Verdict::Fatal,
            format!("PreemptMode={whole}"),
            "nothing is preempted, whatever partitions say",
            "PreemptMode=CANCEL for the cluster, OFF for each partition of batch jobs",
        );
        return;
    }
    let own = if by_qos {
        site.qos().and_then(|qos| qos.get("PreemptMode"))
    } else {
        site.partition().and_then(|p| p.get("PreemptMode"))
    };
    let own = own.filter(|mode| !mode.eq_ignore_ascii_case("cluster"));
    let mode = own.map_or_else(|| whole.clone(), str::to_owned);
    let list = words(&mode);
    let any = |word: &str| list.iter().any(|w| w == word);
    let (verdict, meaning) = if any("OFF") {
        (Verdict::Fatal, "pilots are never preempted")
    } else if any("SUSPEND") {
        let text = "suspended pilots keep their memory and come back beside batch jobs";
        (Verdict::Fatal, text)
    } else if any("CANCEL") {
        (
            Verdict::Ok,
            "a preempted pilot is cancelled, and control starts another later",
        )
    } else {
        let text = "pilots ask not to be requeued and are cancelled; one that is requeued by an \
                    administrator waits for two minutes and runs beside its replacement";
        (Verdict::Warning, text)
    };
    let place = if own.is_none() {
        "cluster"
    } else if by_qos {
        "QOS"
    } else {
        "partition"
    };
    add(
        out,
        "preempt mode",
        verdict,
        format!("PreemptMode={mode} ({place})"),
        meaning,
        "PreemptMode=CANCEL for pilots",
    );
    if has("WITHIN") || any("WITHIN") {
        add(
            out,
            "preempt within",
            Verdict::Warning,
            format!("PreemptMode={whole}"),
            "pilots may preempt each other",
            "PreemptMode without WITHIN",
        );
    }
}

fn tiers(site: &Site<'_>, out: &mut Vec<Finding>) {
    let Some(ours) = site.partition() else { return };
    let tier = |p: &Record| {
        p.get("PriorityTier")
            .map_or(Some(1), |t| t.parse::<u32>().ok())
    };
    let Some(own) = tier(ours) else { return };
    let mut above = Vec::new();
    let mut not_above = Vec::new();
    for other in site.others() {
        match tier(other) {
            Some(tier) if tier > own => above.push(format!("{} {tier}", other.name)),
            Some(tier) => not_above.push(format!("{} {tier}", other.name)),
            None => {}
        }
    }
    let seen = format!("{} {own}; others {}", ours.name, {
        let all: Vec<String> = not_above.iter().chain(&above).cloned().collect();
        if all.is_empty() {
            "none".to_owned()
        } else {
            all.join(", ")
        }
    });
    let verdict = match (above.is_empty(), not_above.is_empty()) {
        (_, false) => Verdict::Fatal,
        (false, true) => Verdict::Ok,
        (true, true) => Verdict::Warning,
    };
    add(
        out,
        "priority tier",
        verdict,
        seen,
        if not_above.is_empty() && above.is_empty() {
            "no other partition has these nodes: no batch job can preempt pilots there"
        } else {
            "jobs of a partition whose tier is not above that of pilots wait for them"
        },
        "PriorityTier of pilots' partition below that of every other with the same nodes",
    );
}

fn grace(site: &Site<'_>, out: &mut Vec<Finding>) {
    let of_partition = site.partition().map(|p| p.get("GraceTime").unwrap_or("0"));
    let of_qos = site.qos().map(|q| q.get("GraceTime").unwrap_or("0"));
    let Some(text) = of_partition else { return };
    let most = [Some(text), of_qos]
        .into_iter()
        .flatten()
        .filter_map(seconds)
        .max();
    let verdict = match most {
        None => Verdict::Unknown,
        Some(0) => Verdict::Ok,
        Some(1..=60) => Verdict::Warning,
        Some(_) => Verdict::Fatal,
    };
    add(
        out,
        "grace time",
        verdict,
        format!("GraceTime={text}, QOS {}", of_qos.unwrap_or("-")),
        "pilots leave in tens of milliseconds. Slurm enforces a grace time in a loop of half a \
         minute: a grace time of 10 s lasted 27 s for a pilot that does not leave",
        "GraceTime=0 for the partition and the QOS of pilots",
    );
    let kill = site.setting("KillWait");
    let Some(text) = kill else {
        add(
            out,
            "kill wait",
            Verdict::Unknown,
            "unknown",
            "a pilot that ignores SIGTERM keeps its node for KillWait",
            "KillWait=30 or less",
        );
        return;
    };
    let verdict = match seconds(&text) {
        None => Verdict::Unknown,
        Some(0..=LONGEST_KILL_WAIT) => Verdict::Ok,
        Some(_) => Verdict::Warning,
    };
    add(
        out,
        "kill wait",
        verdict,
        format!("KillWait={text}"),
        "the longest that a batch job waits for a pilot that ignores SIGTERM",
        "KillWait=30 or less",
    );
    again(site, &text, out);
}

/// Slurm takes the first preemption of a job for unfinished as long as its victims may live, even once the
/// job has started and was requeued.
fn again(site: &Site<'_>, kill: &str, out: &mut Vec<Finding>) {
    let Some(message) = site.setting("MessageTimeout") else {
        return;
    };
    let sum = seconds(kill)
        .zip(seconds(&message))
        .map(|(a, b)| a.saturating_add(b));
    add(
        out,
        "second preemption",
        match sum {
            None => Verdict::Unknown,
            Some(0..=REQUEUE_HOLD) => Verdict::Ok,
            Some(_) => Verdict::Warning,
        },
        format!("KillWait={kill}, MessageTimeout={message}"),
        "a job preempts no further pilots for the sum of both after its first preemption. Slurm holds \
         requeued jobs for two minutes, unless their owner sets StartTime=now",
        "KillWait and MessageTimeout of less than two minutes together",
    );
}

fn exempt(site: &Site<'_>, out: &mut Vec<Finding>) {
    let whole = site.setting("PreemptExemptTime");
    let of_qos = site.qos().and_then(|q| q.get("PreemptExemptTime"));
    // The setting of a QOS overrides the setting of the cluster.
    let text = of_qos.map(str::to_owned).or(whole);
    let long = text
        .as_deref()
        .map(|t| seconds(t).filter(|_| !t.starts_with('-')));
    let verdict = match long {
        None if !site.facts.has_config => Verdict::Unknown,
        // `-1` and `NONE` mean no exempt time.
        None | Some(None | Some(0)) => Verdict::Ok,
        Some(Some(_)) => Verdict::Fatal,
    };
    add(
        out,
        "exempt time",
        verdict,
        format!("PreemptExemptTime={}", text.as_deref().unwrap_or("none")),
        "a pilot cannot be preempted for this long after its start, so batch jobs wait",
        "PreemptExemptTime=0 for the cluster or for the QOS of pilots",
    );
}

fn parameters(site: &Site<'_>, out: &mut Vec<Finding>) {
    let text = site.setting("PreemptParameters").unwrap_or_default();
    let least = text
        .split(',')
        .find(|p| p.starts_with("min_exempt_priority"));
    if let Some(least) = least {
        add(
            out,
            "exempt priority",
            Verdict::Fatal,
            least,
            "jobs above this priority are never preempted; pilots that wait gain priority",
            "PreemptParameters without min_exempt_priority",
        );
    }
}

fn blocked(site: &Site<'_>, out: &mut Vec<Finding>) {
    let exclusive: Vec<&str> = site
        .others()
        .chain(site.partition())
        .filter(|p| {
            p.get("ExclusiveUser")
                .is_some_and(|v| v.eq_ignore_ascii_case("yes"))
        })
        .map(|p| p.name.as_str())
        .collect();
    let verdict = if exclusive.is_empty() {
        Verdict::Ok
    } else {
        Verdict::Fatal
    };
    add(
        out,
        "exclusive user",
        verdict,
        if exclusive.is_empty() {
            "no partition with ExclusiveUser=YES".to_owned()
        } else {
            format!("ExclusiveUser=YES: {}", exclusive.join(", "))
        },
        "where a node belongs to one user at a time, a job of another cannot preempt there",
        "ExclusiveUser=NO on partitions that share nodes with pilots (OverSubscribe=EXCLUSIVE \
         gives whole nodes)",
    );
    if let Some(mcs) = site.setting("MCSPlugin").filter(|m| m != "mcs/none") {
        add(
            out,
            "mcs labels",
            Verdict::Warning,
            mcs,
            "jobs of another label may be unable to preempt pilots",
            "no label on pilots, or pilots on nodes without labels",
        );
    }
}

fn sharing(site: &Site<'_>, out: &mut Vec<Finding>) {
    let Some(ours) = site.partition() else { return };
    let mode = |p: &Record| {
        p.get("OverSubscribe")
            .or(p.get("Shared"))
            .unwrap_or("NO")
            .to_uppercase()
    };
    let own = mode(ours);
    let verdict = if own.starts_with("FORCE") {
        Verdict::Fatal
    } else if own == "EXCLUSIVE" || site.filler.exclusive {
        Verdict::Ok
    } else {
        Verdict::Warning
    };
    let whole = if site.filler.exclusive {
        "whole"
    } else {
        "parts of"
    };
    add(
        out,
        "whole nodes",
        verdict,
        format!(
            "{}: OverSubscribe={own}; pilots ask for {whole} nodes",
            ours.name
        ),
        "a pilot beside a batch job on one node takes its memory, caches and network",
        "OverSubscribe=EXCLUSIVE for pilots' partition, control.pilots.exclusive = true",
    );
    let forced: Vec<String> = site
        .others()
        .filter(|p| mode(p).starts_with("FORCE"))
        .map(|p| format!("{}: OverSubscribe={}", p.name, mode(p)))
        .collect();
    if !forced.is_empty() {
        add(
            out,
            "forced sharing",
            Verdict::Warning,
            forced.join(", "),
            "jobs of these partitions may be put beside a pilot rather than preempt it",
            "OverSubscribe=NO or EXCLUSIVE there",
        );
    }
}

/// `batch_sched_delay` where it is not set, seconds.
const USUAL_DELAY_S: u32 = 3;

fn backfill(site: &Site<'_>, out: &mut Vec<Finding>) {
    let Some(kind) = site.setting("SchedulerType") else {
        return;
    };
    let parameters = site.setting("SchedulerParameters").unwrap_or_default();
    let number = |name: &str, default: u32| {
        let mut set = parameters
            .split(',')
            .filter_map(|p| p.trim().split_once('='));
        let value = set.find_map(|(key, value)| (key == name).then_some(value));
        value.and_then(|v| v.parse().ok()).unwrap_or(default)
    };
    let interval = number("bf_interval", 30);
    let verdict = if kind == "sched/backfill" {
        Verdict::Ok
    } else {
        Verdict::Warning
    };
    add(
        out,
        "backfill",
        verdict,
        format!("{kind}, bf_interval={interval}"),
        "backfill plans idle nodes for batch jobs; pilots do not start on planned nodes",
        "SchedulerType=sched/backfill",
    );
    let delay = number("batch_sched_delay", USUAL_DELAY_S);
    let verdict = if delay > USUAL_DELAY_S {
        Verdict::Warning
    } else {
        Verdict::Ok
    };
    add(
        out,
        "scheduling delay",
        verdict,
        format!("batch_sched_delay={delay}"),
        "while a job waits in the queue, a pilot included, Slurm does not try an `srun` at its submission: \
         it waits for the next run of the scheduler, this many seconds and one more at most",
        "SchedulerParameters=batch_sched_delay=0, where slurmctld has the processor time",
    );
    if parameters.split(',').any(|p| p.trim() == "defer") {
        add(
            out,
            "deferred scheduling",
            Verdict::Warning,
            "SchedulerParameters has defer",
            "batch jobs are scheduled in the next cycle, not at their submission: they wait for it \
             with and without pilots, and preemption follows",
            "none, if the site accepts this wait",
        );
    }
}
