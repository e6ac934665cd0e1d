//! Objectives with values worked out by hand.

use lacuna_model::{RescaleCost, ScalingCurve, Timestamp, TrainerId, TrainerSpec, Work};
use proptest::prelude::*;

use super::*;

/// 10, 16, 18 samples/s on 1, 2, 3 nodes.
fn spec(name: &str) -> TrainerSpec {
    TrainerSpec {
        submit: Timestamp::from_unix(0),
        max_nodes: 3,
        objective: Some(ScalingCurve::new([(1, 1.0), (3, 2.0)]).unwrap()),
        rescale: RescaleCost::of(3.0, 2.0),
        work: Work::Samples(1000.0),
        ..TrainerSpec::simulated(
            TrainerId::new(name).unwrap(),
            ScalingCurve::new([(1, 10.0), (2, 16.0), (3, 18.0)]).unwrap(),
        )
    }
}

fn table(spec: &TrainerSpec, objective: &str) -> Vec<f64> {
    let table = ValueTable::new(spec, &objective.parse().unwrap()).unwrap();
    table.initial().to_vec()
}

fn state(now: i64, samples_left: f64) -> State {
    State {
        now: Timestamp::from_unix(now),
        samples_left,
        attained: 0.0,
        least_attained: 0.0,
    }
}

#[test]
fn named_objectives_are_what_they_say() {
    let mut spec = spec("a");
    assert_eq!(table(&spec, "as-given"), [0.0, 1.0, 1.5, 2.0]);
    assert_eq!(table(&spec, "throughput"), [0.0, 10.0, 16.0, 18.0]);
    assert_eq!(table(&spec, "scaling-efficiency"), [0.0, 1.0, 1.6, 1.8]);
    assert_eq!(table(&spec, "goodput"), [0.0, 1.0, 1.6, 1.8]);
    spec.priority = 3;
    assert_eq!(table(&spec, "weighted"), [0.0, 8.0, 12.8, 14.4]);
    spec.weight = Some(0.5);
    assert_eq!(table(&spec, "weighted"), [0.0, 0.5, 0.8, 0.9]);
    // Without a deadline, the deadline objective is the weighted one.
    assert_eq!(table(&spec, "deadline"), [0.0, 0.5, 0.8, 0.9]);
    for (name, objective) in NAMES {
        assert_eq!(objective.to_string(), name);
    }
}

#[test]
fn a_deadline_counts_more_the_nearer_it_is_and_little_when_it_is_lost() {
    let mut spec = spec("a");
    spec.deadline = Some(Timestamp::from_unix(100));
    let table = ValueTable::new(&spec, &Objective::Deadline).unwrap();
    assert!(!table.is_fixed());
    // 900 samples at 18/s take 50 s of the 100 s left: half must be used, so it counts twice.
    let at = |now, left| table.at(table.step(&state(now, left))).unwrap()[1];
    assert!((at(0, 900.0) - 2.0).abs() < 0.01, "{}", at(0, 900.0));
    assert!((at(50, 450.0) - 2.0).abs() < 0.01);
    assert!((at(50, 899.0) - MOST_URGENT).abs() < 1.0);
    assert!((at(60, 900.0) - LOST).abs() < 0.001);
    assert!((at(101, 1.0) - LOST).abs() < 0.001);
    assert!((at(101, 0.0) - 1.0).abs() < 0.001);
}

#[test]
fn expressions_mean_what_mathematics_says() {
    let mut spec = spec("a");
    spec.min_nodes = 2;
    spec.priority = 2;
    for (expression, at_2, at_3) in [
        ("rate", 16.0, 18.0),
        ("rate / rate1", 1.6, 1.8),
        ("speedup*weight", 6.4, 7.2),
        ("2*n^2", 8.0, 18.0),
        ("n - -1 - 1", 2.0, 3.0),
        ("n + 1 - 2 * n / 4 - 1 + 0*n", 1.0, 1.5),
        ("16*n/2/2", 8.0, 12.0),
        ("-2^2 * n + 5 * n", 2.0, 3.0),
        ("n * 2^-1", 1.0, 1.5),
        ("n * 2^3^0", 4.0, 6.0),
        ("min(max(n, 1), 2.5) * (n > 0)", 2.0, 2.5),
        ("if(n >= 3, rate, 1e1) * (n > 0)", 10.0, 18.0),
        ("priority * sqrt(n ^ 2)", 4.0, 6.0),
        ("log2(1 + n * 1.5)", 2.0, 5.5_f64.log2()),
        ("(n <= 2) * n + (n > 2) * max_nodes * min_nodes", 2.0, 6.0),
        ("floor(n / 2) + ceil(n / 2)", 2.0, 3.0),
        ("exp(ln(n + 1)) - 1", 2.0, 3.0),
        ("abs(0 - n)", 2.0, 3.0),
    ] {
        let table = table(&spec, expression);
        assert_eq!(table[..2], [0.0, 0.0], "{expression}: {table:?}");
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(
            close(table[2], at_2) && close(table[3], at_3),
            "{expression}: {table:?}"
        );
    }
}

