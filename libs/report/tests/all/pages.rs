//! Pages are self-contained, and escape outside text.

use lacuna_forecast::LearningStage;
use lacuna_forecast::skill::ReliabilityBin;
use lacuna_report::{
    Answer, DayRow, Gantt, GanttRow, GanttSegment, LossKind, LossPart, LossSplit, Losses,
    PoolPoint, Report, TrainerRow, bin_holes, bin_solves, render,
};
use lacuna_sim::skill::{
    AfterTraining, ConcordanceFigures, Evaluation, HorizonSkill, PredictorSkill,
};

use crate::common::keep;

fn report() -> Report {
    Report {
        title: "A <script>alert(1)</script> & more".to_owned(),
        subtitle: "recorded".to_owned(),
        figures: vec![("U".to_owned(), "83.9 %".to_owned())],
        settings: vec![("policy".to_owned(), "dp".to_owned())],
        pool: vec![
            PoolPoint {
                at_s: 0.0,
                pool: 10,
                used: 8,
            },
            PoolPoint {
                at_s: 3600.0,
                pool: 4,
                used: 4,
            },
            PoolPoint {
                at_s: 7200.0,
                pool: 0,
                used: 0,
            },
        ],
        efficiency: vec![(3600.0, 0.9), (7200.0, 0.85)],
        trainers: vec![TrainerRow {
            name: "<b>t0</b>".to_owned(),
            admitted_s: 0.0,
            ended_s: Some(5400.0),
            samples: 1e6,
            preemptions: 2,
            sizes: vec![(0.0, 8), (3600.0, 4)],
        }],
        holes: bin_holes([30.0, 60.0, 90.0, 1e5]),
        losses: Some(Losses {
            samples: 98.0,
            rescale: 0.5,
            preempt: 1.5,
        }),
        solve_seconds: vec![1e-5, 2e-5, 1e-3],
        notes: vec!["a note".to_owned()],
        ..Report::default()
    }
}

