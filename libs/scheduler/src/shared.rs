//! Settings that live schedulers share: pace of polling, marks of pilots, followed files.

use std::path::PathBuf;

use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often a scheduler is polled, and when polling pauses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Polling {
    /// Time from the beginning of one polling cycle to the beginning of the next. For PBS the
    /// default is 30s without a section `[ingest.pbs.polling]`, and 10s in a section without this
    /// key.
    #[serde(with = "SpanText")]
    pub every: Span,
    /// Each wait varies at random by up to this share, so that several clients do not poll in
    /// step; 0 to 0.5.
    pub jitter: f64,
    /// A command that runs longer is killed, with all processes that it has started.
    #[serde(with = "SpanText")]
    pub limit: Span,
    /// Budget of requests a minute; no other setting exceeds it.
    pub requests_per_minute: u32,
    /// An answer that takes longer is slow. After three cycles in a row with a slow answer,
    /// polling pauses for `pause`.
    #[serde(with = "SpanText")]
    pub slow_after: Span,
    /// How long polling of a slow scheduler pauses (`slow_after`). The pause doubles while the
    /// scheduler stays slow, up to `longest_wait`.
    #[serde(with = "SpanText")]
    pub pause: Span,
    /// After a failure the wait doubles, up to this.
    #[serde(with = "SpanText")]
    pub longest_wait: Span,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            every: Span::from_secs(10),
            jitter: 0.1,
            limit: Span::from_secs(15),
            requests_per_minute: 30,
            slow_after: Span::from_secs(2),
            pause: Span::from_secs(60),
            longest_wait: Span::from_secs(300),
        }
    }
}

/// Marks by which our own pilots are recognised among the jobs of the scheduler. Every mark that
/// is set must fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Marks {
    /// Partition or queue of pilots, or several with commas; only their nodes count. Without it no
    /// job is a pilot, and all nodes count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Account of pilots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// User who submits pilots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Beginning of the comment of pilots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Beginning of the job name of pilots.
    pub name: Option<String>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            partition: None,
            account: None,
            user: None,
            comment: None,
            name: Some("lacuna-pilot".to_owned()),
        }
    }
}

/// How a file is followed while a scheduler writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Following {
    /// Time between two looks at the file.
    #[serde(with = "SpanText")]
    pub every: Span,
    /// File that keeps the position and the jobs that run there, so that a restart reads no line
    /// twice and loses none. Without it each start reads from the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_file: Option<PathBuf>,
}

impl Default for Following {
    fn default() -> Self {
        Self {
            every: Span::from_secs(1),
            state_file: None,
        }
    }
}

type Checked = Result<(), SettingError>;

impl Polling {
    pub(crate) fn check(&self) -> Checked {
        SettingError::unless_positive([
            ("polling.every", self.every),
            ("polling.limit", self.limit),
            ("polling.slow_after", self.slow_after),
            ("polling.pause", self.pause),
        ])?;
        SettingError::unless(
            self.longest_wait >= self.every && self.longest_wait >= self.pause,
            "polling.longest_wait",
            self.longest_wait,
            "at least polling.every and polling.pause",
        )?;
        SettingError::unless(
            (0.0..=0.5).contains(&self.jitter),
            "polling.jitter",
            self.jitter,
            "a share from 0 to 0.5",
        )?;
        at_least_one("polling.requests_per_minute", self.requests_per_minute)
    }
}

impl Marks {
    /// Whether pilots come to a partition or queue; nothing if none is named.
    pub(crate) fn has(&self, partition: &str) -> Option<bool> {
        let mut ours = self.partition.as_deref()?.split(',').map(str::trim);
        Some(ours.any(|name| name == partition))
    }

    pub(crate) fn check(&self) -> Checked {
        let others = [&self.account, &self.user, &self.comment, &self.name];
        SettingError::unless(
            self.partition.is_none() || others.iter().any(|mark| mark.is_some()),
            "pilots",
            "partition alone",
            "a mark besides the partition (account, user, comment or name), so that jobs of others \
             in it are not taken for pilots",
        )
    }
}

pub(crate) fn at_least_one(key: &'static str, count: u32) -> Checked {
    SettingError::unless(count > 0, key, count, "1 or more")
}

pub(crate) fn command(key: &'static str, command: &[String]) -> Checked {
    SettingError::unless(
        command.first().is_some_and(|program| !program.is_empty()),
        key,
        "empty",
        "a program and its arguments, as in [\"squeue\"]",
    )
}

impl Following {
    pub(crate) fn check(&self) -> Checked {
        SettingError::unless_positive([("following.every", self.every)])
    }
}
