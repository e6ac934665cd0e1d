//! Whether a site's Slurm lets pilots run without harm to batch jobs.
//!
//! [`Facts`] are read from the output of Slurm's own commands, or from `slurm.conf`; [`check`]
//! proves or refutes one condition after the other, and says of each what was seen, what
//! follows from it and what to do; [`snippet`] writes what is missing for `slurm.conf`.

mod facts;
mod preemption;
mod record;
mod residue;
mod snippet;
mod submission;

pub use facts::Facts;
pub use record::Record;
pub use snippet::snippet;

use serde::{Deserialize, Serialize};

use crate::scheduler::CommandLine;

/// How a condition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It holds.
    Ok,
    /// It cannot be told.
    Unknown,
    /// It holds in part, or its breach costs little.
    Warning,
    /// Pilots would harm batch jobs, or could not run at all.
    Fatal,
}

impl Verdict {
    /// A word for it.
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

/// What was found of one condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The condition, in one word: part of the interface.
    pub condition: &'static str,
    /// How it stands.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// What follows from it.
    pub meaning: String,
    /// What to do; empty if nothing.
    pub remedy: String,
}

/// How pilots would be submitted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filler {
    /// Partition.
    pub partition: String,
    /// Quality of service; none if empty.
    pub qos: String,
    /// Account; the user's default if empty.
    pub account: String,
    /// Whether they ask for whole nodes.
    pub exclusive: bool,
    /// Submissions a second.
    pub rate: u32,
}

/// What a site is asked for its [`Facts`]: configuration, partitions, qualities of service, nodes.
/// A command that is empty is Slurm's own.
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

/// Judges a site. The findings come in a fixed order, one or more for each condition.
#[must_use]
pub fn check(facts: &Facts, filler: &Filler) -> Vec<Finding> {
    let site = Site { facts, filler };
    let mut out = Vec::new();
    if !facts.has_config {
        out.push(Finding {
            condition: "configuration",
            verdict: Verdict::Unknown,
            seen: "no configuration".to_owned(),
            meaning: "nothing can be told about preemption and about what is left behind"
                .to_owned(),
            remedy: "give the output of `scontrol show config`, or slurm.conf".to_owned(),
        });
    }
    submission::judge(&site, &mut out);
    preemption::judge(&site, &mut out);
    residue::judge(&site, &mut out);
    out
}

/// The worst verdict among findings.
#[must_use]
pub fn worst(findings: &[Finding]) -> Verdict {
    let worst = findings.iter().map(|f| f.verdict).max();
    worst.unwrap_or(Verdict::Unknown)
}

/// What is judged.
struct Site<'a> {
    facts: &'a Facts,
    filler: &'a Filler,
}

impl Site<'_> {
    /// The partition of pilots.
    fn partition(&self) -> Option<&Record> {
        self.facts.partition(&self.filler.partition)
    }

    /// The partitions that have nodes in common with that of pilots, as far as can be told.
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
