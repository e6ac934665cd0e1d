//! Where the time of a trainer's step goes. `lacuna-stalls` finds it; agents report it, control keeps
//! it with the trainer, and `lacuna explain` says it in words.

use serde::{Deserialize, Serialize};

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

/// The step with other members or another link. Each member has as many samples as now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepElsewhere {
    /// Members.
    pub members: u32,
    /// Bandwidth of the link, of what it is now.
    pub link: f64,
    /// Seconds of a step.
    pub step: f64,
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

/// Where the time of a step goes. Times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCosts {
    /// Members that trained together.
    pub members: u32,
    /// Steps that were replayed.
    pub steps: u32,
    /// Steps that were not: no numbers, negative, or ten times the median.
    pub left_out: u32,
    /// The mean step as measured.
    pub measured: f64,
    /// The mean step as replayed.
    pub replayed: f64,
    /// Whether both agree within 5 %. If not, there is no advice, and the costs are those of another
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
    /// What a cause costs, in seconds of a step.
    #[must_use]
    pub fn cost(&self, cause: Cause) -> f64 {
        let of = |cost: &&CauseCost| cost.cause == cause;
        self.costs.iter().find(of).map_or(0.0, |cost| cost.seconds)
    }
}
