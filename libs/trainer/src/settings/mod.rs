//! The sections `[control]` and `[agent]` of the configuration.

mod access;
mod agent;
mod profile;

pub use access::{Access, Quota, Rate};
pub use agent::Agent;
pub use profile::{Profile, ProfileOrder};

use lacuna_model::{SettingError, Span, SpanText};
use lacuna_pilots::settings::{Mode, Pilots};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How trainers are admitted and leases kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// How many trainers are admitted at a time. Beyond it an owner that has less than an equal
    /// share of so many is admitted, up to that share.
    pub max_parallel: u32,
    /// Beside others' trainers an owner may come anew once in so much time, and three times at once;
    /// zero sets no bound.
    #[serde(with = "SpanText")]
    pub anew_every: Span,
    /// Leases are renewed this often.
    #[serde(with = "SpanText")]
    pub renew_every: Span,
    /// Everything is compared with reality this often.
    #[serde(with = "SpanText")]
    pub reconcile_every: Span,
    /// An agent that says nothing for this long is silent: its node is taken from its trainer and
    /// given to nobody. Twice `agent.report_every` and 5 s at least.
    #[serde(with = "SpanText")]
    pub silent_after: Span,
    /// A trainer whose program fails so often in a row is given up; preemptions never count.
    pub max_failures: u32,
    /// A failed trainer is started again after this time, doubled with each failure, and after a
    /// minute at the latest.
    #[serde(with = "SpanText")]
    pub retry_after: Span,
    /// A node on which an owner's programs fail three times in a row is closed to that owner for this
    /// time, doubled each time; to everybody, if to two owners or to all who have trainers.
    #[serde(with = "SpanText")]
    pub quarantine: Span,
    /// A trainer that regroups waits this long for newcomers whose programs are starting; the
    /// others train on meanwhile.
    #[serde(with = "SpanText")]
    pub prepare_wait: Span,
    /// When members of a run say that their group broke, those that say nothing have this long
    /// to answer; then the others go on without them.
    #[serde(with = "SpanText")]
    pub broken_wait: Span,
    /// A trainer that ended longer ago than this moves to the archive, which holds the newest 128 MB.
    #[serde(with = "SpanText")]
    pub keep_finished: Span,
    /// Whether a node is given to nobody before its agent has spoken, as where agents come as
    /// pilots of the main scheduler. Without it, silence is found out after `silent_after`.
    pub require_agents: bool,
    /// Host and port of a `TCPStore` beside control, where the members of a run find each
    /// other (`python3 -m lacuna.store`); trainers by `torchrun` and `regroup` need one.
    pub store: Option<String>,
    /// How trainers without a scaling curve are measured.
    pub profile: Profile,
    /// Who may do what.
    pub access: Access,
    /// How agents come to nodes as jobs of the main scheduler.
    pub pilots: Option<Pilots>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            max_parallel: 10,
            anew_every: Span::from_secs(60),
            renew_every: Span::from_secs(10),
            reconcile_every: Span::from_secs(5),
            silent_after: Span::from_secs(30),
            max_failures: 3,
            retry_after: Span::from_secs(10),
            quarantine: Span::from_secs(300),
            prepare_wait: Span::from_secs(120),
            broken_wait: Span::from_ms(300),
            keep_finished: Span::from_secs(7 * 86_400),
            require_agents: false,
            store: None,
            profile: Profile::default(),
            access: Access::default(),
            pilots: None,
        }
    }
}

impl Control {
    /// Whether agents come as jobs of the main scheduler, which asks for a node by ending them.
    #[must_use]
    pub fn submits_pilots(&self) -> bool {
        let pilots = self.pilots.as_ref();
        pilots.is_some_and(|pilots| pilots.mode == Mode::On)
    }

    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), SettingError> {
        SettingError::unless_positive([
            ("control.renew_every", self.renew_every),
            ("control.reconcile_every", self.reconcile_every),
            ("control.silent_after", self.silent_after),
        ])?;
        SettingError::unless(
            self.max_parallel > 0,
            "control.max_parallel",
            self.max_parallel,
            "1 or more",
        )?;
        self.profile.check()?;
        self.access.check()?;
        self.pilots.as_ref().map_or(Ok(()), Pilots::check)
    }
}
