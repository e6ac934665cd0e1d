//! The sections `[control]` and `[agent]` of the configuration.

mod access;
mod agent;
mod profile;

pub use access::{Access, Quota, Rate};
pub use agent::{Agent, RunAs};
pub use profile::{Profile, ProfileOrder};

use lacuna_model::pilots::{Mode, Pilots};
use lacuna_model::{SettingError, Span, SpanText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How trainers are admitted and leases kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// Places: how many trainers are admitted at a time. An owner with less than an equal share of
    /// the places is admitted beyond them, up to that share.
    pub max_parallel: u32,
    /// While trainers of other owners are admitted, an owner may enter once in this time, and three
    /// times at once. Zero sets no bound.
    #[serde(with = "SpanText")]
    pub entry_every: Span,
    /// Interval of lease renewals.
    #[serde(with = "SpanText")]
    pub renew_every: Span,
    /// Interval at which commands and leases are compared with the statuses of agents.
    #[serde(with = "SpanText")]
    pub reconcile_every: Span,
    /// An agent without a report for this long is silent: its trainer loses the node, and no
    /// trainer gets it. At least twice `agent.report_every` and 5 s.
    #[serde(with = "SpanText")]
    pub silent_after: Span,
    /// A trainer is given up after this many failures of its program in a row, unless all were on one
    /// node and the pool has others. Preemptions never count.
    pub max_failures: u32,
    /// A failed trainer is started again after this time, which doubles with each failure up to a
    /// minute; after failures on one node alone, as soon as other nodes are free.
    #[serde(with = "SpanText")]
    pub retry_after: Span,
    /// A trainer avoids a node on which its program failed for this time, which doubles each time. A
    /// node on which two programs failed that were sound elsewhere is the last choice of their owner
    /// for as long; of two owners, no trainer gets it.
    #[serde(with = "SpanText")]
    pub quarantine: Span,
    /// A trainer that regroups waits this long for new members whose programs are starting. Its
    /// other members keep training.
    #[serde(with = "SpanText")]
    pub prepare_wait: Span,
    /// When members report that their group broke, the other members have this long to answer. Then
    /// training continues without those that did not.
    #[serde(with = "SpanText")]
    pub broken_wait: Span,
    /// A trainer that ended longer ago than this moves to the archive, which holds the newest 128
    /// MB.
    #[serde(with = "SpanText")]
    pub keep_finished: Span,
    /// Whether a node goes to a trainer only after a report of its agent, as where agents are
    /// pilots of the main scheduler. If not, a missing agent is detected after `silent_after`. Without
    /// effect with `control.pilots.helper`, where a node gets its agent once a trainer has it.
    pub require_agents: bool,
    /// Host and port, as nodes reach them, of the store in which members of a trainer meet. Control
    /// keeps it: on that address, or for a name on all addresses of its machine. Trainers with
    /// `torchrun` or `regroup` need it. `lacuna up` opens one by itself.
    pub store: Option<String>,
    /// The name of the account under which programs of several owners may run, where all programs
    /// run under one: in pilots, and with `agent.run_as = "self"`. Without it control takes programs
    /// of one owner only. An agent of another account starts no program.
    pub shared_account: Option<String>,
    /// How trainers without a scaling curve are measured.
    pub profile: Profile,
    /// Rights and quotas of users.
    pub access: Access,
    /// Pilots: agents that are jobs of the main scheduler.
    pub pilots: Option<Pilots>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            max_parallel: 10,
            entry_every: Span::from_secs(60),
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
            shared_account: None,
            profile: Profile::default(),
            access: Access::default(),
            pilots: None,
        }
    }
}

impl Control {
    /// Whether agents are jobs of the main scheduler, which asks for a node by ending its job.
    #[must_use]
    pub fn submits_pilots(&self) -> bool {
        let pilots = self.pilots.as_ref();
        pilots.is_some_and(|pilots| pilots.mode == Mode::On)
    }

    fn check(&self) -> Result<(), SettingError> {
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
        let store = self.store.as_deref();
        let port = |store: &str| store.rsplit_once(':')?.1.parse::<u16>().ok();
        SettingError::unless(
            store.is_none_or(|store| port(store).is_some()),
            "control.store",
            store.unwrap_or_default(),
            "a host and a port, as in login1:29400",
        )?;
        self.profile.check()?;
        self.access.check()?;
        self.pilots.as_ref().map_or(Ok(()), Pilots::check)
    }
}

/// Checks the values of both sections: control and agents agree on when a lease is over.
///
/// # Errors
/// The first value that is out of range.
pub fn check(control: &Control, agent: &Agent) -> Result<(), SettingError> {
    control.check()?;
    agent.check()?;
    SettingError::unless(
        control.renew_every.as_ms() <= agent.lease_timeout.as_ms() / 2,
        "control.renew_every",
        control.renew_every,
        "at most half of agent.lease_timeout, so that one lost renewal stops nothing",
    )
}
