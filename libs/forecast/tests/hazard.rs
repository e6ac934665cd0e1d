//! The hazard on machines with a known rule.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use lacuna_forecast::{
    Choice, Fits, Hazard, HazardCore, HazardSettings, LearningStage, ModelError, Nodes, OrderBy,
    OrderState, Predictor,
};
use lacuna_model::{Hole, NodeId, Span, Timestamp};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SEED: u64 = 11;
const NODES: u32 = 60;

/// The rule by which the machine of a test takes nodes.
#[derive(Debug, Clone, Copy)]
enum Takes {
    Front,
    End,
    /// By an order that the names do not show.
    Scrambled,
    Any,
}

/// One step: time, nodes that leave, nodes that come.
type Step = (f64, Vec<u32>, Vec<(u32, f64)>);

/// A machine that takes 1 to 8 idle nodes about once a minute and returns others.
fn machine(takes: Takes, steps: u32) -> Vec<Step> {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut idle: Vec<u32> = (0..NODES).collect();
    let mut busy: Vec<u32> = Vec::new();
    let mut log: Vec<Step> = vec![(0.0, Vec::new(), idle.iter().map(|&n| (n, 0.0)).collect())];
    let mut now = 0.0;
    for _ in 0..steps {
        now += f64::from(rng.random_range(20..100u32));
        idle.sort_unstable();
        match takes {
            Takes::Front => {}
            Takes::End => idle.reverse(),
            Takes::Scrambled => idle.sort_by_key(|node| node * 37 % NODES),
            Takes::Any => idle.shuffle(&mut rng),
        }
        let wanted = rng.random_range(1..=8usize).min(idle.len());
        let closed: Vec<u32> = idle.drain(..wanted).collect();
        busy.shuffle(&mut rng);
        let returned = rng.random_range(0..=9usize).min(busy.len());
        let opened: Vec<u32> = busy.drain(..returned).collect();
        idle.extend(&opened);
        busy.extend(&closed);
        log.push((now, closed, opened.into_iter().map(|n| (n, now)).collect()));
    }
    log
}

fn run(core: &mut HazardCore, log: &[Step]) {
    for (now, closed, opened) in log {
        core.step(*now, closed, opened);
    }
}

fn settings(order: OrderBy) -> HazardSettings {
    HazardSettings {
        order,
        samples: 6000,
        ..HazardSettings::default()
    }
}

/// A hazard that has seen 3,000 steps of a machine. Tests share it, since to learn takes seconds.
fn learnt(takes: Takes, order: OrderBy) -> HazardCore {
    static KNOWN: Mutex<BTreeMap<String, Arc<OnceLock<HazardCore>>>> = Mutex::new(BTreeMap::new());
    println!("seed {SEED}");
    let mut known = KNOWN.lock().unwrap();
    let one = Arc::clone(known.entry(format!("{takes:?} {order:?}")).or_default());
    drop(known);
    let learn = || {
        let mut core = HazardCore::new(Nodes::numbered(NODES), settings(order));
        run(&mut core, &machine(takes, 3000));
        core
    };
    one.get_or_init(learn).clone()
}

#[test]
fn an_order_is_found_in_either_direction_and_none_on_a_random_machine() {
    for (takes, state) in [
        (Takes::Front, OrderState::Given),
        (Takes::End, OrderState::Reversed),
        (Takes::Scrambled, OrderState::Taken),
        (Takes::Any, OrderState::Released),
    ] {
        let core = learnt(takes, OrderBy::Learnt);
        let order = core.order();
        assert_eq!(order.state, state, "{order:?}");
    }
}

#[test]
fn a_given_order_that_events_contradict_is_dropped_and_counted() {
    for takes in [Takes::End, Takes::Any] {
        let core = learnt(takes, OrderBy::Names);
        assert_eq!(core.order().state, OrderState::Released);
        assert!(core.anomalies().contradicted >= 1);
    }
    let core = learnt(Takes::Front, OrderBy::Names);
    assert_eq!(core.order().state, OrderState::Given);
    assert_eq!(core.anomalies().contradicted, 0);
    assert_eq!(
        learnt(Takes::Front, OrderBy::None).order().state,
        OrderState::Released
    );
}

