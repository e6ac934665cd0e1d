//! Site check: whether the Slurm of a site runs pilots without harm to batch jobs.
//!
//! [`Facts`] are read from the output of Slurm's own commands, or from `slurm.conf`. [`check`]
//! proves or refutes each condition, and returns what was seen, what follows and what to do.
//! [`snippet`] writes the missing lines of `slurm.conf`.

mod facts;
mod preemption;
mod record;
mod residue;
mod snippet;
mod submission;
mod topology;

pub use facts::Facts;
pub use record::Record;
pub use snippet::snippet;
pub use topology::compare;

use serde::{Deserialize, Serialize};

use crate::submit::CommandLine;

/// Verdict on a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The condition holds.
    Ok,
    /// The facts do not decide it.
    Unknown,
    /// The condition holds in part, or its breach costs little.
    Warning,
    /// Pilots would harm batch jobs, or could not run at all.
    Fatal,
}

impl Verdict {
    /// Its label in outputs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Fatal => "fatal",
        }
    }
}

/// The finding on one condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the condition; part of the interface.
    pub condition: &'static str,
    /// Verdict on the condition.
    pub verdict: Verdict,
    /// Settings that decide the verdict.
    pub seen: String,
    /// Consequence of the verdict.
    pub meaning: String,
    /// Remedy; empty if none is needed.
    pub remedy: String,
}

/// Parameters with which pilots are submitted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filler {
    /// Partition of pilots.
    pub partition: String,
    /// Quality of service; none if empty.
    pub qos: String,
    /// Account; the user's default if empty.
    pub account: String,
    /// Whether pilots request whole nodes.
    pub exclusive: bool,
    /// Submissions a second.
    pub rate: u32,
}

/// Command lines whose output gives [`Facts`]: configuration, partitions, qualities of service,
/// nodes. An empty command is replaced by Slurm's own.
#[must_use]
pub fn questions(scontrol: &[String], sacctmgr: &[String]) -> [CommandLine; 4] {
    let line = |given: &[String], default: &str, args: &[&str]| {
        let default = [default.to_owned()];
        let command = if given.is_empty() { &default } else { given };
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        CommandLine::new(command, args, None)
    };
    [
        line(scontrol, "scontrol", &["show", "config"]),
        line(scontrol, "scontrol", &["show", "partition"]),
        line(sacctmgr, "sacctmgr", &["show", "qos", "--parsable2"]),
        line(scontrol, "scontrol", &["show", "node"]),
    ]
}

/// Checks a site. The findings have a fixed order, one or more for each condition.
#[must_use]
pub fn check(facts: &Facts, filler: &Filler) -> Vec<Finding> {
    let site = Site { facts, filler };
    let mut out = Vec::new();
    if !facts.has_config {
        out.push(Finding {
            condition: "configuration",
            verdict: Verdict::Unknown,
            seen: "no configuration".to_owned(),
            meaning: "preemption and left-over processes cannot be checked".to_owned(),
            remedy: "give the output of `scontrol show config`, or slurm.conf".to_owned(),
        });
    }
    submission::judge(&site, &mut out);
    preemption::judge(&site, &mut out);
    residue::judge(&site, &mut out);
    out
}

/// The worst verdict among the findings; unknown without findings.
#[must_use]
pub fn worst(findings: &[Finding]) -> Verdict {
    let worst = findings.iter().map(|f| f.verdict).max();
    worst.unwrap_or(Verdict::Unknown)
}

/// The site that is checked.
struct Site<'a> {
    facts: &'a Facts,
    filler: &'a Filler,
}

impl Site<'_> {
    /// The partition of pilots.
    fn partition(&self) -> Option<&Record> {
        self.facts.partition(&self.filler.partition)
    }

    /// Partitions that may share nodes with the partition of pilots.
    fn others(&self) -> impl Iterator<Item = &Record> {
        let ours = self.partition();
        self.facts.partitions.iter().filter(move |other| {
            other.name != self.filler.partition
                && ours.is_none_or(|ours| record::may_share(ours, other))
        })
    }

    /// A setting of the whole cluster.
    fn setting(&self, key: &str) -> Option<String> {
        self.facts.setting(key)
    }

    /// The quality of service of pilots.
    fn qos(&self) -> Option<&Record> {
        let qos = self.facts.qos.as_ref()?;
        qos.iter().find(|qos| qos.name == self.filler.qos)
    }
}

/// Adds a finding.
fn add(
    out: &mut Vec<Finding>,
    condition: &'static str,
    verdict: Verdict,
    seen: impl Into<String>,
    meaning: &str,
    remedy: &str,
) {
    out.push(Finding {
        condition,
        verdict,
        seen: seen.into(),
        meaning: meaning.to_owned(),
        remedy: if verdict == Verdict::Ok {
            String::new()
        } else {
            remedy.to_owned()
        },
    });
}

#[cfg(test)]
mod tests;
