//! The one choice of policy: from a situation to the owner of each slot.
//!
//! The planner service and the replay call the same [`Decider`]. It works on ordinals: a candidate
//! is a place in the list of trainers, a slot is a usable node of the pool. [`crate::Planner`]
//! translates names; the replay has numbers anyway. One further difference lies outside: oracle
//! lookahead.
//!
//! | policy | sizes and nodes |
//! |---|---|
//! | [`Policy::Auto`] | as [`Policy::Forecast`], [`Policy::Dp`] or [`Policy::EqualShare`], whichever brought most in the last hours ([`crate::guard`]); as [`Policy::Dp`] while the pool does not tell which holes end together |
//! | [`Policy::Forecast`] | nodes and sizes at once by forecasts: consecutive blocks ([`crate::placement::blocks`]) |
//! | [`Policy::Dp`], [`Policy::Milp`], [`Policy::EqualShare`] | sizes first, then nodes by [`choose`] |
//!
//! **One path.** A policy proposes, places and judges. What a trainer gains on a node set is its rate
//! on a [`crate::Shape`]: kinds of nodes, distance and shared uplinks are terms of that rate, and no
//! branch. Where nodes are of several kinds ([`Situation::kinds`]), [`crate::mixed`] finds counts of
//! each instead of sizes.
//!
//! If [`Situation::users`] names several users with candidates, [`fair`] shares the nodes out over
//! them. The policy then decides within the share of each user.
//!
//! **The same history gives the same decision** on every machine. A decider remembers only what the
//! rules of [`Policy::Auto`] brought; a rule itself remembers nothing. So a planner that restarts
//! follows forecasts until others have brought more. The shadow price of a node-second comes from a
//! first decision for the same situation. The start times of the idle
//! slots seed random choices. Solves by HiGHS end by counts: nodes of the tree, iterations of the
//! simplex method.
//!
//! The mixed-integer programs of [`Policy::Milp`] also have an emergency stop by the clock (`planner.time_limit`, 30 s). A solve that it ends may differ, and
//! [`Solve::stopped_by_clock`] says so: `lacuna_planner_clock_stops_total` in the planner,
//! `clock_stops` in a replay.

use lacuna_model::{Policy, Rule};

use crate::by_sizes::{BySizes, seed};
use crate::decision::Decision;
use crate::guard::Guard;
use crate::judge::{Case, NotJudged};
use crate::placement::blocks::BlockPlacer;
use crate::placement::forecast;
use crate::problem::{MixProblem, Problem, Situation};
use crate::settings::Settings;

/// A decider with its settings.
#[derive(Debug, Clone, Default)]
pub struct Decider {
    settings: Settings,
    sizes: BySizes,
    placer: BlockPlacer,
    /// What the rules of [`Policy::Auto`] brought.
    guard: Guard,
}

impl Decider {
    /// A decider with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            sizes: BySizes::new(settings.clone()),
            settings,
            ..Self::default()
        }
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The problem over sizes of the newest situation; empty after a decision by forecasts.
    #[must_use]
    pub const fn problem(&self) -> &Problem {
        self.sizes.problem()
    }

    /// The problem over mixes of the newest situation, if its nodes were of several kinds; nothing
    /// after a decision by forecasts alone.
    #[must_use]
    pub const fn mixed(&self) -> Option<&MixProblem> {
        self.sizes.mixed()
    }

    /// Whether forecasts decide a situation.
    #[must_use]
    pub fn by_forecasts(&self, situation: &Situation<'_>) -> bool {
        situation
            .pool_forecast
            .is_some_and(|f| match self.settings.policy {
                Policy::Auto => f.pool.joint.is_some(),
                policy => policy.forecasts(),
            })
    }

    /// Decides. A solve that reaches its emergency stop ends with its best answer so far.
    #[must_use]
    pub fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        if let Some(doubt) = &situation.doubt {
            return forecast::keep(situation, doubt.clone());
        }
        if !self.by_forecasts(situation) {
            return self.sizes.decide(situation, self.settings.policy);
        }
        if self.settings.policy != Policy::Auto {
            return self.decide_by(Rule::Forecasts, situation, None);
        }
        let mut guard = std::mem::take(&mut self.guard);
        let decision = match guard.arrive(situation) {
            Some(rule) => self.guarded(&mut guard, rule, situation),
            None => self.decide_by(Rule::Forecasts, situation, None),
        };
        self.guard = guard;
        decision
    }

    /// Decides by a rule; the other rules decide in their shadows.
    fn guarded(&mut self, guard: &mut Guard, rule: Rule, situation: &Situation<'_>) -> Decision {
        let kept_s = Some(guard.kept_s());
        for other in Rule::ALL.into_iter().filter(|other| *other != rule) {
            let posed = guard.pose(other, situation);
            let posed = posed.within(situation);
            let decision = self.decide_by(other, &posed, kept_s);
            guard.take(other, &posed, &decision);
        }
        let mut decision = self.decide_by(rule, situation, kept_s);
        guard.take(rule, situation, &decision);
        decision.followed = Some(guard.followed());
        decision
    }

    fn decide_by(
        &mut self,
        rule: Rule,
        situation: &Situation<'_>,
        kept_s: Option<f64>,
    ) -> Decision {
        match (rule, situation.pool_forecast) {
            (Rule::Forecasts, Some(pool_forecast)) => {
                let query = forecast::Query {
                    situation,
                    pool_forecast,
                    settings: &self.settings,
                    seed: seed(self.settings.seed, situation.slots),
                    kept_s,
                };
                forecast::decide(&mut self.placer, &query)
            }
            _ => self.sizes.decide(situation, rule.policy()),
        }
    }

    /// The newest decision as a case for the judge.
    ///
    /// # Errors
    /// The reason for which it cannot be judged.
    pub fn case(&self, decision: &Decision) -> Result<Case, NotJudged> {
        Case::new(decision, self.problem(), self.mixed())
    }

    /// Poses the problem over sizes of a situation.
    pub fn pose(&mut self, situation: &Situation<'_>) -> &Problem {
        self.sizes.pose(situation)
    }

    /// The owners of slots for sizes that are known.
    #[must_use]
    pub fn place(&self, situation: &Situation<'_>, counts: &[u32]) -> Vec<Option<u32>> {
        self.sizes.place(situation, counts)
    }
}