#[test]
fn times_before_zero_count_like_any_others() {
    println!("seed {SEED}");
    let log = machine(Takes::Front, 3000);
    let fits = |shift: f64| {
        let mut core = HazardCore::new(Nodes::numbered(NODES), settings(OrderBy::Names));
        for (now, closed, opened) in &log {
            let opened: Vec<(u32, f64)> = opened.iter().map(|&(n, at)| (n, at + shift)).collect();
            core.step(now + shift, closed, &opened);
        }
        core.fits()
    };
    let after_zero = fits(0.0);
    assert!((1..100).contains(&after_zero), "{after_zero}");
    assert_eq!(fits(-1e6), after_zero);
}

#[test]
fn nodes_in_front_are_forecast_to_leave_first() {
    for takes in [Takes::Front, Takes::End, Takes::Scrambled] {
        let mut core = learnt(takes, OrderBy::Learnt);
        assert!(matches!(core.learning(), LearningStage::Learnt { .. }));
        let now = machine(takes, 3000).last().unwrap().0;
        let view = core.forecast(now);
        assert!(view.nodes.len() >= 8, "{}", view.nodes.len());
        assert_eq!(view.curve.len(), view.nodes.len());
        assert_eq!(view.link.len() + 1, view.nodes.len());
        // After five minutes.
        let open = |place: usize| view.curves[view.curve[place] as usize][2];
        let last = view.nodes.len() - 1;
        assert!(open(0) + 0.1 < open(last), "{} {}", open(0), open(last));
    }
}

#[test]
fn a_follower_of_a_scout_forecasts_as_it_would_alone() {
    let log = machine(Takes::Scrambled, 3000);
    let make = |fits| {
        let mut core = HazardCore::new(Nodes::numbered(NODES), settings(OrderBy::Learnt));
        core.set_fits(fits);
        core
    };
    // A scout that ends early, and one that lacks the first steps.
    for scouted in [&log[..2000], &log[7..]] {
        let (tell, hear) = Fits::scouted(2);
        std::thread::scope(|scope| {
            scope.spawn(|| run(&mut make(tell), scouted));
            let (mut alone, mut follower) = (make(Fits::Inside), make(hear));
            for (at, (now, closed, opened)) in log.iter().enumerate() {
                alone.step(*now, closed, opened);
                follower.step(*now, closed, opened);
                let later = now + 5.0;
                if at.is_multiple_of(5) {
                    assert_eq!(alone.forecast(later), follower.forecast(later));
                }
            }
            println!("{} fits", alone.fits());
            assert!(alone.fits() > 4 && alone.fits() == follower.fits());
        });
    }
}

#[test]
fn later_events_do_not_change_earlier_forecasts() {
    let log = machine(Takes::Front, 2000);
    let mut other = log.clone();
    other.truncate(1500);
    let mut rng = ChaCha8Rng::seed_from_u64(SEED + 1);
    for (now, closed, opened) in &log[1500..] {
        let mut opened = opened.clone();
        opened.shuffle(&mut rng);
        other.push((
            now + 5000.0,
            opened.iter().map(|o| o.0).collect(),
            Vec::new(),
        ));
        other.push((
            now + 5000.5,
            Vec::new(),
            closed.iter().map(|&n| (n, *now)).collect(),
        ));
    }
    let views = |log: &[Step]| {
        let mut core = HazardCore::new(Nodes::numbered(NODES), settings(OrderBy::Learnt));
        let mut views = Vec::new();
        for (now, closed, opened) in log.iter().take(1500) {
            core.step(*now, closed, opened);
            let view = core.forecast(*now);
            views.push((
                view.nodes.to_vec(),
                view.curve.to_vec(),
                view.curves.to_vec(),
                view.link.to_vec(),
            ));
        }
        run(&mut core, &log[1500.min(log.len())..]);
        views
    };
    let (whole, changed, cut) = (views(&log), views(&other), views(&log[..1500]));
    assert!(whole == changed);
    assert!(whole == cut);
}

