//! Planned starts of a trace: consumers of the trace source know the same as the replay.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic"
)]

use std::collections::BTreeMap;

use lacuna_batchsim::workload::generated_trace;
use lacuna_ingest_service::ledger::Ledger;
use lacuna_ingest_service::trace_source::{self, Message, TraceSource};
use lacuna_model::{HoleRecord, NodeEvent, PlannedStart, Span, Timestamp};
use lacuna_pool::{PoolKeeper, RESTART_JUMP, UnknownNodes};
use lacuna_sim::{HoleTrace, PoolTrace as _};
use lacuna_trace::{Window, event_batches};
use lacuna_wire::msg::{Clock, Pace, Settled};

/// A restart reads this many events before a snapshot, here fewer than some batches have.
const LOOK_BACK: usize = 6;

const SEED: u64 = 7;

/// The machine, and its first and last moment.
fn machine() -> (Vec<HoleRecord>, Vec<PlannedStart>, Window) {
    println!("seed {SEED}");
    let (holes, planned) = generated_trace(96, 2, SEED).unwrap();
    let start = holes.iter().map(|hole| hole.from).min();
    let end = holes.iter().map(|hole| hole.until).max();
    // A few hours after midnight, so that the first moment finds planned starts.
    let start = start.map(|start| start + Span::from_secs(3 * 3600));
    (holes, planned, Window { start, end })
}

/// The planned start of each present hole at each step of the replay, by node.
fn replayed(
    holes: &[HoleRecord],
    planned: &[PlannedStart],
    window: Window,
) -> BTreeMap<Timestamp, BTreeMap<String, Timestamp>> {
    let start = window.start.unwrap();
    let trace = HoleTrace::with_planned(holes, planned, None, start, window.end);
    let time = |after_s: f64| start + Span::from_secs_f64(after_s);
    let mut known = BTreeMap::new();
    let mut states = BTreeMap::new();
    let mut steps = trace.steps().unwrap();
    while let Some(step) = steps.next().unwrap() {
        for &node in step.closed {
            known.remove(&*trace.node_name(node));
        }
        for hint in step.planned {
            let node = trace.node_name(hint.node).into_owned();
            match hint.at_s.is_finite() {
                true => known.insert(node, time(hint.at_s)),
                false => known.remove(&node),
            };
        }
        states.insert(time(step.at_s), known.clone());
    }
    states
}

fn input(
    holes: &[HoleRecord],
    planned: &[PlannedStart],
    window: Window,
    pace: Pace,
) -> trace_source::Trace {
    trace_source::Trace {
        batches: event_batches(holes, planned, None, window),
        end: window.end.unwrap(),
        pace,
        recording: "this".to_owned(),
    }
}

fn ledger() -> Ledger {
    Ledger::new(0, UnknownNodes::Accept, 10, Span::from_secs(60))
}

/// A consumer of the events, as the forecast service is one.
#[derive(Debug)]
struct Consumer {
    keeper: PoolKeeper,
    events: Vec<NodeEvent>,
    states: BTreeMap<Timestamp, BTreeMap<String, Timestamp>>,
}

impl Consumer {
    fn new() -> Self {
        let mut keeper = PoolKeeper::new(UnknownNodes::Accept);
        keeper.step(&ledger().snapshot(Timestamp::default()));
        Self {
            keeper,
            events: Vec::new(),
            states: BTreeMap::new(),
        }
    }

    fn take(&mut self, out: &[Message]) {
        for message in out {
            match message {
                Message::Event(event) => {
                    self.keeper.step(event);
                    self.events.push(event.clone());
                }
                Message::Tick(tick) if tick.complete => {
                    self.states.insert(tick.now, self.known());
                }
                Message::Tick(_) => {}
            }
        }
    }

    /// The planned start of each node, all of which have a hole.
    fn known(&self) -> BTreeMap<String, Timestamp> {
        let planned = self.keeper.announcements().planned();
        let known = planned.map(|(_, plan)| {
            assert_eq!(plan.nodes.len(), 1);
            assert!(self.keeper.idle_since(&plan.nodes[0]).is_some());
            (plan.nodes[0].to_string(), plan.start)
        });
        let known: Vec<_> = known.collect();
        let count = known.len();
        let known: BTreeMap<_, _> = known.into_iter().collect();
        assert_eq!(known.len(), count, "one plan a node");
        known
    }
}

