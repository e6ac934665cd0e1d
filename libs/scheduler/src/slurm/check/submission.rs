//! Conditions of submission: whether pilots can be submitted, and what they cost accounts.

use super::Site;
use super::record::seconds;
use crate::check::{Finding, Verdict, add};

/// The first version whose `squeue` knows `--me`.
const OLDEST: (u32, u32) = (20, 11);

pub(super) fn judge(site: &Site<'_>, out: &mut Vec<Finding>) {
    version(site, out);
    partition(site, out);
    limits(site, out);
    accounting(site, out);
    qos_limits(site, out);
    reports(site, out);
    budget(site, out);
}

fn version(site: &Site<'_>, out: &mut Vec<Finding>) {
    let seen = site.setting("SLURM_VERSION");
    let Some(text) = seen else {
        add(
            out,
            "version",
            Verdict::Unknown,
            "unknown",
            "a version before 20.11 lacks `squeue --me`",
            "look at `sinfo --version`",
        );
        return;
    };
    let mut parts = text.split('.').map(str::parse::<u32>);
    let version = match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    };
    let verdict = match version {
        None => Verdict::Unknown,
        Some(version) if version < OLDEST => Verdict::Fatal,
        Some(_) => Verdict::Ok,
    };
    add(
        out,
        "version",
        verdict,
        text,
        "pilots are listed by `squeue --me`, known since 20.11",
        "upgrade Slurm",
    );
}

fn partition(site: &Site<'_>, out: &mut Vec<Finding>) {
    let name = &site.filler.partition;
    if site.facts.partitions.is_empty() {
        add(
            out,
            "partition",
            Verdict::Unknown,
            "no partitions",
            "the order in which partitions are served cannot be checked",
            "give the output of `scontrol show partition`",
        );
        return;
    }
    let Some(ours) = site.partition() else {
        let known: Vec<&str> = site
            .facts
            .partitions
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        add(
            out,
            "partition",
            Verdict::Fatal,
            format!("no partition {name:?} among {}", known.join(", ")),
            "pilots need a partition of their own, of the lowest tier",
            "add the partition that `lacuna check slurm --snippet` prints, or name the right \
             one in control.pilots.partition",
        );
        return;
    };
    let state = ours.get("State").unwrap_or("UP");
    let up = state.eq_ignore_ascii_case("up");
    add(
        out,
        "partition",
        if up { Verdict::Ok } else { Verdict::Fatal },
        format!("{name}: State={state}"),
        "a partition that is not up takes or starts no pilots",
        "scontrol update PartitionName=... State=UP",
    );
    let is = |key: &str| ours.get(key).is_some_and(|v| v.eq_ignore_ascii_case("yes"));
    if is("Default") {
        add(
            out,
            "default partition",
            Verdict::Fatal,
            format!("{name}: Default=YES"),
            "jobs that name no partition would run among the pilots and be preempted with them",
            "Default=NO",
        );
    }
    for key in ["RootOnly", "ReqResv"] {
        if is(key) {
            add(
                out,
                "submission",
                Verdict::Fatal,
                format!("{name}: {key}=YES"),
                "pilots cannot be submitted there",
                "a partition without it, for the pilots' user alone (AllowAccounts)",
            );
        }
    }
    for (key, value) in [
        ("AllowAccounts", &site.filler.account),
        ("AllowQos", &site.filler.qos),
    ] {
        let Some(list) = ours.get(key).filter(|l| !l.eq_ignore_ascii_case("all")) else {
            continue;
        };
        let verdict = if value.is_empty() {
            Verdict::Unknown
        } else if list.split(',').any(|each| each == value.as_str()) {
            Verdict::Ok
        } else {
            Verdict::Fatal
        };
        add(
            out,
            "submission",
            verdict,
            format!("{name}: {key}={list}; pilots: {value:?}"),
            "only the accounts or QOS on the list can submit",
            "name the right account and QOS in control.pilots",
        );
    }
}

fn limits(site: &Site<'_>, out: &mut Vec<Finding>) {
    let Some(ours) = site.partition() else { return };
    if let Some(text) = ours.get("MaxTime") {
        let short = seconds(text).is_some_and(|s| s < 600);
        let verdict = if short { Verdict::Warning } else { Verdict::Ok };
        add(
            out,
            "time limit",
            verdict,
            format!("MaxTime={text}"),
            "pilots with a limit of some minutes spend much of that time starting",
            "a greater MaxTime; preemption ends pilots anyway",
        );
    }
    if let Some(plugins) = site.setting("JobSubmitPlugins") {
        add(
            out,
            "submit plugins",
            Verdict::Unknown,
            plugins,
            "a plugin may change partition, account or time limit of pilots",
            "test its effect on a job of the partition of pilots",
        );
    }
}