#[test]
fn anomalies_are_counted_and_do_no_harm() {
    let mut core = learnt(Takes::Front, OrderBy::Learnt);
    let now = machine(Takes::Front, 3000).last().unwrap().0;
    let before = core.anomalies();
    assert_eq!(
        (before.clock_back, before.negative, before.reopened),
        (0, 0, 0)
    );
    // A hole that begins in the future, one on an unknown node, and one opened twice.
    core.step(
        now + 1.0,
        &[],
        &[(500, now + 1000.0), (501, now), (501, now)],
    );
    // The end of an absent hole, and the start of a present one.
    core.step(now + 2.0, &[900], &[(501, now + 2.0)]);
    // A clock that goes back a little, goes back by much, and is NaN.
    core.step(now - 10.0, &[500], &[]);
    core.step(now - 1e6, &[], &[(500, f64::NAN)]);
    core.step(f64::NAN, &[], &[]);
    let anomalies = core.anomalies();
    assert_eq!(anomalies.negative, 2, "{anomalies:?}");
    assert_eq!(anomalies.unordered, 2, "{anomalies:?}");
    assert_eq!(anomalies.reopened, 2, "{anomalies:?}");
    assert_eq!(anomalies.unknown_end, 1, "{anomalies:?}");
    assert_eq!(anomalies.clock_back, 3, "{anomalies:?}");
    let view = core.forecast(now - 1e6 + 60.0);
    for curve in view.curves {
        assert!(curve.iter().all(|open| (0.0..=1.0).contains(open)));
        assert!(curve.windows(2).all(|pair| pair[1] <= pair[0]));
    }
    assert!(view.link.iter().all(|link| (0.0..=1.0).contains(link)));
    assert!(view.nodes.contains(&501));
    // The hazard goes on learning on the new clock.
    let fits = core.fits();
    for (at, closed, opened) in machine(Takes::Front, 3000) {
        core.step(now - 1e6 + 100.0 + at, &closed, &opened);
    }
    assert!(core.fits() > fits);
}

fn node(number: u32) -> NodeId {
    NodeId::new(format!("n{number}")).unwrap()
}

fn tell(hazard: &mut dyn Predictor, log: &[Step]) {
    let mut since = vec![Timestamp::from_unix(0); NODES as usize];
    for (now, closed, opened) in log {
        let at = Timestamp::from_unix(1_600_000_000) + Span::from_secs_f64(*now);
        for &number in closed {
            let hole = Hole {
                node: node(number),
                since: since[number as usize],
            };
            hazard.closed(&hole, at);
        }
        for &(number, _) in opened {
            since[number as usize] = at;
            hazard.opened(
                &Hole {
                    node: node(number),
                    since: at,
                },
                at,
            );
        }
    }
}

/// Holes that were never opened, on known nodes.
fn strangers(at: Timestamp) -> Vec<Hole> {
    (0..40)
        .map(|number| Hole {
            node: node(number),
            since: at,
        })
        .collect()
}

#[test]
fn a_restored_model_forecasts_as_the_saved_one() {
    let log = machine(Takes::Front, 2000);
    let choice = Choice::hazard(OrderBy::Learnt);
    let mut hazard = choice.build();
    tell(hazard.as_mut(), &log);
    let bytes = hazard.save().unwrap();
    let mut restored = choice.restore(&bytes).unwrap();
    assert_eq!(restored.label(), hazard.label());
    assert!(
        restored.label().ends_with("order as given"),
        "{}",
        restored.label()
    );
    assert_eq!(restored.learning(), hazard.learning());
    // Both go on with the same empty machine and the same new holes.
    let mut fresh = Hazard::restore(HazardSettings::default(), &bytes).unwrap();
    let at =
        Timestamp::from_unix(1_600_000_000) + Span::from_secs_f64(log.last().unwrap().0 + 60.0);
    let holes = strangers(at);
    for hole in &holes {
        restored.opened(hole, at);
        fresh.opened(hole, at);
    }
    let said = restored.forecast(at, &holes);
    assert!(said == fresh.forecast(at, &holes));
    let joint = said.joint.as_ref().unwrap();
    assert_eq!(joint.order, (0..40).collect::<Vec<u32>>());
    let open = |place| said.of(place).unwrap().open_after(300.0);
    assert!(open(0) + 0.1 < open(39), "{} {}", open(0), open(39));
}

