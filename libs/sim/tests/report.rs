//! The report: it stands alone, and what it is given is escaped.

use lacuna_sim::report::{Losses, PoolPoint, Report, TrainerRow, bin_holes, render};

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
    }
}

#[test]
fn a_report_stands_alone() {
    let page = render(&report());
    for outside in ["http://", "https://", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("&lt;b&gt;t0&lt;/b&gt;"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert_eq!(page.matches("<svg").count(), 6);
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
    report.losses = Some(Losses {
        samples: 0.0,
        rescale: 0.0,
        preempt: 0.0,
    });
    let page = render(&report);
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}

#[test]
fn holes_are_binned_by_length() {
    let bins = bin_holes([59.0, 60.0, 599.0, 600.0, 1e6]);
    let counts: Vec<u64> = bins.iter().map(|bin| bin.count).collect();
    assert_eq!(counts, [1, 1, 0, 1, 1, 0, 0, 0, 0, 1]);
    assert!((bins[9].node_hours - 1e6 / 3600.0).abs() < 1e-9);
}