#[test]
fn a_report_is_self_contained() {
    let page = render(&report());
    for outside in ["http://", "https://", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("&lt;b&gt;t0&lt;/b&gt;"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    // Each chart has a drawing for a phone too.
    for width in ["wide", "narrow"] {
        assert_eq!(
            page.matches(&format!("<div class='{width}'><svg")).count(),
            6
        );
    }
    for number in ["NaN", "inf"] {
        assert!(!page.contains(number), "{number} was drawn");
    }
}

#[test]
fn an_empty_report_is_a_page_without_charts() {
    let page = render(&Report::default());
    assert!(page.starts_with("<!doctype html>"));
    assert!(!page.contains("<svg"));
}

#[test]
fn a_report_of_no_length_is_drawn() {
    let mut report = report();
    report.pool.truncate(1);
    report.efficiency.clear();
    report.trainers[0].ended_s = None;
    report.trainers[0].sizes.clear();
    report.trainers_left_out = 1;
    report.losses = Some(Losses {
        samples: 0.0,
        rescale: 0.0,
        preempt: 0.0,
    });
    let page = render(&report);
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}

#[test]
fn days_and_splits_of_losses_alone_are_drawn() {
    let day = DayRow {
        label: "2021-02-01".to_owned(),
        preempt: 30.0,
        ..DayRow::default()
    };
    let lost = LossPart {
        label: "preemption".to_owned(),
        kind: LossKind::Preempt,
        samples: 30.0,
    };
    let report = Report {
        days: vec![day.clone(), day],
        loss: Some(LossSplit {
            dedicated: 0.0,
            parts: vec![lost],
            done: -30.0,
        }),
        ..report()
    };
    let page = render(&report);
    assert!(page.contains("Losses"));
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}

#[test]
fn holes_are_binned_by_length() {
    let bins = bin_holes([59.0, 60.0, 599.0, 600.0, 1e6]);
    let counts: Vec<u64> = bins.iter().map(|bin| bin.count).collect();
    assert_eq!(counts, [1, 1, 0, 1, 1, 0, 0, 0, 0, 1]);
    assert!((bins[9].node_hours - 1e6 / 3600.0).abs() < 1e-9);
}

/// A replay of 30 days with a history at all its bounds.
fn full() -> Report {
    let end_s = 30.0 * 86_400.0;
    let wave = |at: u32| (at * 7919) % 1013;
    let pool: Vec<PoolPoint> = (0..4000)
        .map(|at| PoolPoint {
            at_s: end_s * f64::from(at) / 4000.0,
            pool: 20 + wave(at),
            used: 15 + wave(at) * 9 / 10,
        })
        .collect();
    let trainers = (0..2000_u32)
        .map(|at| {
            let from = end_s * f64::from(at / 35) / 58.0;
            TrainerRow {
                name: format!("hpo-{at:04}"),
                admitted_s: from,
                ended_s: Some(from + end_s / 58.0),
                samples: 1e7,
                preemptions: u64::from(at % 7),
                sizes: (0..40)
                    .map(|k| (from + end_s / 58.0 * f64::from(k) / 40.0, wave(at + k) % 64))
                    .collect(),
            }
        })
        .collect();
    let segment = |from_s, until_s, trainer| GanttSegment {
        from_s,
        until_s,
        trainer,
    };
    let rows = (0..40_u32)
        .map(|node| {
            let from = 86_400.0 + f64::from(wave(node)) * 6.0;
            GanttRow {
                node: format!("a01n{node:02}"),
                segments: vec![
                    segment(from, from + 2400.0, Some(node / 6)),
                    segment(from + 2400.0, from + 3000.0, None),
                    segment(from + 3000.0, from + 3900.0, Some(node / 8)),
                    segment(from + 9000.0, from + 14_000.0, Some(9 + node / 10)),
                ],
            }
        })
        .collect();
    let part = |label: &str, kind, samples| LossPart {
        label: label.to_owned(),
        kind,
        samples,
    };
    let horizon = |horizon_s, brier| HorizonSkill {
        horizon_s,
        answered: 1000,
        open: 600,
        brier: Some(brier),
        log_loss: Some(0.5),
        brier_of_base_rate: Some(0.24),
        skill: Some(1.0 - brier / 0.24),
        skill_error: Some(0.01),
        skill_by_event: Some(1.0 - brier / 0.23),
        constant: Some(0.58),
        brier_of_constant: Some(0.25),
        skill_over_constant: Some(1.0 - brier / 0.25),
        calibration_error: Some(0.02),
        in_the_large: Some(-0.01),
        bins: (0..10)
            .map(|bin| ReliabilityBin {
                predicted: 0.05 + 0.1 * f64::from(bin),
                observed: 0.08 + 0.09 * f64::from(bin),
                count: 20 * (1 + u64::from(wave(bin) % 9)),
            })
            .collect(),
    };
    let predictor = |label: &str, brier| PredictorSkill {
        label: label.to_owned(),
        rests_on: label.to_owned(),
        learning: LearningStage::Fixed,
        concordance: ConcordanceFigures::default(),
        quantiles: Vec::new(),
        links: None,
        horizons: [60.0, 300.0, 900.0, 3600.0]
            .map(|horizon_s| horizon(horizon_s, brier))
            .to_vec(),
    };
    Report {
        pool,
        trainers,
        trainers_left_out: 17,
        days: (0..30)
            .map(|day| DayRow {
                label: format!("2021-02-{:02}", day + 1),
                offered_node_hours: 400.0 + f64::from(wave(day)),
                used_node_hours: 380.0 + f64::from(wave(day)) * 0.9,
                samples: 1e9,
                rescale: 4e6,
                preempt: 2.7e7,
                efficiency: (day != 4).then(|| 0.6 + f64::from(wave(day)) / 3000.0),
            })
            .collect(),
        gantt: Some(Gantt {
            from_s: 86_400.0,
            until_s: 86_400.0 + 6.0 * 3600.0,
            rows,
        }),
        loss: Some(LossSplit {
            dedicated: 100.0,
            parts: vec![
                part("rescaling", LossKind::Rescale, 0.7),
                part("preemption", LossKind::Preempt, 2.7),
                part("waiting nodes", LossKind::Waiting, 6.0),
                part("finished trainers", LossKind::Idling, 4.0),
                part("scaling curve", LossKind::Curve, -2.0),
            ],
            done: 88.6,
        }),
        calibration: Some(Evaluation {
            seed: 1,
            train_until: None,
            after: AfterTraining::Learn,
            events: 20_000,
            every: None,
            moments: 950,
            too_young: 50,
            holes: 40_000,
            unended: 12,
            order: None,
            predictors: vec![
                predictor("survival", 0.19),
                predictor("constant 120 s", 0.3),
            ],
        }),
        solves: bin_solves((1..200).map(|k| (1e-6 * f64::from(k), 5))),
        machine: vec![("machine".to_owned(), "4,392 nodes".to_owned())],
        answer: vec![Answer {
            question: "What would it have gained?".to_owned(),
            text: "A <lot>.".to_owned(),
        }],
        caveats: vec!["The log is short.".to_owned()],
        harm: vec!["Nodes went back at once.".to_owned()],
        ..report()
    }
}

#[test]
fn a_long_report_shows_every_part_and_stays_small() {
    let page = render(&full());
    println!("{} bytes", page.len());
    assert!(page.len() < 2_000_000, "{}", page.len());
    for heading in [
        "Pool and use",
        "Efficiency by day",
        "Losses",
        "What would it have gained?",
        "Caveats",
        "Possible harm",
        "The first trainers",
        "Node by node",
        "Are forecasts right?",
        "Time per decision",
        "The log and its machine",
        "Settings",
    ] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf"));
    // The page has the window's nodes, all losses and each day.
    assert!(page.contains(">a01n39<") && page.contains("2021-02-30"));
    assert!(page.contains("-2.00 %"), "a gain is shown as one");
    assert!(page.contains("A &lt;lot&gt;."), "an answer is text");
    keep("full.html", &page);
}

#[test]
fn decisions_are_binned_four_to_a_decade() {
    let bins = bin_solves([(1e-5, 3), (1.7e-5, 1), (1.8e-5, 2), (1e-3, 1)]);
    let counts: Vec<u64> = bins.iter().map(|bin| bin.count).collect();
    assert_eq!(counts, [4, 2, 0, 0, 0, 0, 0, 0, 1]);
    assert!((bins[0].from_s - 1e-5).abs() < 1e-12);
    assert!(bin_solves([]).is_empty());
}
