//! Harm: how long the main scheduler waited for nodes.

use lacuna_model::pilots::{Mode, Pilots};
use lacuna_model::{Activity, AgentStatus, Span};
use lacuna_trainer::controller::{Input, Note, Taken};

use crate::common::{World, node};
use crate::controller::apply;
use crate::regroup::running;

fn harm(w: &World) -> Vec<(&'static str, i64)> {
    let harm = |n: &Note| match n {
        Note::GivenBack { cause, harm, .. } => Some((*cause, harm.as_ms())),
        _ => None,
    };
    w.notes.iter().filter_map(harm).collect()
}

/// The agent of a node sends its last statuses, one or two.
fn leaves(w: &mut World, n: usize, after: Option<i64>) {
    let last = AgentStatus {
        activity: Activity::Free,
        released: Some("wanted".to_owned()),
        leaving: true,
        gave_back_in: after.map(Span::from_ms),
        ..w.agents[&node(n)].status()
    };
    w.input(Input::Agents(vec![last]));
}

fn pilots(mut w: World) -> World {
    w.config.control.pilots = Some(Pilots {
        mode: Mode::On,
        ..Pilots::default()
    });
    w.crash_control();
    w.deliver(usize::MAX);
    w.notes.clear();
    w
}

#[test]
fn a_release_of_a_node_whose_agent_has_left_is_confirmed_with_it() {
    let mut w = running();
    leaves(&mut w, 0, None);
    w.mail.clear();
    assert_eq!(w.leases[&node(0)].0, None);
    for _ in 0..7 {
        w.pass(Span::from_secs(10));
        w.renew();
        let status = w.agents[&node(1)].status();
        w.input(Input::Agents(vec![status]));
        w.input(Input::Timer);
    }
    let late = |n: &&Note| {
        matches!(n, Note::Unusable { node: n, cause } if *n == node(0) && *cause != "left")
            || matches!(n, Note::ReleasedUnheard { node: n } | Note::Resent { node: n } if *n == node(0))
    };
    assert_eq!(w.notes.iter().filter(late).count(), 0, "{:?}", w.notes);
    let delays: Vec<Span> = w
        .notes
        .iter()
        .filter_map(|n| match n {
            Note::Released { node: id, after } if *id == node(0) => Some(*after),
            _ => None,
        })
        .collect();
    assert_eq!(delays, [Span::ZERO]);
    // The next agent there finds the release, or is sent it, and obeys.
    w.crash_agent(&node(0));
    for _ in 0..3 {
        w.statuses();
        w.deliver(usize::MAX);
        w.pass(Span::from_secs(3));
        w.input(Input::Timer);
    }
    assert!(w.present().unusable.is_empty());
    assert_eq!(w.agents[&node(0)].status().activity, Activity::Free);
}

#[test]
fn a_pilot_measures_itself_and_is_counted_once() {
    let mut w = pilots(running());
    leaves(&mut w, 0, None);
    assert_eq!(harm(&w), []);
    leaves(&mut w, 0, Some(34));
    w.close(0);
    w.deliver(usize::MAX);
    assert_eq!(harm(&w), [("preempted", 34)]);
    // One without a program, and one whose first status was lost.
    leaves(&mut w, 3, None);
    leaves(&mut w, 3, Some(2));
    leaves(&mut w, 1, Some(50));
    // One that leaves for reasons of its own.
    leaves(&mut w, 4, None);
    assert_eq!(harm(&w)[1..], [("idle", 2), ("preempted", 50)]);
}

#[test]
fn a_drained_node_is_asked_for_twice_and_counted_once() {
    let mut w = pilots(running());
    w.close_for(0, Taken::Down);
    w.deliver(usize::MAX);
    assert_eq!(harm(&w), [], "its pilot is still there");
    leaves(&mut w, 0, None);
    leaves(&mut w, 0, Some(5));
    assert_eq!(harm(&w), [("drained", 5)]);
}

