use super::*;

const SOFT: Certainty = Certainty::Soft;

fn promises(nodes: usize) -> Promises {
    let mut promises = Promises::default();
    promises.grow(nodes);
    promises
}

fn unknown(_: f64) -> f64 {
    1.0
}

#[test]
fn words_are_judged_by_what_came_of_them() {
    let mut promises = promises(4);
    for round in 0..100 {
        let now = f64::from(round) * 10_000.0;
        // Node 0 always leaves as said, node 1 always too soon, node 2 never as said.
        for node in 0..3 {
            promises.says(node, now + 200.0 + 300.0 * f64::from(node), SOFT);
        }
        promises.step(now);
        promises.ends(1, now + 100.0);
        promises.step(now + 100.0);
        promises.ends(0, now + 230.0);
        promises.step(now + 230.0);
        promises.step(now + 1000.0);
        promises.ends(2, now + 5000.0);
        promises.step(now + 5000.0);
    }
    let [_, soon, later, ..] = promises.books.outcomes;
    // Of words 60 to 300 s ahead those of node 0, of further ones the others'.
    assert!(soon.at > 80.0 && soon.before == 0.0, "{soon:?}");
    assert!(
        later.at == 0.0 && later.before > 80.0 && later.after > 80.0,
        "{later:?}"
    );
    promises.says(3, 1e6 + 200.0, SOFT);
    promises.step(1e6);
    let word = promises.of(3, 1e6, unknown).unwrap();
    assert!(word.after_s == 200.0 && word.kept > 0.5, "{word:?}");
    promises.says(3, NONE, SOFT);
    assert_eq!(promises.of(3, 1e6, unknown), None);
    assert_eq!(promises.of(99, 1e6, unknown), None);
}

#[test]
fn what_is_overdue_is_trusted_less_than_what_is_to_come() {
    let mut promises = promises(1);
    for round in 0..50 {
        let mut now = f64::from(round) * 10_000.0;
        promises.says(0, now + 50.0, SOFT);
        promises.step(now);
        // It is said again and again to come any second.
        for _ in 0..20 {
            now += 100.0;
            promises.says(0, now + 1.0, SOFT);
            promises.step(now);
        }
        promises.ends(0, now + 50.0);
        promises.step(now + 50.0);
    }
    let overdue = promises.books.outcomes[OVERDUE];
    assert!(overdue.after > 5.0 * overdue.at, "{overdue:?}");
    // A word that is no number is none.
    promises.says(0, f64::NAN, SOFT);
    assert_eq!(promises.of(0, 0.0, unknown), None);
}

#[test]
fn a_plan_that_slipped_by_hours_is_judged_by_its_lead_and_a_stale_one_once() {
    let mut promises = promises(1);
    promises.says(0, 50.0, SOFT);
    promises.step(0.0);
    // It has not come, and is planned two hours later; then it comes.
    promises.says(0, 7400.0, SOFT);
    promises.step(200.0);
    promises.ends(0, 7400.0);
    promises.step(7400.0);
    let far = promises.books.outcomes[LEADS - 2];
    assert!(far.at > 0.9 && far.after < 0.1, "{far:?}");
    assert_eq!(promises.books.outcomes[OVERDUE].all(), 0.0);
    let record = promises.record(SOFT);
    assert_eq!((record.came_true, record.proved_false), (1, 1));
    // One that nobody withdraws proves false but once, however long it stands.
    promises.says(0, 8050.0, SOFT);
    for minute in 0..60 {
        promises.step(8000.0 + 60.0 * f64::from(minute));
    }
    assert_eq!(promises.record(SOFT).proved_false, 2);
}

#[test]
fn a_large_job_is_one_piece_of_evidence_however_it_is_told() {
    let outcomes = |one_by_one: bool| {
        let mut promises = promises(1000);
        for node in 0..1000 {
            promises.says(node, 200.0, SOFT);
            if one_by_one {
                promises.step(f64::from(node) / 1000.0);
            }
        }
        promises.step(1.0);
        for node in 0..1000 {
            // A quarter of them ends too soon.
            let now = if node < 250 { 20.0 } else { 190.0 };
            promises.ends(node, now);
            if one_by_one {
                promises.step(now);
            }
        }
        assert!(promises.books.open.is_empty());
        promises.books.outcomes[1]
    };
    let at_once = outcomes(false);
    assert_eq!((at_once.before, at_once.at), (0.25, 0.75));
    assert_eq!(outcomes(true), at_once);
}

#[test]
fn a_plan_that_moves_a_little_is_no_lie_each_time() {
    let mut promises = promises(2);
    // Node 0's plan moves to and fro by seconds and is kept; node 1's runs away.
    let mut now = 0.0;
    while now < 250.0 {
        promises.says(0, 250.0 + (now / 10.0) % 3.0, SOFT);
        promises.says(1, now + 200.0, SOFT);
        promises.step(now);
        now += 10.0;
    }
    promises.ends(0, 251.0);
    promises.step(300.0);
    let record = promises.record(SOFT);
    // Node 0 at the leads of 5 min and 1 min; node 1 once, as its moment passed.
    assert_eq!((record.came_true, record.proved_false), (2, 1));
}

#[test]
fn what_is_hard_is_the_latest_moment_until_that_proves_false() {
    let mut promises = promises(2);
    promises.says(0, 500.0, Certainty::Hard);
    promises.step(0.0);
    let believed = |after_s: f64| 1.0 - after_s / 1000.0;
    let word = promises.of(0, 0.0, believed).unwrap();
    assert_eq!((word.early, word.kept), (0.5, 0.5));
    // Too early is as announced; what is past and still there is no end.
    promises.ends(0, 100.0);
    promises.says(1, 200.0, Certainty::Hard);
    assert!(promises.of(1, 250.0, believed).is_some());
    assert!(promises.of(1, 270.0, believed).is_none());
    let record = promises.record(Certainty::Hard);
    assert_eq!((record.came_true, record.proved_false), (1, 0));
    for round in 0..12 {
        let now = f64::from(round) * 1000.0;
        promises.says(1, now + 100.0, Certainty::Hard);
        promises.step(now);
        promises.ends(1, now + 900.0);
    }
    promises.says(1, 20_100.0, Certainty::Hard);
    let word = promises.of(1, 20_000.0, believed).unwrap();
    assert!(word.early + word.kept < 0.5, "{word:?}");
}

#[test]
fn words_of_another_time_are_not_judged_by_this_one_s_ends() {
    let mut promises = promises(2);
    promises.says(0, 1e6 + 100.0, SOFT);
    promises.step(1e6);
    // The clock was wrong; and a hole ends unseen.
    promises.ends(0, 50.0);
    promises.says(1, 200.0, SOFT);
    promises.step(60.0);
    promises.lose(1);
    promises.step(1000.0);
    assert_eq!(promises.record(SOFT), Record::default());
    assert!(promises.books.open.is_empty());
}
