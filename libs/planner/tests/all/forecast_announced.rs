//! Plans by what the scheduler announces.

use lacuna_model::{Announced, OrderSource};

use crate::forecast::{ends_at, nodes_of, plan, report, with_forecasts};
use crate::language::{Case, case};

/// Holes of which some ends are announced; those of the scheduler's order come as they are named.
fn announced(source: OrderSource) -> Case {
    let case = case()
        .hole(4, "5m")
        .trainer("costly")
        .nodes(1..=2)
        .costs(60.0, 60.0)
        .trainer("cheap")
        .nodes(1..=2)
        .costs(2.0, 2.0);
    // By themselves all would stay; the scheduler says that it wants the last two soon.
    let alone = [900.0; 4].map(ends_at);
    let forecasts = [900.0, 900.0, 20.0, 20.0].map(ends_at);
    let mut case = with_forecasts(case, &forecasts, Some(0.0));
    case.pool.forecasts.extend(alone);
    let joint = case.pool.joint.as_mut().unwrap();
    joint.source = source;
    joint.announced = [2, 3].map(announcement).to_vec();
    case
}

fn announcement(hole: u32) -> Announced {
    Announced {
        hole,
        after_s: 20.0,
        early: 0.0,
        kept: 1.0,
        otherwise: hole + 4,
    }
}

#[test]
fn announced_ends_go_first_with_an_order_and_without_one() {
    for source in [OrderSource::Scheduler, OrderSource::Expectation] {
        let plan = plan(&announced(source));
        assert_eq!(nodes_of(&plan, "cheap"), ["a02", "a03"], "{source:?}");
        assert_eq!(nodes_of(&plan, "costly"), ["a00", "a01"], "{source:?}");
        assert_eq!(report(&plan).order, source);
    }
}

#[test]
fn an_unsound_announcement_is_ignored() {
    let broken: [fn(&mut Announced); 5] = [
        |end| end.hole = 99,
        |end| end.after_s = f64::NAN,
        |end| end.kept = -1.0,
        |end| (end.early, end.kept) = (0.9, 0.9),
        |end| end.otherwise = 99,
    ];
    for spoil in broken {
        let mut case = announced(OrderSource::Scheduler);
        let joint = case.pool.joint.as_mut().unwrap();
        joint.announced.iter_mut().for_each(spoil);
        let spoilt = plan(&case);
        assert!(report(&spoilt).doubts.is_empty());
        case.pool.joint.as_mut().unwrap().announced.clear();
        assert_eq!(plan(&case), spoilt);
    }
}