fn accounting(site: &Site<'_>, out: &mut Vec<Finding>) {
    if site.facts.qos.is_none() {
        if by_slurmdbd(site).is_some() {
            add(
                out,
                "accounting",
                Verdict::Unknown,
                "no list of QOS",
                "slurmdbd or sacctmgr does not answer: what the QOS of pilots allows is not known. \
                 Pilots go on as they are",
                "start slurmdbd, or give the output of `sacctmgr show qos --parsable2`",
            );
        }
        return;
    }
    if site.filler.qos.is_empty() {
        add(
            out,
            "accounting",
            Verdict::Warning,
            "pilots have no QOS of their own",
            "their use counts against the share of their account, and they reserve resources",
            "a QOS with UsageFactor=0 and Flags=NoReserve (`lacuna check slurm --snippet`)",
        );
        return;
    }
    let Some(qos) = site.qos() else {
        add(
            out,
            "accounting",
            Verdict::Fatal,
            format!("no QOS {:?}", site.filler.qos),
            "pilots cannot be submitted",
            "sacctmgr add qos, as `lacuna check slurm --snippet` prints",
        );
        return;
    };
    let factor = qos.get("UsageFactor").unwrap_or("1");
    let free = factor.parse::<f64>().is_ok_and(|f| f == 0.0);
    add(
        out,
        "accounting",
        if free { Verdict::Ok } else { Verdict::Warning },
        format!("QOS {}: UsageFactor={factor}", qos.name),
        "the use of pilots counts against the share of their account unless the factor is 0",
        "sacctmgr modify qos ... set UsageFactor=0",
    );
    let flags = qos.get("Flags").unwrap_or("");
    let no_reserve = flags.to_lowercase().contains("noreserve");
    add(
        out,
        "reservation",
        if no_reserve {
            Verdict::Ok
        } else {
            Verdict::Warning
        },
        format!("QOS {}: Flags={flags}", qos.name),
        "backfill may reserve resources for a pilot that waits; pilots wait for seconds only",
        "sacctmgr modify qos ... set Flags=NoReserve",
    );
}

/// Limits of a QOS, as `sacctmgr show qos --parsable2` names them.
const QOS_LIMITS: [&str; 14] = [
    "GrpJobs",
    "GrpSubmit",
    "GrpTRES",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "GrpWall",
    "MaxJobsPA",
    "MaxJobsPU",
    "MaxSubmitPA",
    "MaxSubmitPU",
    "MaxTRES",
    "MaxTRESPA",
    "MaxTRESPU",
    "MaxWall",
];

/// Limits of the QOS of pilots, which an administrator may set under them.
fn qos_limits(site: &Site<'_>, out: &mut Vec<Finding>) {
    let Some(qos) = site.qos() else { return };
    let of = |key: &&str| Some(format!("{key}={}", qos.get(key)?));
    let set: Vec<String> = QOS_LIMITS.iter().filter_map(of).collect();
    let seen = if set.is_empty() {
        "none".to_owned()
    } else {
        set.join(", ")
    };
    add(
        out,
        "qos limits",
        if set.is_empty() {
            Verdict::Ok
        } else {
            Verdict::Warning
        },
        format!("QOS {}: {seen}", qos.name),
        "a pilot beyond a limit waits, is cancelled after some seconds, and is tried again later",
        "sacctmgr modify qos ... set LIMIT=-1; `lacuna limits set --max-nodes` bounds pilots",
    );
}

/// The accounting storage, where slurmdbd keeps it.
fn by_slurmdbd(site: &Site<'_>) -> Option<String> {
    let storage = site.setting("AccountingStorageType")?;
    storage.ends_with("/slurmdbd").then_some(storage)
}

/// What `sreport` says of pilots.
fn reports(site: &Site<'_>, out: &mut Vec<Finding>) {
    let Some(storage) = by_slurmdbd(site) else {
        return;
    };
    let account = &site.filler.account;
    let is_own = !account.is_empty();
    add(
        out,
        "utilization reports",
        if is_own {
            Verdict::Ok
        } else {
            Verdict::Warning
        },
        format!("{storage}; account of pilots: {account:?}"),
        "`sreport cluster utilization` counts pilots as allocated; `sreport cluster \
         AccountUtilizationByUser accounts=NAME` says what of it is theirs",
        "an account of their own (control.pilots.account)",
    );
}

/// Limits of slurmctld on the requests of one user.
fn budget(site: &Site<'_>, out: &mut Vec<Finding>) {
    let parameters = site.setting("SlurmctldParameters").unwrap_or_default();
    let list: Vec<String> = parameters.split(',').map(str::to_lowercase).collect();
    if list.iter().any(|p| p == "rl_enable") {
        let given = list.iter().find_map(|p| p.strip_prefix("rl_refill_rate="));
        let refill = given.and_then(|v| v.parse::<u32>().ok()).unwrap_or(2);
        let verdict = if site.filler.rate <= refill {
            Verdict::Ok
        } else {
            Verdict::Warning
        };
        add(
            out,
            "request budget",
            verdict,
            format!(
                "rl_enable, {refill}/s a user; pilots: {}/s",
                site.filler.rate
            ),
            "requests beyond the limit are refused and tried again, which slows pilots down",
            "control.pilots.pace.rate below rl_refill_rate, or a greater one",
        );
    }
    if let Some(age) = site.setting("MinJobAge") {
        let short = seconds(&age).is_some_and(|s| s < 60);
        add(
            out,
            "job age",
            if short { Verdict::Warning } else { Verdict::Ok },
            format!("MinJobAge={age}"),
            "Slurm forgets jobs that are over after this time. If it is shorter than two lists of \
             pilots, their outcome stays unknown",
            "MinJobAge=300",
        );
    }
}
