//! Whether the site's Slurm lets pilots run without harm: asked before the first pilot, and
//! again from time to time, for administrators change what they have.

use lacuna_model::Span;
use lacuna_pilots::check::{self, Facts, Filler, Finding, Verdict};
use lacuna_pilots::scheduler::CommandLine;
use lacuna_pilots::settings::{Pilots, SchedulerKind};
use lacuna_runtime::Stopwatch;

use super::commands::Runner;
use super::settings::command;

/// A start waits no longer for Slurm's configuration.
const LIMIT: Span = Span::from_secs(5);

/// The check of one site.
#[derive(Debug, Clone)]
pub(super) struct Check {
    runner: Runner,
    scontrol: Vec<String>,
    sacctmgr: Vec<String>,
    filler: Filler,
    /// Whether pilots start whatever is found.
    overridden: bool,
}

impl Check {
    /// Nothing for a scheduler whose configuration is not understood.
    pub(super) fn of(pilots: &Pilots, environment: Vec<(String, String)>) -> Option<Self> {
        if pilots.scheduler != SchedulerKind::Slurm {
            return None;
        }
        Some(Self {
            runner: Runner::new(environment, LIMIT),
            scontrol: command(&pilots.commands.scontrol, "scontrol"),
            sacctmgr: command(&pilots.commands.sacctmgr, "sacctmgr"),
            filler: Filler {
                partition: pilots.partition.clone(),
                qos: pilots.qos.clone(),
                account: pilots.account.clone(),
                exclusive: pilots.exclusive,
                rate: pilots.pace.rate.ceil() as u32,
            },
            overridden: pilots.override_check,
        })
    }

    /// The findings; those of a Slurm that does not answer say that nothing is known.
    pub(super) async fn run(&self) -> Vec<Finding> {
        let watch = Stopwatch::start();
        let ask = async |command: &[String], args: &[&str]| {
            let (program, first) = command.split_first()?;
            let line = CommandLine {
                program: program.clone(),
                args: first
                    .iter()
                    .cloned()
                    .chain(args.iter().map(|a| (*a).to_owned()))
                    .collect(),
                stdin: None,
            };
            let ran = self.runner.run(line, watch).await;
            ran.said
                .ok()
                .filter(|said| said.code == Some(0))
                .map(|said| said.stdout)
        };
        let (config, partitions, qos) = tokio::join!(
            ask(&self.scontrol, &["show", "config"]),
            ask(&self.scontrol, &["show", "partition"]),
            ask(&self.sacctmgr, &["show", "qos", "--parsable2"]),
        );
        let mut facts = Facts::default();
        for text in [config, partitions, qos].into_iter().flatten() {
            facts.read(&text);
        }
        check::check(&facts, &self.filler)
    }

    /// Says what was found, and whether it forbids pilots.
    pub(super) fn forbids(&self, findings: &[Finding]) -> bool {
        for finding in findings {
            let Finding {
                condition,
                seen,
                meaning,
                remedy,
                ..
            } = finding;
            match finding.verdict {
                Verdict::Fatal => {
                    tracing::error!(condition, seen, meaning, remedy, "slurm harms batch jobs");
                }
                Verdict::Warning => {
                    tracing::warn!(condition, seen, meaning, remedy, "slurm with pilots");
                }
                Verdict::Unknown => tracing::info!(condition, seen, "not known of slurm"),
                Verdict::Ok => {}
            }
        }
        let fatal = check::worst(findings) == Verdict::Fatal;
        match (fatal, self.overridden) {
            (false, _) => false,
            (true, true) => {
                tracing::error!("pilots start all the same: control.pilots.override_check is set");
                false
            }
            (true, false) => {
                tracing::error!(
                    "no pilot is started: mend it (lacuna check slurm), or set \
                     control.pilots.override_check = true"
                );
                true
            }
        }
    }
}
