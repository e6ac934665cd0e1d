//! How far plans look ahead where starts are charged.

use lacuna_planner::placement::blocks::BlockPlacer;
use lacuna_planner::placement::{Request, Scenarios, Settings};
use lacuna_planner::{Far, Item};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{hpo, shufflenet};

/// Ten units a second for each of two nodes.
fn waiting(up_s: f64) -> Item {
    Item {
        current: 0,
        min: 1,
        max: 2,
        value: vec![0.0, 10.0, 20.0].into(),
        rate_now: 0.0,
        up_s,
        pilot_s: 0.0,
        far: Far::default(),
        kinds: None,
        down_s: 100.0,
        lost: lacuna_planner::Lost::default(),
    }
}

/// Who gets which node where half of the holes last two minutes.
fn decide(trainers: &[Item], scenarios: &Scenarios) -> Vec<Option<u32>> {
    let start_s: Vec<f64> = trainers.iter().map(|item| item.up_s).collect();
    let request = Request {
        trainers,
        hit: &[],
        start_s: &start_s,
        owners: &vec![None; scenarios.nodes()],
        scenarios,
    };
    let starts = trainers.iter().map(|item| (item, item.up_s));
    let settings = Settings::default().reach(starts, Some(120.0), None);
    BlockPlacer::new(settings).decide(&request).owners
}

#[test]
fn a_start_that_costs_more_than_most_holes_last_pays_in_those_that_do() {
    let alone = [waiting(150.0)];
    let with = |leaves: [f64; 2]| decide(&alone, &Scenarios::new(2, leaves.to_vec()));
    assert_eq!(with([90.0, 3600.0]), [None, Some(0)]);
    assert_eq!(with([90.0, 120.0]), [None, None]);
}

#[test]
fn a_dear_start_is_made_beside_cheap_ones_and_beyond_the_horizon_that_was_set() {
    let cheap = Item {
        max: 1,
        ..waiting(1.0)
    };
    let owners = decide(&[cheap, waiting(2000.0)], &Scenarios::new(3, vec![1e6; 3]));
    let of = |j| owners.iter().filter(|&&owner| owner == Some(j)).count();
    assert_eq!((of(0), of(1)), (1, 2));
}

#[test]
fn without_charged_starts_plans_look_no_further_than_the_pool_lasts() {
    let trainer = waiting(150.0);
    let free = std::iter::once((&trainer, 0.0));
    let reach = Settings::default().reach(free, Some(400.0), None);
    assert_eq!(reach.horizon_s, 400.0);
}

#[test]
fn plans_look_as_far_as_a_change_costs_where_most_holes_are_short() {
    let trainer = waiting(150.0);
    let cost = trainer.up_s + trainer.down_s;
    for (typical_s, kept_s) in [(10.0, None), (10.0, Some(900.0)), (cost - 1.0, None)] {
        let free = std::iter::once((&trainer, 0.0));
        let reach = Settings::default().reach(free, Some(typical_s), kept_s);
        assert_eq!(reach.horizon_s, cost, "{typical_s} {kept_s:?}");
    }
}

#[test]
fn plans_look_as_far_as_trainers_keep_their_nodes_and_no_further_than_holes_last() {
    let trainer = waiting(10.0);
    let reach = |typical_s, kept_s| {
        let free = std::iter::once((&trainer, 0.0));
        Settings::default().reach(free, typical_s, kept_s).horizon_s
    };
    assert_eq!(reach(None, None), 440.0);
    assert_eq!(reach(None, Some(100.0)), 440.0);
    assert_eq!(reach(None, Some(900.0)), 900.0);
    assert_eq!(reach(Some(600.0), Some(900.0)), 600.0);
    assert_eq!(reach(None, Some(1e6)), 1800.0);
}

#[test]
fn nodes_that_may_leave_soon_are_not_heaped_on_one_trainer_beyond_its_best_size() {
    let (mut rng, trainers, nodes, count) = (ChaCha8Rng::seed_from_u64(1), 69, 126, 128);
    // Each node leaves once an hour, and restarts are cheap.
    let mut leave_s = || -3600.0 * (1.0 - rng.random::<f64>()).ln();
    let scenarios = Scenarios::new(nodes, (0..nodes * count).map(|_| leave_s()).collect());
    let item = Item {
        up_s: 1.8,
        down_s: 1.2,
        ..hpo(&shufflenet(), 0)
    };
    let trainers = vec![item; trainers];
    let request = Request {
        trainers: &trainers,
        hit: &[],
        start_s: &vec![0.0; trainers.len()],
        owners: &vec![None; nodes],
        scenarios: &scenarios,
    };
    let most = |limited| {
        let settings = Settings {
            horizon_s: 600.0,
            limited,
            ..Settings::default()
        };
        let owners = BlockPlacer::new(settings).decide(&request).owners;
        let of = |j| owners.iter().filter(|owner| **owner == Some(j)).count();
        (0..trainers.len() as u32).map(of).max()
    };
    // Eight nodes are the best size beside one: fewer of both would be idle.
    assert_eq!(most(true), Some(8));
    assert!(most(false) > Some(32), "{:?}", most(false));
}
