//! Where the time of a trainer's step goes. `lacuna-stalls` finds it; agents report it, control keeps
//! it with the trainer, and `lacuna explain` says it in words.

use serde::{Deserialize, Serialize};

use crate::Follows;

/// What may hold a step up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Samples are computed: decoded, augmented, put together.
    Preparation,
    /// Samples are waited for: a disk, a network file system.
    Fetch,
    /// Gradients are on their way.
    Link,
    /// A member is slower than the fastest one.
    Straggler,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Preparation, Self::Fetch, Self::Link, Self::Straggler];

    /// Its name, in outputs and as a label of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preparation => "preparation",
            Self::Fetch => "fetch",
            Self::Link => "link",
            Self::Straggler => "straggler",
        }
    }
}

/// What a cause costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CauseCost {
    /// The cause.
    pub cause: Cause,
    /// What its removal alone would save, in seconds of a step.
    pub seconds: f64,
    /// The same in per cent of the replayed step.
    pub percent: f64,
}

/// The step with another number of loader workers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepWithWorkers {
    /// Workers of each member.
    pub workers: u32,
    /// Seconds of a step, if there are cores for them.
    pub step: f64,
}

/// The step with other members or another link. The samples of a member are those of the trainer's
/// batch there ([`StepCosts::follows`]), and as many as now where that is not known. Loaders on other
/// nodes stay as many as they are, for all members.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepElsewhere {
    /// Members.
    pub members: u32,
    /// Bandwidth of the link, of what it is now.
    pub link: f64,
    /// Seconds of a step.
    pub step: f64,
}

impl StepElsewhere {
    /// Whether it is over the link as it is now.
    #[must_use]
    pub fn is_near(&self) -> bool {
        (self.link - 1.0).abs() < 1e-9
    }
}

/// A member that keeps the others waiting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SlowMember {
    /// Its rank.
    pub rank: u32,
    /// Seconds by which its work of a step is longer than the median of the others.
    pub behind: f64,
}

/// One thing that a user can change, and what it saves. Times are seconds of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// The loader needs more workers.
    Workers {
        /// Now.
        now: u32,
        /// Then.
        then: u32,
        /// The step now.
        step: f64,
        /// The step then.
        faster: f64,
    },
    /// A cause costs much, and removing it alone helps.
    Remove {
        /// The cause.
        cause: Cause,
        /// The step now.
        step: f64,
        /// The step without it.
        faster: f64,
    },
    /// A member is slower than the others.
    SlowMember {
        /// Its rank.
        rank: u32,
        /// How far it is behind.
        behind: f64,
        /// The step now.
        step: f64,
        /// The step if all were as fast as the fastest.
        faster: f64,
    },
    /// Causes hide each other: together they cost more than one by one.
    Together {
        /// The step now.
        step: f64,
        /// The sum of what each alone would save.
        alone: f64,
        /// The step without any of them.
        faster: f64,
    },
    /// Nothing holds the step up.
    Nothing {
        /// The step now.
        step: f64,
        /// The step without any stall.
        faster: f64,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Where the time of a step goes. Times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCosts {
    /// Members that trained together.
    pub members: u32,
    /// Workers that read for each member, loaders on other nodes among them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub workers: u32,
    /// Those of them that are on other nodes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remote: u32,
    /// How the batch follows the members; nothing where the program does not say it, or counts its
    /// samples by their worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    /// Steps that were replayed.
    pub steps: u32,
    /// Steps that were not: no numbers, negative, or ten times the median.
    pub left_out: u32,
    /// The mean step as measured.
    pub measured: f64,
    /// The mean step as replayed.
    pub replayed: f64,
    /// Whether both agree within [`StepCosts::TRUSTED`]. If not, there is no advice, and the costs are those of another
    /// program than the user's.
    pub trusted: bool,
    /// What each cause costs.
    pub costs: Vec<CauseCost>,
    /// The step without any of them: the time in which a member computes.
    pub computes: f64,
    /// The step with other loaders; none for a program that reads nothing.
    pub loaders: Vec<StepWithWorkers>,
    /// The step with other members and links; none of a member alone.
    pub elsewhere: Vec<StepElsewhere>,
    /// The slowest member, if it is slow.
    pub slow: Option<SlowMember>,
    /// What to change, the best first.
    pub advice: Vec<Advice>,
}

impl StepCosts {
    /// A replayed step that differs from the measured one by a greater part than this is no model of
    /// it.
    pub const TRUSTED: f64 = 0.05;

    /// The batch of a step with this many members, over the present one; nothing where it is not
    /// known.
    #[must_use]
    pub fn batch(&self, members: u32) -> Option<f64> {
        match self.follows? {
            Follows::Whole => Some(1.0),
            Follows::PerNode { .. } => Some(f64::from(members) / f64::from(self.members)),
            Follows::Adaptive => None,
        }
    }

    /// What a cause costs, in seconds of a step.
    #[must_use]
    pub fn cost(&self, cause: Cause) -> f64 {
        let of = |cost: &&CauseCost| cost.cause == cause;
        self.costs.iter().find(of).map_or(0.0, |cost| cost.seconds)
    }

    /// Seconds of a step with this many workers for each member, between the replayed numbers linear
    /// in the time for which a batch keeps all workers busy (`1 / workers`), and beyond them as at the
    /// last. Nothing for a program that reads nothing.
    #[must_use]
    pub fn step_with(&self, workers: f64) -> Option<f64> {
        let mut known: Vec<(f64, f64)> = self
            .loaders
            .iter()
            .map(|one| (f64::from(one.workers), one.step))
            .collect();
        known.first()?;
        known.push((f64::from(self.workers), self.replayed));
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let below = known.iter().rfind(|one| one.0 <= workers);
        let above = known.iter().find(|one| one.0 >= workers);
        let (Some(&(w0, s0)), Some(&(w1, s1))) = (below, above) else {
            return below.or(above).map(|one| one.1);
        };
        if w1 <= w0 {
            return Some(s1);
        }
        let share = if w0 < 1.0 {
            (workers - w0) / (w1 - w0)
        } else {
            (1.0 / w0 - 1.0 / workers) / (1.0 / w0 - 1.0 / w1)
        };
        Some(s0 + (s1 - s0) * share)
    }

    /// What each of up to `nodes` loader nodes brings beside those before it, as a share of the rate
    /// without loaders. On each of them `processes` read, for all members in turn. Empty if the
    /// replayed steps are no model of the measured ones, or nothing is read.
    #[must_use]
    pub fn loader_gains(&self, nodes: u32, processes: u32) -> Vec<f64> {
        if !self.trusted {
            return Vec::new();
        }
        // Loaders that are there share their time already: their batches take as much longer.
        let members = if self.remote > 0 {
            1
        } else {
            self.members.max(1)
        };
        let own = f64::from(self.workers.saturating_sub(self.remote));
        let step = |count: u32| {
            let more = f64::from(count) * f64::from(processes) / f64::from(members);
            self.step_with(own + more).filter(|step| *step > 0.0)
        };
        let Some(alone) = step(0) else {
            return Vec::new();
        };
        let speed = |count| step(count).map_or(1.0, |step| alone / step);
        let pairs = (1..=nodes).map(|count| speed(count) - speed(count - 1));
        pairs.collect()
    }
}
