//! The judge: what it finds about good, bad and unjudged decisions.

use lacuna_model::{Generation, NodeChoice, Policy};
use lacuna_planner::check::value;
use lacuna_planner::judge::{Case as Judged, Judgement, NotJudged, picks};
use lacuna_planner::{Input, Planner, Settings};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::by_kind::two_kinds;
use crate::forecast::{messy, settings, short_and_long};
use crate::language::{Case, case};

fn judged_case(case: &Case, settings: &Settings, stale: bool) -> Result<Judged, NotJudged> {
    let mut planner = Planner::new(settings.clone());
    let _ = planner.plan_of(&Input {
        pool: &case.pool,
        trainers: &case.trainers,
        unusable: &case.unusable,
        generation: Generation(1),
        stale,
        topology: None,
        kinds: None,
        pilot_s: 0.0,
        followed: Generation(0),
    });
    planner.case()
}

fn judge(case: &Judged) -> Judgement {
    case.judge(&|| 0.0).unwrap()
}

/// The case with all nodes idle, and the value of that.
fn idle(case: &Judged) -> Judged {
    let mut case = case.clone();
    match &mut case {
        Judged::Sizes(parts) => {
            for (problem, value) in parts {
                *value = problem.objective(&vec![0; problem.trainers.len()]);
            }
        }
        Judged::Nodes(evaluation) => {
            let prices = evaluation.prices();
            let owners = vec![None; evaluation.assignment.owners.len()];
            let price = |j: usize| prices[j];
            let value = value(&evaluation.request(), &evaluation.settings, price, &owners);
            evaluation.assignment.value = value;
            evaluation.assignment.owners = owners;
        }
        Judged::Mixes(_, value) => *value = 0.0,
    }
    case
}

#[test]
fn a_decision_that_leaves_nodes_idle_is_found_out() {
    let by_sizes = Settings {
        policy: Policy::Dp,
        ..settings(true)
    };
    for settings in [settings(true), by_sizes] {
        let case = judged_case(&short_and_long(), &settings, false).unwrap();
        let good = judge(&case);
        assert!(good.gap() < 1e-3 && good.is_proven(), "{good:?}");
        let bad = judge(&idle(&case));
        assert!(bad.shortfall() > 0.5 && bad.is_proven(), "{bad:?}");
        assert!(bad.gap() >= bad.shortfall(), "{bad:?}");
        let close = (bad.best - good.best).abs() <= 1e-9 * good.best;
        assert!(
            close,
            "another answer to the same question: {bad:?} {good:?}"
        );
    }
}

#[test]
fn decisions_by_forecasts_come_near_the_bound() {
    let mut rng = ChaCha8Rng::seed_from_u64(89);
    let (mut gaps, mut lacking) = (Vec::new(), 0);
    for _ in 0..80 {
        let case = judged_case(&messy(&mut rng), &settings(true), false);
        let found = match case {
            Err(NotJudged::Doubt) => continue,
            case => judge(&case.unwrap()),
        };
        assert!(
            found.value <= found.best && found.best <= found.bound,
            "{found:?}"
        );
        lacking += usize::from(found.shortfall() > 1e-6);
        gaps.push(found.gap());
    }
    gaps.sort_by(f64::total_cmp);
    let (judged, middle) = (gaps.len(), gaps[gaps.len() / 2]);
    println!("{judged} judged, {lacking} lack something, gaps {gaps:.4?}");
    assert!(judged > 40 && middle < 0.02, "{gaps:?}");
}

#[test]
fn within_shares_each_owner_is_judged_on_its_own_nodes() {
    let mut shared = short_and_long();
    for (trainer, owner) in shared.trainers.iter_mut().zip(["ann", "bob"]) {
        trainer.spec.owner = Some(owner.to_owned());
    }
    let by_sizes = Settings {
        policy: Policy::Dp,
        ..settings(true)
    };
    for settings in [settings(true), by_sizes] {
        let case = judged_case(&shared, &settings, false).unwrap();
        match &case {
            Judged::Sizes(parts) => assert_eq!(parts.len(), 2),
            Judged::Nodes(evaluation) => assert_eq!(evaluation.decided().count(), 2),
            Judged::Mixes(..) => panic!("of one kind"),
        }
        let found = judge(&case);
        assert!(found.gap() < 0.02, "{found:?}");
    }
}

#[test]
fn what_cannot_be_judged_says_why() {
    let stale = judged_case(&short_and_long(), &settings(true), true);
    assert_eq!(stale.unwrap_err(), NotJudged::Doubt);
    assert_eq!(
        Planner::new(settings(true)).case().unwrap_err(),
        NotJudged::Doubt
    );
    // Nodes of several kinds by forecasts have no program, but counts of them have.
    assert_eq!(
        two_kinds(Policy::Forecast).case().unwrap_err(),
        NotJudged::Kinds
    );
    let counts = two_kinds(Policy::Dp).case().unwrap();
    assert!(matches!(counts, Judged::Mixes(..)));
    let found = judge(&counts);
    assert!(found.gap() < 1e-6 && found.value > 0.0, "{found:?}");
}

#[test]
fn a_judgement_that_is_stopped_has_no_bound_or_a_wide_one() {
    let plain = case().hole(4, "5m").trainer("a").nodes(1..=4);
    let by_sizes = Settings {
        policy: Policy::Dp,
        node_choice: NodeChoice::Together,
        ..Settings::default()
    };
    let found = judge(&judged_case(&plain, &by_sizes, false).unwrap());
    assert!(found.is_proven() && found.gap() == 0.0, "{found:?}");
    // A stopwatch that has run out at the second look.
    let looks = std::cell::Cell::new(0.0);
    let stopwatch = || {
        looks.set(looks.get() + 1e6);
        looks.get()
    };
    let case = judged_case(&short_and_long(), &settings(true), false).unwrap();
    assert_eq!(case.judge(&stopwatch), Err(NotJudged::NoBound));
}

#[test]
fn about_the_asked_share_of_plans_is_picked_and_always_the_same() {
    let picked = |share| (0..10_000).filter(move |&n| picks(share, 7, Generation(n)));
    assert_eq!((picked(0.0).count(), picked(1.0).count()), (0, 10_000));
    let tenth: Vec<u64> = picked(0.1).collect();
    assert!((900..1100).contains(&tenth.len()), "{}", tenth.len());
    assert_eq!(tenth, picked(0.1).collect::<Vec<u64>>());
}
