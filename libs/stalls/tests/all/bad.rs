//! Reports that cannot be replayed, or only in part, and unusual programs.

use lacuna_stalls::{Change, Error, Steps, Trace};

use crate::world::World;

const MS: u64 = 1_000_000;

fn trace() -> Trace {
    let mut world = World::even(2, 121, &[40 * MS, 60 * MS]);
    world.prep = vec![vec![30 * MS; 121]; 2];
    world.services = vec![5 * MS; 2];
    world.run().0
}

fn read(change: impl Fn(&mut Trace)) -> Result<Steps, Error> {
    let mut trace = trace();
    change(&mut trace);
    Steps::read(&trace)
}

/// Changes each list of times of each member.
fn each_list(trace: &mut Trace, change: impl Fn(&mut Vec<f64>)) {
    for times in &mut trace.ranks {
        let lists = [
            &mut times.wait,
            &mut times.hand,
            &mut times.prep,
            &mut times.fetch,
            &mut times.update,
            &mut times.rest,
        ];
        let sums = times.ready.iter_mut().chain(&mut times.done);
        lists.into_iter().chain(sums).for_each(&change);
    }
}

#[test]
fn a_silent_member_is_named_and_nothing_is_said() {
    let error = read(|trace| trace.silent = vec![1]).unwrap_err();
    assert_eq!(error, Error::Silent { ranks: vec![1] });
    assert!(error.to_string().contains("members [1] sent no times"));
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let changes: [fn(&mut Trace); 4] = [
        |t| t.ranks[1].wait.truncate(9),
        |t| t.ranks[1].done.truncate(1),
        |t| t.ranks[1].ready[0].truncate(9),
        |t| t.bytes.push(1),
    ];
    for change in changes {
        let error = read(change).unwrap_err();
        assert!(matches!(error, Error::Shape { .. }), "{error}");
    }
    assert_eq!(read(|t| t.ranks.clear()).unwrap_err(), Error::Empty);
    assert!(matches!(
        read(|t| t.version = 2),
        Err(Error::Version { found: 2, .. })
    ));
    assert!(matches!(
        read(|t| t.workers = u32::MAX),
        Err(Error::Limit { .. })
    ));
    assert!(matches!(
        read(|t| t.depth = u32::MAX),
        Err(Error::Limit { .. })
    ));
}

#[test]
fn steps_that_are_no_replayed_ones_are_refused() {
    let error = read(|t| t.passes = 4).unwrap_err();
    assert_eq!(error, Error::Accumulates { passes: 4 });
    let error = read(|t| t.bytes.clear()).unwrap_err();
    assert_eq!(error, Error::NoSums { members: 2 });
}

/// The report of each member alone.
fn parts() -> Vec<Trace> {
    let whole = trace();
    let alone = whole.ranks.iter().map(|times| Trace {
        ranks: vec![times.clone()],
        ..whole.clone()
    });
    alone.collect()
}

#[test]
fn reports_of_single_members_are_joined_in_any_order_to_their_common_steps() {
    let mut parts = parts();
    parts.reverse();
    assert_eq!(Trace::joined(parts.clone()).unwrap(), trace());
    each_list(&mut parts[0], |list| list.truncate(30));
    let joined = Trace::joined(parts).unwrap();
    assert_eq!(joined.ranks[0].wait, trace().ranks[0].wait[..30]);
    assert_eq!(Steps::read(&joined).unwrap().count(), 30);
}

#[test]
fn reports_that_do_not_belong_together_are_refused() {
    let changes: [fn(&mut Trace); 4] = [
        |t| t.members = 3,
        |t| t.workers += 1,
        |t| t.bytes.push(1),
        |t| t.ranks[0].rank = 0,
    ];
    for change in changes {
        let mut parts = parts();
        change(&mut parts[1]);
        let error = Trace::joined(parts).unwrap_err();
        assert!(matches!(error, Error::Apart { .. }), "{error}");
    }
    assert_eq!(Trace::joined(Vec::new()).unwrap_err(), Error::Empty);
    let joined = Trace::joined(vec![parts().remove(1)]).unwrap();
    assert_eq!(joined.silent, [0]);
    let mut many = parts();
    many[0].members = u32::MAX;
    assert!(matches!(Trace::joined(many), Err(Error::Limit { .. })));
}

