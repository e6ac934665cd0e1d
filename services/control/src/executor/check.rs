//! Whether the site's scheduler lets pilots run without harm. It is checked before the first pilot and
//! again from time to time, since administrators change the configuration.

use lacuna_model::Span;
use lacuna_model::pilots::Pilots;
use lacuna_runtime::Stopwatch;
use lacuna_scheduler::check::{self, Filler, Finding, Verdict};
use lacuna_scheduler::submit::CommandLine;
use lacuna_scheduler::{SchedulerName, row};

use super::commands::Runner;

/// A start waits no longer for the scheduler's configuration.
const LIMIT: Span = Span::from_secs(5);

/// The check of one site.
#[derive(Debug, Clone)]
pub(super) struct Check {
    runner: Runner,
    scheduler: SchedulerName,
    questions: Vec<CommandLine>,
    /// Pilots of each kind of node that has settings of its own, and all others.
    fillers: Vec<Filler>,
    /// Whether pilots start whatever is found.
    overridden: bool,
}

impl Check {
    /// Nothing for a scheduler whose configuration is not understood.
    pub(super) fn of(pilots: &Pilots, environment: Vec<(String, String)>) -> Option<Self> {
        let (scheduler, commands) = (pilots.scheduler, &pilots.commands);
        let questions = row(scheduler).questions(&commands.scontrol, &commands.sacctmgr);
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
            scheduler,
            questions: questions.ok()?,
            fillers: std::iter::once(filler(pilots)).chain(of_kinds).collect(),
            overridden: pilots.override_check,
        })
    }

    /// The findings; those of a scheduler that does not answer say that nothing is known.
    pub(super) async fn run(&self) -> Vec<Finding> {
        let watch = Stopwatch::start();
        let ask = async |line: &CommandLine| {
            let output = self.runner.run(line.clone(), watch).await.output.ok()?;
            (output.code == Some(0)).then_some(output.stdout)
        };
        let answers = futures::future::join_all(self.questions.iter().map(ask)).await;
        let mut findings = Vec::new();
        for filler in &self.fillers {
            for finding in row(self.scheduler).findings(&answers, filler) {
                if !findings.contains(&finding) {
                    findings.push(finding);
                }
            }
        }
        findings
    }

    /// Logs the findings, and returns whether they forbid pilots.
    pub(super) fn forbids(&self, findings: &[Finding]) -> bool {
        let scheduler = self.scheduler.as_str();
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
                    tracing::error!(
                        scheduler,
                        condition,
                        seen,
                        meaning,
                        remedy,
                        "pilots harm batch jobs"
                    );
                }
                Verdict::Warning => {
                    tracing::warn!(
                        scheduler,
                        condition,
                        seen,
                        meaning,
                        remedy,
                        "the scheduler with pilots"
                    );
                }
                Verdict::Unknown => {
                    tracing::info!(scheduler, condition, seen, "not known of the scheduler");
                }
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
                    "no pilot is started: repair it (the remedies are above), or set \
                     control.pilots.override_check = true"
                );
                true
            }
        }
    }
}
