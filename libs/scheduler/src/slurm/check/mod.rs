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

use crate::check::{Filler, Finding, Verdict};
use crate::submit::CommandLine;

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

#[cfg(test)]
mod tests;