#[test]
fn where_agents_are_no_pilots_events_ask_for_nodes() {
    let mut w = running();
    w.close(0);
    w.pass(Span::from_ms(700));
    w.deliver(usize::MAX);
    w.close_for(1, Taken::Down);
    w.pass(Span::from_ms(300));
    w.deliver(usize::MAX);
    // A node without a lease causes no harm.
    w.close(5);
    w.deliver(usize::MAX);
    assert_eq!(harm(&w), [("taken", 700), ("drained", 300)]);
}

#[test]
fn a_node_wanted_by_a_deadline_is_late_after_it() {
    for (late, expected) in [(false, 0), (true, 400)] {
        let mut w = running();
        let deadline = w.now.cluster + Span::from_ms(500);
        w.close_for(0, Taken::Wanted { deadline });
        w.pass(Span::from_ms(if late { 900 } else { 200 }));
        w.deliver(usize::MAX);
        assert_eq!(harm(&w), [("wanted", expected)]);
        assert_eq!(w.answered, [node(0)]);
    }
}

/// Node 0 is wanted by half a second from now.
fn wanted(w: &World) -> Taken {
    Taken::Wanted {
        deadline: w.now.cluster + Span::from_ms(500),
    }
}

#[test]
fn a_release_confirmed_while_control_is_down_is_answered_after_its_restart() {
    let mut w = running();
    let taken = wanted(&w);
    w.close_for(0, taken);
    w.mail.clear();
    assert_eq!((w.leases[&node(0)].0.as_ref(), w.answered.len()), (None, 0));
    w.crash_control();
    w.pass(Span::from_secs(3));
    w.input(Input::Timer);
    w.deliver(usize::MAX);
    assert_eq!(w.answered, [node(0)]);
    assert_eq!(harm(&w), [], "the beginning of the wait is unknown");
}

#[test]
fn an_answer_that_comes_before_the_pool_is_known_is_not_lost() {
    let mut w = running();
    // The answer for the other node is not waited for: it is in the pool.
    apply(&mut w, &[("a", &[0])]);
    w.deliver(usize::MAX);
    assert_eq!(w.leases[&node(1)].0, None);
    let taken = wanted(&w);
    w.close_for(0, taken);
    w.deliver(1);
    w.mail.clear();
    assert_eq!(w.answered, []);
    w.restart_control();
    w.statuses();
    w.deliver(usize::MAX);
    assert_eq!(w.answered, [], "it may be in the pool");
    w.snapshot();
    assert_eq!(w.answered, [node(0)]);
}

#[test]
fn control_answers_for_a_dead_agent_after_its_lease_timeout() {
    for down in [false, true] {
        let mut w = running();
        let taken = if down { Taken::Down } else { wanted(&w) };
        w.close_for(0, taken);
        for _ in 0..7 {
            assert_eq!(w.answered, []);
            w.mail.clear();
            w.pass(Span::from_secs(10));
            w.renew();
            let status = w.agents[&node(1)].status();
            w.input(Input::Agents(vec![status]));
            w.input(Input::Timer);
        }
        assert_eq!(w.answered, [node(0)]);
        // A node that is down with its agent causes no harm.
        let waited: &[_] = if down { &[] } else { &[("wanted", 69_500)] };
        assert_eq!(harm(&w), waited);
        let unheard = |n: &&Note| matches!(n, Note::ReleasedUnheard { .. });
        assert_eq!(w.notes.iter().filter(unheard).count(), 1);
        // It is offered and wanted again before an agent has reported there.
        w.open(0);
        w.close_for(0, taken);
        assert_eq!(w.answered, [node(0), node(0)]);
        // A late status of an agent changes nothing.
        w.statuses();
        w.deliver(usize::MAX);
        assert_eq!((w.answered.len(), harm(&w).len()), (2, waited.len()));
    }
}

#[test]
fn a_wanted_node_without_a_lease_is_answered_for_at_once() {
    let mut w = running();
    let taken = wanted(&w);
    w.close_for(5, taken);
    assert_eq!(w.answered, [node(5)]);
    w.close(4);
    w.deliver(usize::MAX);
    assert_eq!((w.answered.len(), harm(&w).len()), (1, 0));
}
