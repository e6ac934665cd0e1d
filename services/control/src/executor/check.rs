//! Whether the site's Slurm lets pilots run without harm. It is checked before the first pilot and
//! again from time to time, since administrators change the configuration.

use lacuna_model::Span;
use lacuna_model::pilots::{Pilots, SchedulerKind};
use lacuna_runtime::Stopwatch;
use lacuna_scheduler::check::{self, Facts, Filler, Finding, Verdict};
use lacuna_scheduler::submit::CommandLine;

use super::commands::Runner;

/// A start waits no longer for Slurm's configuration.
const LIMIT: Span = Span::from_secs(5);

/// The check of one site.
#[derive(Debug, Clone)]
pub(super) struct Check {
    runner: Runner,
    questions: [CommandLine; 3],
    /// Pilots of each kind of node that has settings of its own, and all others.
    fillers: Vec<Filler>,
    /// Whether pilots start whatever is found.
    overridden: bool,
}

impl Check {
    /// Nothing for a scheduler whose configuration is not understood.
    pub(super) fn of(pilots: &Pilots, environment: Vec<(String, String)>) -> Option<Self> {
        if pilots.scheduler != SchedulerKind::Slurm {
            return None;
        }
        let commands = &pilots.commands;
        // Control starts without the list of all nodes, which is long.
        let [config, partitions, qos, _nodes] =
            check::questions(&commands.scontrol, &commands.sacctmgr);
        let filler = |pilots: &Pilots| Filler {
            partition: pilots.partition.clone(),
            qos: pilots.qos.clone(),
            account: pilots.account.clone(),
            exclusive: pilots.exclusive,
            rate: pilots.pace.rate.ceil() as u32,
        };
        let of_kinds = pilots.by_kind().map(|(_, own)| filler(&own));
        Some(Self {
            runner: Runner::new(environment, LIMIT),
            questions: [config, partitions, qos],
            fillers: std::iter::once(filler(pilots)).chain(of_kinds).collect(),
            overridden: pilots.override_check,
        })
    }

    /// The findings; those of a Slurm that does not answer say that nothing is known.
    pub(super) async fn run(&self) -> Vec<Finding> {
        let watch = Stopwatch::start();
        let ask = async |line: &CommandLine| {
            let output = self.runner.run(line.clone(), watch).await.output.ok()?;
            (output.code == Some(0)).then_some(output.stdout)
        };
        let [config, partitions, qos] = &self.questions;
        let (config, partitions, qos) = tokio::join!(ask(config), ask(partitions), ask(qos));
        let mut facts = Facts::default();
        for text in [config, partitions, qos].into_iter().flatten() {
            facts.read(&text);
        }
        let mut findings = Vec::new();
        for filler in &self.fillers {
            for finding in check::check(&facts, filler) {
                if !findings.contains(&finding) {
                    findings.push(finding);
                }
            }
        }
        findings
    }

    /// Logs the findings, and returns whether they forbid pilots.
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
                    "no pilot is started: repair it (lacuna check slurm), or set \
                     control.pilots.override_check = true"
                );
                true
            }
        }
    }
}