#[test]
fn an_expression_of_the_work_left_changes_in_steps() {
    let spec = spec("a");
    let objective: Objective = "rate / (1 + samples_left)".parse().unwrap();
    let table = ValueTable::new(&spec, &objective).unwrap();
    let step = table.step(&state(0, 95.0));
    assert_eq!(step, table.step(&state(9, 100.0)));
    assert_ne!(step, table.step(&state(9, 101.0)));
    assert_eq!(table.at(step).unwrap()[1], 10.0 / 101.0);
    let endless = TrainerSpec {
        work: Work::UntilExit,
        ..spec
    };
    let refused = ValueTable::new(&endless, &objective);
    assert!(
        matches!(refused, Err(ObjectiveError::NoWork { .. })),
        "{refused:?}"
    );
}

#[test]
fn nonsense_is_refused_with_its_place() {
    for (text, at, what) in [
        ("", 1, "found the end"),
        ("rate +", 7, "found the end"),
        ("rate rate", 6, "found 'r'"),
        ("speed", 1, "\"speed\" is not known"),
        ("min(n)", 6, "a comma"),
        ("min n", 5, "( after"),
        ("(n", 3, "an operator or )"),
        ("n)", 2, "the end"),
        ("1.2.3", 4, "the end"),
        ("n ü", 3, "'ü'"),
    ] {
        let error = text.parse::<Objective>().unwrap_err().to_string();
        let place = format!("character {at}:");
        assert!(
            error.contains(&place) && error.contains(what),
            "{text:?}: {error}"
        );
    }
    let deep = format!("{}n{}", "(".repeat(400), ")".repeat(400));
    assert!(
        deep.parse::<Objective>()
            .unwrap_err()
            .to_string()
            .contains("levels")
    );
    let long = format!("n{}", "+n".repeat(600));
    assert!(long.parse::<Objective>().is_err());
}

#[test]
fn an_invalid_value_names_trainer_size_and_value() {
    let spec = spec("net-7");
    for (expression, error) in [
        (
            "rate + 1",
            "objective of trainer net-7 at 0 nodes is 1: expected 0 at no nodes",
        ),
        (
            "rate - 17 * (n > 1)",
            "at 2 nodes is -1: expected a finite number, zero or more",
        ),
        ("if(n > 2, 1 / 0, n)", "at 3 nodes is inf"),
        ("rate / n", "at 0 nodes is NaN"),
    ] {
        let refused = ValueTable::new(&spec, &expression.parse().unwrap()).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains(error), "{text}");
    }
}

#[test]
fn a_file_names_objectives_line_by_line() {
    let text = "trainer,objective\n\n# a comment\nnet-1,min(rate, 20)\nnet-*, weighted\n\
                \"net-1*\" = \"rate^0.5\"\n";
    let named = NamedExpressions::read(text).unwrap();
    assert_eq!(named.len(), 3);
    let of = |name: &str| {
        let objective = named.of(&TrainerId::new(name).unwrap());
        objective.map(ToString::to_string)
    };
    assert_eq!(of("net-1").as_deref(), Some("min(rate, 20)"));
    assert_eq!(of("net-12").as_deref(), Some("rate^0.5"));
    assert_eq!(of("net-2").as_deref(), Some("weighted"));
    assert_eq!(of("other"), None);
    let trainers = ["net-2", "net-12", "other"].map(|name| TrainerId::new(name).unwrap());
    let unmatched: Vec<&str> = named.unmatched(trainers.iter()).collect();
    assert_eq!(unmatched, ["net-1"]);
    for (text, error) in [
        ("a,rate\nb,rote", "line 2: objective \"rote\", character 1"),
        (
            "a,rate\na,rate",
            "line 2: trainer a has an objective already",
        ),
        ("only", "line 1: expected name,expression"),
        (",rate", "line 1: expected the name"),
        ("a = fair", "line 1: fair is for all"),
    ] {
        let found = NamedExpressions::read(text).unwrap_err().to_string();
        assert!(found.contains(error), "{found}");
    }
}

proptest! {
    #[test]
    fn reading_any_text_ends_without_panic(text in ".{0,60}", odd in "[-+*/^()n0-9., <>=eif]{0,60}") {
        for text in [text, odd] {
            if let Ok(objective) = text.parse::<Objective>() {
                // What is read can be written and read again.
                prop_assert_eq!(objective.to_string().parse::<Objective>().unwrap(), objective);
            }
        }
    }
}

/// The step from one node to two costs more than it brings: the table says so.
#[test]
fn goodput_is_over_the_least_size_and_may_dip() {
    let mut spec = spec("a");
    spec.throughput = ScalingCurve::new([(1, 10.0), (2, 8.0), (3, 12.0)]).unwrap();
    assert_eq!(table(&spec, "goodput"), [0.0, 1.0, 0.8, 1.2]);
    spec.min_nodes = 2;
    assert_eq!(table(&spec, "goodput"), [0.0, 1.25, 1.0, 1.5]);
    spec.weight = Some(2.0);
    assert_eq!(table(&spec, "goodput"), [0.0, 2.5, 2.0, 3.0]);
}
