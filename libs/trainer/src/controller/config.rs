//! Settings of the controller.

use lacuna_model::Span;

use crate::settings::{Agent, Control};

/// Settings of the controller. Lengths are of real time unless stated otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerConfig {
    /// The section `[control]` of the configuration.
    pub control: Control,
    /// The lease timeout: an agent that gets no renewal for this long gives its node back by
    /// itself.
    pub lease_timeout: Span,
    /// Added to the lease timeout before an unconfirmed release is no longer waited for.
    pub lease_margin: Span,
    /// A command without an acknowledgement is sent again after this length. Each further wait
    /// is twice as long, up to 16 times this length.
    pub resend_after: Span,
    /// A trainer waits this long for nodes that others have still to give back. A node whose
    /// release takes longer is unusable until it is confirmed.
    pub transfer_wait: Span,
    /// A program that every change of nodes starts again waits this long, with fewer nodes than it
    /// can use, for a plan with more: nodes often become idle one shortly after the other.
    pub gather_wait: Span,
    /// Longest wait before a restart.
    pub backoff_max: Span,
    /// Failures are forgotten after progress of this length since the last one, over all
    /// incarnations.
    pub healthy_after: Span,
    /// After the end of an incarnation, the last report of a real program counts for this long,
    /// in cluster time.
    pub report_grace: Span,
    /// Whether programs of all owners run under one account.
    pub one_account: bool,
    /// How many crossing trainers the uplink of a leaf carries at full speed; all if absent.
    pub uplink: Option<u32>,
    /// If a node gets an agent only once a trainer has its lease: the limits of that.
    pub on_demand: Option<OnDemand>,
}

/// Agents that come to a node for the trainer that has its lease, as pilots of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnDemand {
    /// A trainer waits this long for agents on nodes that it has been given. A node on which none
    /// has come is then unusable for as long, and twice as long each further time.
    pub agent_wait: Span,
    /// A node whose agent has left is unusable for this long, unless it has been busy since: the
    /// pool may still show a node that the main scheduler has taken.
    pub rest: Span,
    /// Plans count this wait of a node for its agent until enough waits are measured.
    pub start: Span,
}

impl OnDemand {
    /// The longest time for which a node without an agent is unusable.
    const LONGEST: Span = Span::from_secs(1800);

    /// How long a node is unusable on which no agent has come this often in a row.
    pub(crate) fn unusable_for(&self, times: u32) -> Span {
        let factor = 1_i64 << times.saturating_sub(1).min(16);
        let wait_ms = self.agent_wait.as_ms().saturating_mul(factor);
        Span::from_ms(wait_ms).min(Self::LONGEST.max(self.agent_wait))
    }
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            control: Control::default(),
            lease_timeout: Agent::default().lease_timeout,
            lease_margin: Span::from_secs(5),
            resend_after: Span::from_secs(2),
            transfer_wait: Span::from_secs(10),
            gather_wait: Span::ZERO,
            backoff_max: Span::from_secs(60),
            healthy_after: Span::from_secs(60),
            report_grace: Span::from_secs(60),
            one_account: false,
            uplink: None,
            on_demand: None,
        }
    }
}

impl ControllerConfig {
    /// How long to wait before a restart, after this number of failures in a row.
    pub(crate) fn wait_after(&self, failures: u32) -> Span {
        let doublings = failures.saturating_sub(1).min(16);
        let retry_ms = self.control.retry_after.as_ms();
        let wait_ms = retry_ms.saturating_mul(1 << doublings);
        Span::from_ms(wait_ms.min(self.backoff_max.as_ms()))
    }

    /// How long after a release an agent under this configuration has given its node back by
    /// itself, at the latest.
    pub(crate) fn safe_after(&self) -> Span {
        self.lease_timeout + self.lease_margin
    }
}
