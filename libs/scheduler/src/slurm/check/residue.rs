//! Conditions of what pilots leave behind on nodes, and of what pilots prevent on idle nodes.

use super::Site;
use super::record::seconds;
use crate::check::{Finding, Verdict, add};

pub(super) fn judge(site: &Site<'_>, out: &mut Vec<Finding>) {
    processes(site, out);
    completing(site, out);
    health(site, out);
    power(site, out);
    immediate(site, out);
    drained(site, out);
}

fn processes(site: &Site<'_>, out: &mut Vec<Finding>) {
    if let Some(kind) = site.setting("ProctrackType") {
        let verdict = if kind == "proctrack/cgroup" {
            Verdict::Ok
        } else {
            Verdict::Warning
        };
        add(
            out,
            "process tracking",
            verdict,
            kind,
            "without cgroups a process that leaves its parent survives its job and runs beside the \
             next; agents find those of training programs, unless they are killed themselves \
             (SIGKILL) together with the guard above the program",
            "ProctrackType=proctrack/cgroup",
        );
    }
    let Some(text) = site.setting("UnkillableStepTimeout") else {
        return;
    };
    let verdict = match seconds(&text) {
        None => Verdict::Unknown,
        Some(0..=59) => Verdict::Warning,
        Some(_) => Verdict::Ok,
    };
    add(
        out,
        "unkillable",
        verdict,
        format!("UnkillableStepTimeout={text}"),
        "a process that cannot be killed for this long, as in a write to a file system that \
         hangs, drains its node",
        "UnkillableStepTimeout=60 or more",
    );
}

fn completing(site: &Site<'_>, out: &mut Vec<Finding>) {
    for key in ["Epilog", "EpilogSlurmctld"] {
        let Some(script) = site.setting(key) else {
            if site.facts.knows(key) {
                add(
                    out,
                    "epilog",
                    Verdict::Ok,
                    format!("no {key}"),
                    "nodes are free at once",
                    "",
                );
            }
            continue;
        };
        add(
            out,
            "epilog",
            Verdict::Warning,
            format!("{key}={script}"),
            "a node is completing, and has no batch job, until the script has ended; a script that \
             fails drains the node",
            "let the script return at once for jobs of the partition of pilots \
             (SLURM_JOB_PARTITION), or end within tenths of a second",
        );
    }
    let Some(wait) = site.setting("CompleteWait") else {
        return;
    };
    let verdict = match seconds(&wait) {
        None => Verdict::Unknown,
        Some(0) => Verdict::Ok,
        Some(_) => Verdict::Warning,
    };
    add(
        out,
        "complete wait",
        verdict,
        format!("CompleteWait={wait}"),
        "while any job completes, others are not scheduled for up to this time; pilots complete \
         at each preemption",
        "CompleteWait=0",
    );
}

fn health(site: &Site<'_>, out: &mut Vec<Finding>) {
    let program = site.setting("HealthCheckProgram");
    let every = site
        .setting("HealthCheckInterval")
        .as_deref()
        .and_then(seconds);
    let Some(program) = program.filter(|_| every != Some(0)) else {
        return;
    };
    let state = site
        .setting("HealthCheckNodeState")
        .unwrap_or_else(|| "ANY".to_owned());
    let idle_only = state
        .split(',')
        .map(|s| s.trim().to_uppercase())
        .all(|s| s == "IDLE" || s == "CYCLE");
    add(
        out,
        "health check",
        if idle_only {
            Verdict::Warning
        } else {
            Verdict::Ok
        },
        format!("{program} on {state}"),
        "nodes with pilots are not idle: a check of idle nodes alone skips them, and batch jobs \
         meet the faults that it would have found",
        "HealthCheckNodeState=ANY",
    );
}

fn power(site: &Site<'_>, out: &mut Vec<Finding>) {
    let Some(program) = site.setting("SuspendProgram") else {
        return;
    };
    let after = site
        .setting("SuspendTime")
        .unwrap_or_else(|| "INFINITE".to_owned());
    let never = after.starts_with('-') || seconds(&after) == Some(u64::MAX);
    add(
        out,
        "power saving",
        if never { Verdict::Ok } else { Verdict::Warning },
        format!("{program} after {after}"),
        "nodes with pilots never power down",
        "control.pilots.pace.only_with_work = true, so that pilots start only for trainers with \
         work, and idle_after below SuspendTime",
    );
}

/// Slurm preempts for no job that must start at once.
fn immediate(site: &Site<'_>, out: &mut Vec<Finding>) {
    if !site.facts.knows("SchedulerParameters") {
        return;
    }
    let parameters = site.setting("SchedulerParameters").unwrap_or_default();
    let never = parameters
        .split(',')
        .any(|parameter| parameter.eq_ignore_ascii_case("defer"));
    let filter = site.setting("CliFilterPlugins");
    let (verdict, seen) = match filter {
        _ if never => (
            Verdict::Ok,
            "defer: no immediate job ever starts".to_owned(),
        ),
        Some(filter) => (Verdict::Unknown, format!("CliFilterPlugins={filter}")),
        None => (Verdict::Warning, "no CliFilterPlugins".to_owned()),
    };
    add(
        out,
        "immediate jobs",
        verdict,
        seen,
        "nodes with pilots are allocated: `srun --immediate` and `salloc --immediate` fail where no \
         other node is idle, and `sinfo -t idle` does not show them",
        "`lacuna limits set --keep-idle N` keeps N idle nodes free; a cli_filter may turn \
         --immediate into --immediate=5, which starts behind pilots",
    );
}

fn drained(site: &Site<'_>, out: &mut Vec<Finding>) {
    let reasons = [
        "kill task failed",
        "epilog error",
        "prolog error",
        "duplicate jobid",
    ];
    let hit: Vec<String> = site
        .facts
        .nodes
        .iter()
        .filter_map(|node| {
            let reason = node.get("Reason")?;
            let lower = reason.to_lowercase();
            let known = reasons.iter().any(|words| lower.contains(words));
            known.then(|| format!("{}: {reason}", node.name))
        })
        .collect();
    if site.facts.nodes.is_empty() {
        return;
    }
    add(
        out,
        "drained nodes",
        if hit.is_empty() {
            Verdict::Ok
        } else {
            Verdict::Warning
        },
        if hit.is_empty() {
            "none by a failed kill, prolog, epilog or a duplicate job id".to_owned()
        } else {
            let more = hit.len().saturating_sub(3);
            let first: Vec<String> = hit.into_iter().take(3).collect();
            let tail = if more > 0 {
                format!(", and {more} more")
            } else {
                String::new()
            };
            first.join(", ") + &tail
        },
        "a fault that drains nodes at the end of batch jobs drains more at the end of pilots; a slurmctld \
         that dies forgets jobs of its last five seconds, and drains their nodes (duplicate jobid)",
        "find the cause before pilots start; scontrol update nodename=NODE state=resume",
    );
}
