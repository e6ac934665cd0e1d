//! Metrics of the planner.

use lacuna_model::{HoleVerdict, JudgedPlan, Outcome, Plan, Rule, Verdict};
use lacuna_planner::judge::NotJudged;
use lacuna_runtime::metrics;
use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge};

/// Upper bounds for solve times and latencies, seconds: 10 us to 10 s.
const BOUNDS: [f64; 16] = [
    0.000_01, 0.000_1, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0,
    5.0, 10.0,
];

const OUTCOMES: [&str; 6] = [
    "optimal",
    "feasible",
    "found",
    "no_incumbent",
    "infeasible",
    "failed",
];
const SHORTCUTS: [&str; 3] = [
    "none",
    lacuna_planner::milp::CERTIFICATE,
    lacuna_planner::milp::PEGGING,
];
/// Upper bounds for gaps of judged decisions, relative.
const GAPS: [f64; 10] = [
    0.0, 0.000_1, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5,
];
/// Upper bounds for times of judgements, seconds, up to their limit.
const JUDGEMENTS: [f64; 9] = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0];
/// The outcome of a decision that came while another one was judged.
pub(crate) const BUSY: &str = "busy";
const TRAINERS: [&str; 8] = [
    "start",
    "grow",
    "shrink",
    "keep",
    "rescale_not_worth_it",
    "too_few_nodes",
    "outbid",
    "displacing_costs",
];
const HOLES: [&str; 5] = ["kept", "assigned", "no_bidder", "not_worth_it", "unusable"];
/// Numbers of the checker's invariants.
const INVARIANTS: [&str; 12] = [
    "I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I12",
];

/// Outcomes of decisions that were to be judged.
fn judged() -> [&'static str; 7] {
    let [a, b, c, d] = NotJudged::ALL.map(NotJudged::name);
    ["proven", "bounded", BUSY, a, b, c, d]
}

metrics! {
    /// Metrics of the planner.
    pub struct Metrics {
        pub solve: Histogram = "lacuna_planner_solve_seconds",
            "time of a solve, with the choice of nodes and the report", within BOUNDS;
        pub latency: Histogram = "lacuna_planner_latency_seconds",
            "time from the arrival of the newest input until the plan is stored", within BOUNDS;
        pub plans: IntCounterVec = "lacuna_planner_plans_total",
            "plans, by result", by ["result"], of ["published", "unchanged", "rejected", "unsent"];
        pub rejected: IntCounterVec = "lacuna_planner_rejected_total",
            "broken invariants of plans that were not published", by ["invariant"], of INVARIANTS;
        generation: IntGauge = "lacuna_planner_generation", "generation of the newest published plan";
        outcomes: IntCounterVec = "lacuna_planner_outcomes_total",
            "solves, by outcome", by ["outcome"], of OUTCOMES;
        shortcuts: IntCounterVec = "lacuna_planner_shortcuts_total",
            "solves, by the short cut that made the solver unnecessary or its problem smaller",
            by ["shortcut"], of SHORTCUTS;
        clock_stops: IntCounter = "lacuna_planner_clock_stops_total",
            "solves that the emergency stop by the clock ended";
        gap: Gauge = "lacuna_planner_gap_ratio", "relative gap of the newest solve";
        objective: Gauge = "lacuna_planner_objective", "objective of the newest plan";
        pool: IntGauge = "lacuna_planner_pool_nodes", "nodes in the pool of the newest plan";
        allocated: IntGauge = "lacuna_planner_allocated_nodes", "nodes that the newest plan allocates";
        trainers: GaugeVec = "lacuna_planner_trainers",
            "trainers of the newest plan, by verdict", by ["verdict"], of TRAINERS;
        holes: GaugeVec = "lacuna_planner_holes",
            "holes of the newest plan, by verdict", by ["verdict"], of HOLES;
        rule: GaugeVec = "lacuna_planner_rule",
            "1 for the rule that the policy auto follows", by ["rule"], of Rule::ALL.map(Rule::name);
        gain: GaugeVec = "lacuna_planner_rule_gain_ratio",
            "what each rule of the policy auto brought in the last hours, of the idle node-time at the \
             best rate",
            by ["rule"], of Rule::ALL.map(Rule::name);
        judged: IntCounterVec = "lacuna_planner_judged_total",
            "decisions that were to be solved again by mixed-integer programs, by outcome",
            by ["outcome"], of judged();
        judged_gap: Histogram = "lacuna_planner_judged_gap_ratio",
            "the most by which a judged decision lies below the best, relative to the bound", within GAPS;
        judged_seconds: Histogram = "lacuna_planner_judged_seconds",
            "time of a judgement, off the path", within JUDGEMENTS;
    }
}

