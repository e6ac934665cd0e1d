//! Findings of a site check: whether pilots run at a site without harm to batch jobs. Each scheduler
//! has conditions of its own, as [`crate::slurm::check`].

use serde::{Deserialize, Serialize};

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

/// The worst verdict among the findings; unknown without findings.
#[must_use]
pub fn worst(findings: &[Finding]) -> Verdict {
    let worst = findings.iter().map(|f| f.verdict).max();
    worst.unwrap_or(Verdict::Unknown)
}

/// Adds a finding.
pub(crate) fn add(
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