fn answer(tick: &Clock) -> Settled {
    Settled {
        step: tick.step,
        complete: tick.complete,
    }
}

/// The states agree, and they are worth comparing.
fn agree(consumer: &Consumer, replayed: &BTreeMap<Timestamp, BTreeMap<String, Timestamp>>) {
    for (at, expected) in replayed {
        assert_eq!(consumer.states.get(at), Some(expected), "at {at:?}");
    }
    let planned: usize = replayed.values().map(BTreeMap::len).sum();
    println!(
        "{} moments, {planned} planned starts known at them",
        replayed.len()
    );
    assert!(replayed.len() > 300 && planned > replayed.len());
    assert!(!replayed.values().next().unwrap().is_empty());
}

#[test]
fn in_lock_step_consumers_know_at_each_moment_what_the_replay_knows() {
    let (holes, planned, window) = machine();
    let mut consumer = Consumer::new();
    let mut ledger = ledger();
    let input = input(&holes, &planned, window, Pace::LockStep);
    let mut source = TraceSource::begin(input, None, &mut ledger);
    consumer.take(&source.start(&mut ledger));
    while !source.ended() {
        let answer = answer(&source.clock());
        consumer.take(&source.settled(&answer, &mut ledger));
    }
    agree(&consumer, &replayed(&holes, &planned, window));
}

#[test]
fn by_time_consumers_know_after_each_moment_what_the_replay_knows() {
    let (holes, planned, window) = machine();
    let mut consumer = Consumer::new();
    let mut ledger = ledger();
    let pace = Pace::Scaled {
        rate: 600.0,
        wall_at: Timestamp::default(),
    };
    let input = input(&holes, &planned, window, pace);
    let mut source = TraceSource::begin(input, None, &mut ledger);
    consumer.take(&source.start(&mut ledger));
    while let Some(due) = source.due() {
        consumer.take(&source.poll(due, 1, &mut ledger));
        consumer.states.insert(due, consumer.known());
    }
    agree(&consumer, &replayed(&holes, &planned, window));
}

#[test]
fn restarts_of_ingest_change_nothing_of_what_consumers_know() {
    let (holes, planned, window) = machine();
    let mut consumer = Consumer::new();
    let mut ledger = ledger();
    let input = input(&holes, &planned, window, Pace::LockStep);
    let mut source = TraceSource::begin(input.clone(), None, &mut ledger);
    let mut newest = ledger.snapshot(ledger.newest_at());
    let mut tick = None;
    let mut out = source.start(&mut ledger);
    let (mut batch, mut restarts) = (0_usize, 0);
    loop {
        batch += 1;
        // Every few messages, ingest dies within a batch: the rest of it is never sent.
        let dies = batch.is_multiple_of(5);
        if dies {
            let sent = (batch / 5) % (out.len() + 1);
            out.truncate(sent);
        }
        consumer.take(&out);
        let mut ticks = out.iter().filter_map(|out| match out {
            Message::Tick(tick) => Some(tick.clone()),
            Message::Event(_) => None,
        });
        tick = ticks.next_back().or(tick);
        if dies {
            restarts += 1;
            let mut next = self::ledger();
            next.recall(&newest);
            let before = consumer.events.partition_point(|e| e.seq <= newest.seq);
            for event in &consumer.events[before.saturating_sub(LOOK_BACK)..before] {
                next.recall_past(event);
            }
            for event in &consumer.events[before..] {
                next.recall(event);
            }
            next.restart();
            source = TraceSource::begin(input.clone(), tick.clone(), &mut next);
            ledger = next;
            newest = ledger.snapshot(ledger.newest_at());
            consumer.keeper.step(&newest);
            out = source.start(&mut ledger);
            continue;
        }
        if batch.is_multiple_of(3) {
            newest = ledger.snapshot(ledger.newest_at());
        }
        if source.ended() {
            break;
        }
        let answer = answer(&source.clock());
        out = source.settled(&answer, &mut ledger);
    }
    println!("{restarts} restarts");
    assert!(restarts > 100 && ledger.seq() > 100 * RESTART_JUMP);
    agree(&consumer, &replayed(&holes, &planned, window));
}
