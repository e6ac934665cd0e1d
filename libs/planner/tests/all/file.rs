//! Problems as files: the same when read again, and refused by name when they make no sense.

use std::path::Path;
use std::time::Duration;

use lacuna_planner::Problem;
use lacuna_planner::dp::{self, reference};
use lacuna_planner::file::{self, FileError, Saved};
use lacuna_planner::milp::{self, MilpOptions};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::common::{agree, hpo, problem, shufflenet};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(15), ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_written_is_read_to_the_last_bit(problem in problem(6, 12), note in ".{0,20}") {
        let mut saved = Saved::new(problem);
        for (at, name) in saved.names.iter_mut().enumerate().skip(1) {
            *name = format!("trainer \"{at}\"");
        }
        saved.note = Some(note);
        saved.answer = Some(dp::Solver::new().solve(&saved.problem));
        let text = file::write(&saved).unwrap();
        prop_assert_eq!(file::read(&text).unwrap(), saved);
    }
}

/// Some text of the saved problems, damaged: bytes replaced, left out or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/problems"));
    let texts: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let change = (
        any::<prop::sample::Index>(),
        0..4_u8,
        "[-0-9eE.,{}\\[\\]\"a-z]",
    );
    let changes = proptest::collection::vec(change, 1..4);
    (proptest::sample::select(texts), changes).prop_map(|(text, changes)| {
        let mut text: Vec<char> = text.chars().collect();
        for (at, kind, with) in changes {
            if text.is_empty() {
                break;
            }
            let at = at.index(text.len());
            match kind {
                0 => drop(text.remove(at)),
                1 => text.insert(at, text[at]),
                2 => text.truncate(at.max(1)),
                _ => text[at] = with.chars().next().unwrap(),
            }
        }
        text.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000, failure_persistence: None, rng_seed: RngSeed::Fixed(17), ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_files_are_refused_or_solved(text in mutated()) {
        if let Ok(saved) = file::read(&text) {
            let problem = &saved.problem;
            let sizes = dp::Solver::new().solve(problem);
            prop_assert!(sizes.objective.is_finite());
            let used: u64 = sizes.counts.iter().map(|&n| u64::from(n)).sum();
            prop_assert!(used <= u64::from(problem.nodes));
        }
    }
}

/// A file of one trainer with some text in it replaced.
fn damaged(from: &str, to: &str) -> FileError {
    let value = shufflenet();
    let problem = Problem {
        nodes: 77,
        horizon_s: 120.0,
        trainers: vec![hpo(&value, 3), hpo(&value, 4)],
    };
    let mut saved = Saved::new(problem);
    saved.names[0] = "first".to_owned();
    let text = file::write(&saved).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    file::read(&text.replacen(from, to, 1)).unwrap_err()
}

#[test]
fn equal_curves_stand_once_and_the_text_is_for_people() {
    let value = shufflenet();
    let copy: std::sync::Arc<[f64]> = value.to_vec().into();
    let problem = Problem {
        nodes: 9,
        horizon_s: 0.1,
        trainers: vec![hpo(&value, 3), hpo(&copy, 4)],
    };
    let text = file::write(&Saved::new(problem)).unwrap();
    assert_eq!(text.matches("145081.5").count(), 1, "{text}");
    assert_eq!(text.lines().count(), 13, "{text}");
    assert!(text.starts_with("{\n  \"lacuna\": \"allocation-problem\",\n  \"version\": 1,\n"));
}

#[test]
fn what_makes_no_sense_is_refused_by_trainer_and_field() {
    for (from, to, says) in [
        (
            "\"version\": 1",
            "\"version\": 2",
            "the file is of version 2, this program reads version 1",
        ),
        (
            "allocation-problem",
            "menu",
            "the file is of kind \"menu\", expected \"allocation-problem\"",
        ),
        (
            "\"horizon_s\": 120.0",
            "\"horizon_s\": -1",
            "field horizon_s: expected seconds, more than 0, 1e15 at most, found -1",
        ),
        (
            "\"current\":3",
            "\"current\":74",
            "field current: expected 77 nodes held in all at most, found 78",
        ),
        (
            "\"min\":1",
            "\"min\":0",
            "trainer 0 (first), field min: expected 1 node at least, found 0",
        ),
        (
            "\"max\":64",
            "\"max\":65",
            "trainer 0 (first), field curve: expected rates for 0..=65 nodes, found 65 rates",
        ),
        (
            "\"min\":1",
            "\"min\":70",
            "trainer 0 (first), field max: expected no less than min, 70, found 64",
        ),
        (
            "\"curve\":0",
            "\"curve\":1",
            "trainer 0 (first), field curve: expected the place of one of 1 curves, from 0, found 1",
        ),
        (
            "[0.0,2831.0",
            "[0.0,-2831.0",
            "trainer 0 (first), field curve: expected rates from 0 to 1e15, found -2831 for 1 nodes",
        ),
        (
            "\"up_s\":18.0",
            "\"up_s\":-18.0",
            "trainer 0 (first), field up_s: expected a number from 0 to 1e15, found -18",
        ),
    ] {
        assert_eq!(damaged(from, to).to_string(), says, "{from} -> {to}");
    }
    for (from, to) in [
        ("\"nodes\"", "\"knots\""),
        ("\"up_s\"", "\"ups\""),
        ("77", "-77"),
        ("120.0", "1e999"),
        ("120.0", "NaN"),
        ("]", ""),
    ] {
        assert!(
            matches!(damaged(from, to), FileError::Json(_)),
            "{from} -> {to}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_not_written() {
    let value = shufflenet();
    let mut item = hpo(&value, 3);
    item.rate_now = f64::NAN;
    let problem = Problem {
        nodes: 9,
        horizon_s: 120.0,
        trainers: vec![item],
    };
    let error = file::write(&Saved::new(problem)).unwrap_err();
    assert!(
        error.to_string().starts_with("trainer 0, field rate_now:"),
        "{error}"
    );
}

#[test]
fn every_saved_problem_is_solved_alike_by_all() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/problems"));
    let mut solved = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display();
        let saved = file::read(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let problem = &saved.problem;
        let known = saved.answer.as_ref().expect("test cases have an answer");
        assert!(problem.is_feasible(&known.counts), "{name}");
        let check = |what: &str, objective: f64, relative: f64| {
            assert!(
                agree(objective, known.objective, relative),
                "{name}: {what} comes to {objective}, known is {}",
                known.objective
            );
        };
        check("the answer itself", problem.objective(&known.counts), 1e-12);
        let found = dp::Solver::new().solve(problem);
        assert!(problem.is_feasible(&found.counts), "{name}: {found:?}");
        check("dp", found.objective, 1e-12);
        check("plain dp", reference::solve(problem).objective, 1e-9);
        for shortcuts in [false, true] {
            let options = MilpOptions {
                shortcuts,
                ..MilpOptions::until(Duration::from_secs(60))
            };
            let (sizes, _) = milp::solve(problem, &options);
            check("highs", sizes.objective, 1e-6);
        }
        solved += 1;
    }
    assert!(
        solved >= 4,
        "only {solved} problems in {}",
        folder.display()
    );
}