#[test]
fn a_clock_that_jumps_ahead_and_back_teaches_nothing() {
    let log = machine(Takes::Front, 2500);
    let views = |blip: bool| {
        let mut core = HazardCore::new(Nodes::numbered(NODES), settings(OrderBy::Names));
        let mut views = Vec::new();
        for (at, (now, closed, opened)) in log.iter().enumerate() {
            // The clock is ten days ahead for a few steps.
            let ahead = blip && (1000..1010).contains(&at);
            let shift = if ahead { 864_000.0 } else { 0.0 };
            let opened: Vec<(u32, f64)> = opened.iter().map(|&(n, at)| (n, at + shift)).collect();
            core.step(now + shift, closed, &opened);
            if at > 1200 && at.is_multiple_of(100) {
                let view = core.forecast(*now);
                let open = view
                    .curve
                    .iter()
                    .map(|&curve| f64::from(view.curves[curve as usize][2]));
                views.push(open.sum::<f64>() / view.curve.len() as f64);
            }
        }
        (views, core.anomalies(), core.fits())
    };
    let (right, none, fits) = views(false);
    let (after, anomalies, fits_after) = views(true);
    println!("{right:.3?}\n{after:.3?}\n{anomalies:?}");
    assert_eq!((none.clock_back, anomalies.clock_back), (0, 1));
    assert_eq!((anomalies.unknown_end, anomalies.reopened), (0, 0));
    // Learning goes on from the present, so forecasts are near those without the jump.
    assert!(
        fits_after + 5 >= fits && fits_after > 5,
        "{fits} {fits_after}"
    );
    for (right, after) in right.iter().zip(&after) {
        assert!((right - after).abs() < 0.1, "{right} {after}");
    }
}

#[test]
fn a_damaged_or_foreign_model_is_refused_with_its_reason() {
    let choice = Choice::hazard(OrderBy::Learnt);
    let mut hazard = choice.build();
    tell(hazard.as_mut(), &machine(Takes::Front, 500));
    let bytes = hazard.save().unwrap();
    let refused = |bytes: &[u8]| choice.restore(bytes).err().unwrap();
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(
        refused(&damaged).to_string(),
        "the saved model is damaged: its checksum does not match"
    );
    assert!(matches!(refused(&bytes[..5]), ModelError::Damaged { .. }));
    assert!(matches!(refused(&[]), ModelError::Damaged { .. }));
    let mut old = bytes.clone();
    old[8] = 200;
    assert!(matches!(
        refused(&old),
        ModelError::OtherVersion { found: 200, .. }
    ));
    let survival = Choice::survival();
    let other = survival.build().save().unwrap();
    assert_eq!(
        refused(&other),
        ModelError::OtherPredictor {
            found: "survival".to_owned(),
            expected: "hazard"
        }
    );
    assert!(survival.restore(&other).is_ok());
    assert!(matches!(
        Choice::Persistence.restore(&bytes).err().unwrap(),
        ModelError::NothingToLearn { .. }
    ));
}

#[test]
fn a_frozen_hazard_learns_no_more() {
    let log = machine(Takes::Front, 2000);
    let mut core = HazardCore::new(Nodes::numbered(NODES), settings(OrderBy::Learnt));
    run(&mut core, &log[..1000]);
    let (fits, events) = (core.fits(), core.order().given.events());
    core.freeze();
    run(&mut core, &log[1000..]);
    assert_eq!((core.fits(), core.order().given.events()), (fits, events));
    assert!(core.forecast(log.last().unwrap().0).nodes.len() > 3);
}

#[test]
fn unknown_holes_are_forecast_and_unlisted_ones_are_left_out() {
    let log = machine(Takes::Front, 1000);
    let mut hazard = Choice::hazard(OrderBy::Learnt).build();
    tell(hazard.as_mut(), &log);
    let at =
        Timestamp::from_unix(1_600_000_000) + Span::from_secs_f64(log.last().unwrap().0 + 60.0);
    let hole = |name: &str| Hole {
        node: NodeId::new(name).unwrap(),
        since: at,
    };
    let holes = [hole("x9"), hole("n59"), hole("x1")];
    let said = hazard.forecast(at, &holes);
    assert_eq!(said.index.len(), 3);
    assert!((0..3).all(|place| said.of(place).is_some()));
    let joint = said.joint.unwrap();
    let mut order = joint.order.clone();
    order.sort_unstable();
    assert_eq!((order, joint.link.len()), (vec![0, 1, 2], 2));
    assert!(hazard.forecast(at, &[]).index.is_empty());
}