#[test]
fn steps_with_times_that_are_none_are_left_out() {
    let usual = lacuna_stalls::answer(&read(|_| {}).unwrap()).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let steps = read(|t| {
            t.ranks[0].prep[3] = bad;
            t.ranks[1].done[1][5] = bad;
        });
        let answer = lacuna_stalls::answer(&steps.unwrap()).unwrap();
        assert_eq!(answer.left_out, 2);
        assert!((answer.replayed - usual.replayed).abs() < 1e-6);
        let error = read(|t| t.ranks[1].hand.fill(bad)).unwrap_err();
        assert!(matches!(error, Error::TooFew { usable: 0, .. }), "{error}");
    }
}

#[test]
fn a_clock_that_jumps_costs_one_step() {
    let steps = read(|t| t.ranks[1].rest[7] = 3.6e9).unwrap();
    assert_eq!(steps.left_out(), 1);
    assert!(lacuna_stalls::answer(&steps).unwrap().trusted);
}

#[test]
fn few_steps_are_no_mean() {
    let error = read(|t| {
        each_list(t, |list| list.truncate(7));
    });
    assert!(matches!(
        error,
        Err(Error::TooFew {
            usable: 7,
            needed: 8,
            ..
        })
    ));
}

#[test]
fn steps_of_a_second_and_of_a_millisecond_have_answers() {
    for unit in [1_000_u64, 1_000_000, 17_000_000] {
        let mut world = World::even(2, 121, &[40 * unit, 60 * unit]);
        world.hand = unit / 2;
        world.after = vec![2 * unit; 2];
        world.prep = vec![vec![90 * unit; 121]; 2];
        let answer = lacuna_stalls::answer(&Steps::read(&world.run().0).unwrap()).unwrap();
        assert!(answer.trusted);
        let percent = answer.costs[0].percent;
        assert!((percent - 30.6).abs() < 0.1, "{percent}");
    }
}

#[test]
fn a_program_without_a_loader_has_no_loader_to_change() {
    let mut world = World::even(2, 121, &[40 * MS, 60 * MS]);
    world.workers = 0;
    let answer = lacuna_stalls::answer(&Steps::read(&world.run().0).unwrap()).unwrap();
    assert!(answer.loaders.is_empty());
    assert!(answer.trusted);
}

#[test]
fn a_member_alone_has_no_link() {
    let world = World::even(1, 121, &[60 * MS]);
    let steps = Steps::read(&world.run().0).unwrap();
    assert!(lacuna_stalls::answer(&steps).unwrap().elsewhere.is_empty());
    let change = Change::none().members(2).unwrap();
    assert_eq!(steps.replay(&change), Err(Error::LinkUnknown));
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            Change::none().link(value),
            Err(Error::Change { .. })
        ));
        assert!(matches!(
            Change::none().share(value),
            Err(Error::Change { .. })
        ));
    }
    assert!(Change::none().members(0).is_err());
    assert!(Change::none().members(u32::MAX).is_err());
    assert!(Change::none().workers(u32::MAX).is_err());
}

#[test]
fn more_members_with_times_than_members_are_refused() {
    let error = read(|t| t.members = 1).unwrap_err();
    assert!(matches!(
        error,
        Error::Limit {
            value: 2,
            most: 1,
            ..
        }
    ));
}

#[test]
fn steps_of_no_time_at_all_do_not_divide_by_it() {
    let steps = read(|t| {
        each_list(t, |list| list.fill(0.0));
    });
    let answer = lacuna_stalls::answer(&steps.unwrap()).unwrap();
    assert!(answer.costs.iter().all(|cost| cost.percent == 0.0));
    assert!(lacuna_stalls::in_words(&answer).contains("0.00 ms"));
}
