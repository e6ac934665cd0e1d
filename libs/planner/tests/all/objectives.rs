//! An objective of the whole cluster, applied to trainers as control lists them.

use lacuna_model::{Attained, Generation, Goodput, GoodputAt, Policy, Span, Timestamp, Work};
use lacuna_planner::check::check;
use lacuna_planner::{Planner, Settings};

use crate::language::{Case, case};

/// A planner under an objective.
fn planner(objective: &str) -> Planner {
    let settings = Settings {
        policy: Policy::Milp,
        ..Settings::default()
    };
    Planner::new(settings).maximising(objective.parse().unwrap())
}

/// Sizes of the trainers on a pool, under an objective.
fn sizes(case: &Case, objective: &str) -> Vec<u32> {
    let mut planner = planner(objective);
    let plan = planner.plan(&case.pool, &case.trainers, &[], Generation(1));
    assert_eq!(check(&plan, &case.context()), [], "{objective}");
    assert_eq!(planner.refused(), [], "{objective}");
    plan.report.trainers.iter().map(|v| v.after).collect()
}

/// Two trainers that both want all of four nodes.
fn two() -> Case {
    let one = case().hole(4, "1h").trainer("a").nodes(4..=4);
    one.trainer("b").nodes(4..=4)
}

#[test]
fn weights_and_priorities_decide() {
    let mut case = two();
    case.trainers[1].spec.weight = Some(1.5);
    assert_eq!(sizes(&case, "weighted"), [0, 4]);
    case.trainers[0].spec.priority = 1;
    assert_eq!(sizes(&case, "weighted"), [4, 0]);
    assert_eq!(sizes(&case, "(1 + priority) * speedup"), [4, 0]);
    assert_eq!(sizes(&case, "speedup / (1 + priority)"), [0, 4]);
}

#[test]
fn goodput_is_what_control_has_found_and_else_the_rates() {
    let mut case = case().hole(4, "1h").trainer("a").nodes(1..=4).trainer("b");
    case = case.nodes(1..=4);
    let found = |rates: [f64; 4]| {
        let sizes = (1..).zip(rates).map(|(nodes, rate)| GoodputAt {
            nodes,
            batch: 32,
            efficiency: 1.0,
            rate,
        });
        Some(Box::new(Goodput {
            kind: None,
            at: case.pool.as_of,
            sizes: sizes.collect(),
        }))
    };
    let (dips, grows) = (found([50.0, 40.0, 60.0, 70.0]), found([1.0, 1.9, 2.8, 3.7]));
    (case.trainers[0].goodput, case.trainers[1].goodput) = (dips, grows);
    assert_eq!(sizes(&case, "goodput"), [1, 3]);
    // Without a table the rates count, and other objectives never see one.
    case.trainers[0].goodput = None;
    assert!(sizes(&case, "goodput")[0] >= 3);
    let alike = sizes(&case, "scaling-efficiency");
    case.trainers[1].goodput = None;
    assert_eq!(sizes(&case, "scaling-efficiency"), alike);
}

#[test]
fn a_deadline_that_nears_decides() {
    let mut case = two();
    for (record, hours) in case.trainers.iter_mut().zip([100, 2]) {
        let rate = record.spec.throughput.at(4);
        record.spec.work = Work::Samples(rate * 3600.0);
        let at = case.pool.as_of.unix_seconds() as i64 + hours * 3600;
        record.spec.deadline = Some(Timestamp::from_unix(at));
    }
    assert_eq!(sizes(&case, "deadline"), [0, 4]);
    case.trainers.swap(0, 1);
    assert_eq!(sizes(&case, "deadline"), [4, 0]);
}

#[test]
fn who_has_had_least_goes_first() {
    let mut case = two();
    for (record, owner) in case.trainers.iter_mut().zip(["ada", "bob"]) {
        record.spec.owner = Some(owner.to_owned());
        record.spec.work = Work::Samples(1e12);
    }
    let now = case.pool.as_of;
    case.trainers[0].attained.add(1e5, now);
    assert_eq!(sizes(&case, "least-attained"), [0, 4]);
    case.trainers[1].attained.add(2e5, now);
    assert_eq!(sizes(&case, "least-attained"), [4, 0]);
    // What was attained long ago is forgotten.
    case.trainers[0].attained = Attained::default();
    case.trainers[0]
        .attained
        .add(3e5, now + Span::from_secs(-7 * 86_400));
    assert_eq!(sizes(&case, "least-attained"), [4, 0]);
    case.trainers[0].attained.add(1e5, now);
    assert_eq!(sizes(&case, "least-attained"), [0, 4]);
}

#[test]
fn owners_share_evenly_however_many_trainers_they_have() {
    let mut case = case().hole(8, "1h");
    for name in ["a", "b", "c", "d"] {
        case = case.trainer(name).nodes(1..=8);
    }
    for (record, owner) in case.trainers.iter_mut().zip(["ada", "ada", "ada", "bob"]) {
        record.spec.owner = Some(owner.to_owned());
    }
    let sizes = sizes(&case, "fair");
    assert_eq!(sizes[3], 4, "{sizes:?}");
    assert_eq!(sizes.iter().sum::<u32>(), 8, "{sizes:?}");
}

#[test]
fn a_trainer_that_an_expression_does_not_fit_keeps_its_own() {
    let mut case = two();
    case.trainers[0].spec.work = Work::UntilExit;
    case.trainers[1].spec.work = Work::Samples(1.0);
    let mut planner = planner("rate * (1 + samples_left)");
    let plan = planner.plan(&case.pool, &case.trainers, &[], Generation(1));
    assert_eq!(check(&plan, &case.context()), []);
    let refused = planner.refused();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].to_string().contains("trainer a"), "{refused:?}");
}
