//! Messages of the services as rows for tables and as JSON. Plain functions of data.

mod limits;
mod loaders;
mod nodes;
mod plan;
mod profile;
mod program;
mod progress;
mod remedy;
mod trainers;
mod trouble;

pub(crate) use limits::{in_force, limits_json, limits_text};
pub(crate) use loaders::{LoadersView, loaders_text};
pub(crate) use nodes::{node_rows, node_table, node_troubles, nodes_summary};
pub(crate) use plan::{explain_json, plan_table, plan_view};
pub(crate) use program::program_json;
pub(crate) use progress::bar;
pub(crate) use remedy::remedy;
pub(crate) use trainers::{
    TrainerRow, depends_on_nodes, failed_on, trainer_details, trainer_row, trainer_rows,
    trainer_table,
};
pub(crate) use trouble::{hindrances, next_try};

#[cfg(test)]
pub(crate) mod tests {
    use lacuna_model::{
        Allocation, ForecastReport, Generation, HoleClass, HoleVerdict, More, NodeId, Offer,
        OrderSource, Outcome, Phase, Plan, PlanReport, RescaleCost, RunId, ScalingCurve, Solve,
        Timestamp, TrainerId, TrainerReason, TrainerRecord, TrainerSpec, TrainerVerdict, Verdict,
        Work,
    };
    use lacuna_wire::msg::PlanState;

    pub(crate) fn record(name: &str, phase: Phase, nodes: u32) -> TrainerRecord {
        TrainerRecord {
            phase,
            nodes: (0..nodes)
                .map(|i| NodeId::new(format!("node-{i:03}")).unwrap())
                .collect(),
            run: RunId(1),
            ..TrainerRecord::new(
                TrainerSpec {
                    submit: Timestamp::from_unix(1_612_980_000),
                    max_nodes: 16,
                    rescale: RescaleCost::of(20.0, 5.0),
                    work: Work::Samples(1e6),
                    ..TrainerSpec::simulated(
                        TrainerId::new(name).unwrap(),
                        ScalingCurve::linear(100.0, 16).unwrap(),
                    )
                },
                1,
            )
        }
    }

    pub(crate) fn plan_state() -> PlanState {
        let trainer = |t: &str| TrainerId::new(t).unwrap();
        let node = |n: &str| NodeId::new(n).unwrap();
        let verdict = |t: &str, before, after, verdict| TrainerVerdict {
            trainer: trainer(t),
            before,
            after,
            verdict,
            basis: None,
            share: None,
        };
        PlanState {
            plan: Plan {
                generation: Generation(17),
                as_of: Timestamp::from_unix(1_612_988_475),
                seq: 421,
                allocations: vec![
                    Allocation {
                        trainer: trainer("a"),
                        nodes: vec![node("n1"), node("n2")],
                    },
                    Allocation {
                        trainer: trainer("c"),
                        nodes: vec![node("n3")],
                    },
                ],
                replaced: Vec::new(),
                report: PlanReport {
                    solve: Solve {
                        outcome: Outcome::Optimal,
                        objective: 1_234_567.0,
                        solver: "highs".into(),
                        shortcut: Some("certificate".into()),
                        stopped_by_clock: false,
                    },
                    trainers: vec![
                        verdict(
                            "a",
                            1,
                            2,
                            Verdict::Grow {
                                gain: 31_000.0,
                                cost: 700.0,
                            },
                        ),
                        verdict("b", 2, 0, Verdict::Outbid),
                        verdict(
                            "c",
                            1,
                            1,
                            Verdict::RescaleNotWorthIt {
                                gain: 310.0,
                                cost: 700.0,
                            },
                        ),
                        verdict("d", 0, 0, Verdict::TooFewNodes { pool: 4, min: 8 }),
                    ],
                    holes: vec![
                        (
                            node("n1"),
                            HoleVerdict::Kept {
                                trainer: trainer("a"),
                            },
                        ),
                        (
                            node("n2"),
                            HoleVerdict::Assigned {
                                trainer: trainer("a"),
                            },
                        ),
                        (
                            node("n3"),
                            HoleVerdict::Kept {
                                trainer: trainer("c"),
                            },
                        ),
                        (node("n4"), HoleVerdict::NotWorthIt),
                    ],
                    followed: None,
                    forecast: None,
                },
            },
            trainers_version: 5,
            runs: Vec::new(),
            latency_s: 0.0123,
            judged: None,
        }
    }

    /// The same plan, made by forecasts.
    pub(crate) fn forecast_state() -> PlanState {
        let mut state = plan_state();
        let plan = &mut state.plan;
        let name = |t: &str| TrainerId::new(t).unwrap();
        let node = |n: &str| NodeId::new(n).unwrap();
        plan.report.solve = Solve {
            outcome: Outcome::Found,
            objective: 1_234_567.0,
            solver: "dp over nodes".into(),
            shortcut: None,
            stopped_by_clock: false,
        };
        plan.replaced = vec![name("a")];
        let offer = Offer {
            trainer: name("c"),
            nodes: 1,
            within_s: 20.0,
            ends: 0.4,
            gain: 310.0,
            cost: 700.0,
        };
        let reason = |kept, gained, lost, more| TrainerReason {
            hit: false,
            kept,
            gained,
            lost,
            stay_s: 480.0,
            until_s: 450.0,
            ends: 0.25,
            worth: 90_000.0,
            cost: 0.0,
            more,
        };
        plan.report.forecast = Some(Box::new(ForecastReport {
            horizon_s: 600.0,
            hysteresis: 2.0,
            scenarios: 32,
            shadow_price: 90.0,
            order: OrderSource::Scheduler,
            proposal: "present".into(),
            doubts: Vec::new(),
            classes: vec![HoleClass {
                holes: 1,
                first: node("n4"),
                last: node("n4"),
                verdict: HoleVerdict::NotWorthIt,
                stay_s: 45.0,
                offer: Some(offer.clone()),
            }],
            class_of: vec![None, None, None, Some(0)],
            trainers: vec![
                reason(1, 1, 0, More::Maximum),
                reason(0, 0, 2, More::Shrinks),
                reason(1, 0, 0, More::NotWorthIt(offer)),
                reason(0, 0, 0, More::NoneLeft),
            ],
        }));
        state
    }
}