impl Metrics {
    /// Counts a solve.
    pub fn solved(&self, plan: &Plan, seconds: f64) {
        self.rule.reset();
        self.gain.reset();
        for of in plan.report.followed.iter() {
            for gain in &of.brought {
                let label = [gain.rule.name()];
                let is_followed = f64::from(gain.rule == of.rule);
                self.rule.with_label_values(&label).set(is_followed);
                self.gain.with_label_values(&label).set(gain.share);
            }
        }
        self.solve.observe(seconds);
        let solve = &plan.report.solve;
        let (outcome, gap) = match solve.outcome {
            Outcome::Optimal => ("optimal", 0.0),
            Outcome::Feasible { gap } => ("feasible", gap),
            // There is no bound for a gap.
            Outcome::Found => ("found", f64::NAN),
            Outcome::NoIncumbent => ("no_incumbent", 1.0),
            Outcome::Infeasible => ("infeasible", 1.0),
            Outcome::Failed => ("failed", 1.0),
        };
        self.outcomes.with_label_values(&[outcome]).inc();
        self.gap.set(gap);
        let shortcut = solve.shortcut.as_deref().unwrap_or("none");
        self.shortcuts.with_label_values(&[shortcut]).inc();
        self.clock_stops.inc_by(u64::from(solve.stopped_by_clock));
    }

    /// Counts a decision that is not judged.
    pub(crate) fn not_judged(&self, reason: &str) {
        self.judged.with_label_values(&[reason]).inc();
    }

    /// Counts a judgement.
    pub(crate) fn judged(&self, judged: &JudgedPlan, seconds: f64) {
        let outcome = if judged.proven { "proven" } else { "bounded" };
        self.judged.with_label_values(&[outcome]).inc();
        self.judged_gap.observe(judged.gap);
        self.judged_seconds.observe(seconds);
    }

    /// Sets the gauges of the newest plan.
    pub fn adopted(&self, plan: &Plan) {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.objective.set(plan.report.solve.objective);
        self.pool.set(whole(plan.report.holes.len()));
        let allocated = plan.allocations.iter().map(|a| a.nodes.len()).sum();
        self.allocated.set(whole(allocated));
        let generation = i64::try_from(plan.generation.0).unwrap_or(i64::MAX);
        self.generation.set(generation);
        for label in TRAINERS {
            self.trainers.with_label_values(&[label]).set(0.0);
        }
        for verdict in &plan.report.trainers {
            let label = match verdict.verdict {
                Verdict::Start => "start",
                Verdict::Grow { .. } => "grow",
                Verdict::Shrink { .. } => "shrink",
                Verdict::Keep => "keep",
                Verdict::RescaleNotWorthIt { .. } => "rescale_not_worth_it",
                Verdict::TooFewNodes { .. } => "too_few_nodes",
                Verdict::Outbid => "outbid",
                Verdict::DisplacingCosts { .. } => "displacing_costs",
            };
            self.trainers.with_label_values(&[label]).inc();
        }
        for label in HOLES {
            self.holes.with_label_values(&[label]).set(0.0);
        }
        for (_, verdict) in &plan.report.holes {
            let label = match verdict {
                HoleVerdict::Kept { .. } => "kept",
                HoleVerdict::Assigned { .. } => "assigned",
                HoleVerdict::NoBidder => "no_bidder",
                HoleVerdict::NotWorthIt => "not_worth_it",
                HoleVerdict::Unusable => "unusable",
            };
            self.holes.with_label_values(&[label]).inc();
        }
    }
}
