//! Replays a trace as the source of events: at its own or another rate, or in lock step with the
//! loop. Events that the ledger already has are not published again. So a restart goes on from the
//! moment that the process before it had reached.
//!
//! **Lock step.** Latency does not count, and the services do the same work as `lacuna replay`. For
//! each moment `t` of the trace:
//!
//! 1. ingest publishes `Clock { now: t, step, complete: false }`;
//! 2. agents bring simulated progress to `t` and report it;
//! 3. control closes trainers that are done and answers `Settled { step, complete: false }` (when:
//!    `controller/lock_step.rs` in `lacuna_trainer`);
//! 4. ingest publishes the events of `t` and `Clock { complete: true, events_upto }`;
//! 5. forecast publishes the pool at `events_upto`, planner a plan for it, and control applies the
//!    plan;
//! 6. control answers `Settled { step, complete: true }`. Only then does ingest go on.
//!
//! The end of the trace has the steps 1 to 3 alone: as in the replay, an event at the end has no
//! effect, and no plan is followed for which no time is left.
//!
//! Virtual time does not replace lock step: messages take their time there too, so without it plans
//! would come later than in the replay.
//!
//! **Resuming.** `Clock.recording` identifies the trace: name and size of its file, and the chosen
//! part; it is empty without a trace. Ingest resumes from a stored tick only if that tick is of the
//! same trace and pace, and has not ended. Else it begins at the start of the trace, with step 1
//! and an empty snapshot. Steps and moments of different traces are never compared: the cluster's
//! clock follows a smaller step of another trace.

use std::collections::HashMap;

use lacuna_model::{NodeEvent, NodeId, Timestamp};
use lacuna_trace::EventBatch;
use lacuna_wire::msg::{Clock, Pace, Settled};

use crate::ledger::Ledger;

/// A message to publish; the order of messages matters.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A numbered event.
    Event(NodeEvent),
    /// The cluster's time.
    Tick(Clock),
}

/// State of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Waits for a moment of cluster time (not in lock step).
    Time,
    /// Waits for the answer to the first or the second tick of a step.
    Answer { complete: bool },
    /// The trace has ended.
    Nothing,
}

/// A trace, and the pace of its replay.
#[derive(Debug, Clone)]
pub struct Trace {
    /// All events, in order of time.
    pub batches: Vec<EventBatch>,
    /// End of the trace.
    pub end: Timestamp,
    /// Pace of time.
    pub pace: Pace,
    /// Identity of the trace, see [`Clock::recording`].
    pub recording: String,
}

/// A trace under replay.
#[derive(Debug)]
pub struct TraceSource {
    batches: Vec<EventBatch>,
    /// Index of the first batch that has not been published.
    next: usize,
    clock: Clock,
    waiting: Waiting,
    /// Cluster time at the end of the trace.
    end: Timestamp,
    /// Whether the replay resumes from a process before.
    resumed: bool,
}

impl TraceSource {
    /// Begins at the start of the trace, or resumes at `before`, if that is a tick of the same
    /// trace and pace. The ledger then has the state at that moment, for a snapshot. The next call
    /// is [`TraceSource::start`].
    #[must_use]
    pub fn begin(trace: Trace, before: Option<Clock>, ledger: &mut Ledger) -> Self {
        let Trace {
            batches,
            end,
            pace,
            recording,
        } = trace;
        let start = batches.first().map_or(end, |m| m.at);
        let before = before.filter(|tick| {
            let alike = match (tick.pace, pace) {
                (Pace::Scaled { rate: a, .. }, Pace::Scaled { rate: b, .. }) => a == b,
                (a, b) => a == b,
            };
            let here = (start..=end).contains(&tick.now);
            tick.recording == recording && alike && !tick.ended && here
        });
        let resumed = before.is_some();
        if !resumed {
            // The ledger may hold nodes of another trace.
            ledger.reset(ledger.seq(), start);
        }
        // Batches before the newest event are published in full. Of the batch of that event, the
        // ledger knows the published part.
        let newest = ledger.newest_at();
        let next = batches.partition_point(|m| m.at < newest);
        if resumed {
            for (node, start) in planned(batches.iter().take(next)) {
                ledger.recall_planned(node, start);
            }
        }
        Self {
            next,
            batches,
            clock: before.unwrap_or_else(|| Clock {
                now: start,
                pace,
                step: 0,
                events_upto: ledger.seq(),
                complete: true,
                ended: false,
                recording,
            }),
            waiting: Waiting::Time,
            end,
            resumed,
        }
    }

    /// The first messages.
    #[must_use]
    pub fn start(&mut self, ledger: &mut Ledger) -> Vec<Message> {
        match self.clock.pace {
            Pace::LockStep if self.resumed => self.resume(ledger),
            Pace::LockStep => self.advance(),
            Pace::Real | Pace::Scaled { .. } => vec![self.tick()],
        }
    }

    /// In lock step, resumes at the newest tick, whose step ends with its answer. Events that the
    /// tick covers and the ledger lacks, since the streams may have lost them, are published again.
    fn resume(&mut self, ledger: &mut Ledger) -> Vec<Message> {
        let Clock { now, complete, .. } = self.clock;
        let mut out = Vec::new();
        while let Some(batch) = self.batches.get(self.next) {
            if batch.at > now || (batch.at == now && !complete) {
                break;
            }
            out.extend(events(batch, ledger).into_iter().map(Message::Event));
            self.next += 1;
        }
        if complete {
            self.clock.events_upto = ledger.seq();
        }
        self.waiting = Waiting::Answer { complete };
        out.push(self.tick());
        out
    }

    /// The newest tick, for repetition.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn tick(&self) -> Message {
        Message::Tick(self.clock())
    }

    /// Whether the whole trace is published.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.waiting == Waiting::Nothing
    }

    /// Cluster time at which [`TraceSource::poll`] has messages; `None` in lock step and at the
    /// end.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        (self.waiting == Waiting::Time)
            .then(|| self.batches.get(self.next).map_or(self.end, |m| m.at))
    }

    /// Messages up to `now`, if the source runs by time. At most `limit` batches a call.
    pub fn poll(&mut self, now: Timestamp, limit: usize, ledger: &mut Ledger) -> Vec<Message> {
        let mut out = Vec::new();
        if self.waiting != Waiting::Time {
            return out;
        }
        for _ in 0..limit {
            match self.batches.get(self.next) {
                Some(batch) if batch.at <= now => {
                    out.extend(events(batch, ledger).into_iter().map(Message::Event));
                    self.next += 1;
                }
                Some(_) => return out,
                None => break,
            }
        }
        if self.next == self.batches.len() && now >= self.end {
            out.push(self.finish(ledger));
        }
        out
    }

    /// In lock step, the loop has settled. Returns the next messages. Answers to another tick than
    /// the present one are ignored.
    pub fn settled(&mut self, answer: &Settled, ledger: &mut Ledger) -> Vec<Message> {
        let Waiting::Answer { complete } = self.waiting else {
            return Vec::new();
        };
        if answer.step != self.clock.step || answer.complete != complete {
            return Vec::new();
        }
        if complete {
            return self.advance();
        }
        if self.clock.now >= self.end {
            self.clock.ended = true;
            self.waiting = Waiting::Nothing;
            return vec![self.tick()];
        }
        let mut out = Vec::new();
        if let Some(batch) = self.batches.get(self.next) {
            out.extend(events(batch, ledger).into_iter().map(Message::Event));
            self.next += 1;
        }
        self.clock.complete = true;
        self.clock.events_upto = ledger.seq();
        self.waiting = Waiting::Answer { complete: true };
        out.push(self.tick());
        out
    }

    /// The first tick of the next step; the last step is the end of the trace.
    fn advance(&mut self) -> Vec<Message> {
        self.clock.now = self.batches.get(self.next).map_or(self.end, |m| m.at);
        self.clock.step += 1;
        self.clock.complete = false;
        self.waiting = Waiting::Answer { complete: false };
        vec![self.tick()]
    }

    fn finish(&mut self, ledger: &Ledger) -> Message {
        self.clock.now = self.end;
        self.clock.step += 1;
        self.clock.events_upto = ledger.seq();
        self.clock.complete = true;
        self.clock.ended = true;
        self.waiting = Waiting::Nothing;
        self.tick()
    }
}

/// Planned starts that hold after these batches.
fn planned<'a>(batches: impl Iterator<Item = &'a EventBatch>) -> HashMap<&'a NodeId, Timestamp> {
    let mut planned = HashMap::new();
    for batch in batches {
        for node in &batch.closed {
            planned.remove(node);
        }
        for (node, start) in &batch.planned {
            match start {
                Some(start) => planned.insert(node, *start),
                None => planned.remove(node),
            };
        }
    }
    planned
}

/// Events of a batch that the ledger does not have yet: holes end, then holes open, then planned
/// starts change.
///
/// The planned start of a hole that ends is withdrawn, so that the next hole of the node does not
/// inherit it. A snapshot contains no planned start. A consumer that has missed one forecasts the
/// hole without it until the next change, which costs only efficiency.
fn events(batch: &EventBatch, ledger: &mut Ledger) -> Vec<NodeEvent> {
    let mut events = Vec::new();
    for node in &batch.closed {
        events.extend(ledger.close(node, batch.at));
        // After a restart, the next hole of the node may be known, with its planned start.
        if !ledger.is_idle(node) {
            events.extend(ledger.plan(node, None, batch.at));
        }
    }
    for hole in &batch.opened {
        events.extend(ledger.open(hole));
    }
    for (node, start) in &batch.planned {
        events.extend(ledger.plan(node, *start, batch.at));
    }
    events
}

#[cfg(test)]
mod tests {
    use lacuna_model::{EventKind, Hole, NodeId, Span};
    use lacuna_pool::UnknownNodes;

    use super::*;

    fn batch(at: i64, closed: &[&str], opened: &[(&str, i64)]) -> EventBatch {
        let node = |name: &str| NodeId::new(name).unwrap();
        EventBatch {
            at: Timestamp::from_unix(at),
            closed: closed.iter().map(|n| node(n)).collect(),
            opened: opened
                .iter()
                .map(|(n, since)| Hole {
                    node: node(n),
                    since: Timestamp::from_unix(*since),
                })
                .collect(),
            planned: Vec::new(),
        }
    }

    fn planned(mut batch: EventBatch, changes: &[(&str, Option<i64>)]) -> EventBatch {
        let changes = changes.iter().map(|(node, start)| {
            let start = start.map(Timestamp::from_unix);
            (NodeId::new(*node).unwrap(), start)
        });
        batch.planned = changes.collect();
        batch
    }

    fn recording() -> Vec<EventBatch> {
        vec![
            batch(100, &[], &[("a", 90), ("b", 100)]),
            batch(110, &["a"], &[("c", 110)]),
            // One hole of c ends and the next begins at the same moment.
            batch(120, &["c"], &[("c", 120)]),
        ]
    }

    fn ledger() -> Ledger {
        Ledger::new(0, UnknownNodes::Accept, 10, Span::from_secs(60))
    }

    /// The same trace with planned starts of `a` and `b`, of one hole of `c` and of the next.
    fn announced() -> Vec<EventBatch> {
        vec![
            planned(
                batch(100, &[], &[("a", 90), ("b", 100)]),
                &[("a", Some(109)), ("b", Some(150))],
            ),
            planned(batch(105, &[], &[]), &[("a", Some(108))]),
            planned(
                batch(110, &["a"], &[("c", 110)]),
                &[("b", None), ("c", Some(125))],
            ),
            planned(batch(120, &["c"], &[("c", 120)]), &[("c", Some(125))]),
        ]
    }

    fn trace(pace: Pace) -> Trace {
        trace_of(recording(), pace)
    }

    fn trace_of(batches: Vec<EventBatch>, pace: Pace) -> Trace {
        Trace {
            batches,
            end: END,
            pace,
            recording: "this".to_owned(),
        }
    }

    fn begin(
        pace: Pace,
        before: Option<Clock>,
        ledger: &mut Ledger,
    ) -> (TraceSource, Vec<Message>) {
        let mut source = TraceSource::begin(trace(pace), before, ledger);
        let out = source.start(ledger);
        (source, out)
    }

    fn texts(out: &[Message]) -> Vec<String> {
        out.iter()
            .map(|o| match o {
                Message::Event(e) => format!("{}: {} {:?}", e.seq, e.at.unix_seconds(), e.kind),
                Message::Tick(c) => format!(
                    "tick {} step {} upto {}{}{}",
                    c.now.unix_seconds(),
                    c.step,
                    c.events_upto,
                    if c.complete { " complete" } else { "" },
                    if c.ended { " ended" } else { "" }
                ),
            })
            .collect()
    }

    const END: Timestamp = Timestamp::from_unix(130);

    const STEPS: [&str; 14] = [
        "tick 100 step 1 upto 0",
        "1: 90 NodeIdle { node: \"a\" }",
        "2: 100 NodeIdle { node: \"b\" }",
        "tick 100 step 1 upto 2 complete",
        "tick 110 step 2 upto 2",
        "3: 110 NodeBusy { node: \"a\" }",
        "4: 110 NodeIdle { node: \"c\" }",
        "tick 110 step 2 upto 4 complete",
        "tick 120 step 3 upto 4",
        "5: 120 NodeBusy { node: \"c\" }",
        "6: 120 NodeIdle { node: \"c\" }",
        "tick 120 step 3 upto 6 complete",
        "tick 130 step 4 upto 6",
        "tick 130 step 4 upto 6 ended",
    ];

    fn answer(source: &TraceSource) -> Settled {
        let clock = source.clock();
        Settled {
            step: clock.step,
            complete: clock.complete,
        }
    }

    #[test]
    fn lock_step_ticks_twice_for_every_moment() {
        let mut ledger = ledger();
        let (mut source, mut out) = begin(Pace::LockStep, None, &mut ledger);
        while !source.ended() {
            let answer = answer(&source);
            let stale = Settled {
                step: answer.step + 1,
                ..answer
            };
            assert!(source.settled(&stale, &mut ledger).is_empty());
            out.extend(source.settled(&answer, &mut ledger));
        }
        assert_eq!(texts(&out), STEPS);
    }

    #[test]
    fn events_at_the_end_of_a_trace_in_lock_step_have_no_effect() {
        let mut ledger = ledger();
        let end = Timestamp::from_unix(120);
        let mut source = TraceSource::begin(
            Trace {
                end,
                ..trace(Pace::LockStep)
            },
            None,
            &mut ledger,
        );
        let mut out = source.start(&mut ledger);
        while !source.ended() {
            let answer = answer(&source);
            out.extend(source.settled(&answer, &mut ledger));
        }
        assert_eq!(texts(&out)[..9], STEPS[..9]);
        assert_eq!(texts(&out)[9..], ["tick 120 step 3 upto 4 ended"]);
    }

    #[test]
    fn a_restart_at_any_point_repeats_no_event() {
        // The process is killed after each message; afterwards only the sent messages are known.
        for kept in 1..STEPS.len() {
            let mut first = ledger();
            let (mut source, mut out) = begin(Pace::LockStep, None, &mut first);
            while out.len() < kept {
                let answer = answer(&source);
                out.extend(source.settled(&answer, &mut first));
            }
            out.truncate(kept);
            let mut second = ledger();
            let mut tick = None;
            for message in &out {
                match message {
                    Message::Event(event) => second.recall(event),
                    Message::Tick(clock) => tick = Some(clock.clone()),
                }
            }
            let (mut source, again) = begin(Pace::LockStep, tick.clone(), &mut second);
            // Only the newest tick is repeated.
            assert_eq!(again, vec![Message::Tick(tick.unwrap())], "kept {kept}");
            while !source.ended() {
                let answer = answer(&source);
                out.extend(source.settled(&answer, &mut second));
            }
            assert_eq!(texts(&out), STEPS, "kept {kept}");
        }
    }

    /// The messages of `announced`, in short form.
    const ANNOUNCED: [&str; 21] = [
        "tick 100 step 1 upto 0",
        "1 +a",
        "2 +b",
        "3 a:109",
        "4 b:150",
        "tick 100 step 1 upto 4 complete",
        "tick 105 step 2 upto 4",
        "5 a:108",
        "tick 105 step 2 upto 5 complete",
        "tick 110 step 3 upto 5",
        "6 -a",
        "7 a:none",
        "8 +c",
        "9 b:none",
        "10 c:125",
        "tick 110 step 3 upto 10 complete",
        "tick 120 step 4 upto 10",
        "11 -c",
        "12 c:none",
        "13 +c",
        "14 c:125",
    ];

    fn in_short(out: &[Message]) -> Vec<String> {
        let short = |out: &Message| match out {
            Message::Event(NodeEvent { seq, at, kind }) => match kind {
                EventKind::NodeIdle { node } => format!("{seq} +{node}"),
                EventKind::NodeBusy { node } => format!("{seq} -{node}"),
                EventKind::JobPlanned { job, nodes, start } => {
                    let node = job.strip_prefix("planned-").unwrap();
                    match nodes.as_slice() {
                        [] => {
                            assert_eq!(start, at);
                            format!("{seq} {node}:none")
                        }
                        [only] => {
                            assert_eq!(only.as_str(), node);
                            format!("{seq} {node}:{}", start.unix_seconds())
                        }
                        more => panic!("{more:?}"),
                    }
                }
                other => panic!("{other:?}"),
            },
            Message::Tick(_) => texts(std::slice::from_ref(out)).remove(0),
        };
        out.iter().map(short).collect()
    }

    #[test]
    fn planned_starts_follow_the_nodes_and_end_with_their_holes() {
        let mut ledger = ledger();
        let trace = trace_of(announced(), Pace::LockStep);
        let mut source = TraceSource::begin(trace.clone(), None, &mut ledger);
        let mut out = source.start(&mut ledger);
        while !source.ended() {
            let answer = answer(&source);
            out.extend(source.settled(&answer, &mut ledger));
        }
        assert_eq!(in_short(&out)[..21], ANNOUNCED);
        // By time, the same events follow without the ticks.
        let pace = Pace::Scaled {
            rate: 600.0,
            wall_at: Timestamp::from_unix(5),
        };
        let mut ledger = self::ledger();
        let mut source = TraceSource::begin(Trace { pace, ..trace }, None, &mut ledger);
        let played = source.poll(END, 99, &mut ledger);
        let events = |out: &[Message]| -> Vec<Message> {
            let events = out.iter().filter(|out| matches!(out, Message::Event(_)));
            events.cloned().collect()
        };
        assert_eq!(events(&played), events(&out));
    }

    #[test]
    fn a_restart_repeats_no_planned_start_even_behind_a_snapshot() {
        // The process is killed after each message, with a snapshot after each message before it.
        for (kept, last) in (1..=21).flat_map(|kept| (0..=kept).map(move |last| (kept, last))) {
            let trace = trace_of(announced(), Pace::LockStep);
            let mut first = ledger();
            let mut source = TraceSource::begin(trace.clone(), None, &mut first);
            let mut out = source.start(&mut first);
            while out.len() < kept {
                let answer = answer(&source);
                out.extend(source.settled(&answer, &mut first));
            }
            out.truncate(kept);
            let mut seen = ledger();
            for message in &out[..last] {
                if let Message::Event(event) = message {
                    seen.recall(event);
                }
            }
            let mut second = ledger();
            second.recall(&seen.snapshot(seen.newest_at()));
            let mut tick = None;
            for message in &out {
                match message {
                    Message::Event(event) if event.seq <= seen.seq() => second.recall_past(event),
                    Message::Event(event) => second.recall(event),
                    Message::Tick(clock) => tick = Some(clock.clone()),
                }
            }
            let mut source = TraceSource::begin(trace, tick.clone(), &mut second);
            let again = source.start(&mut second);
            assert_eq!(again, vec![Message::Tick(tick.unwrap())], "{kept} {last}");
            while !source.ended() {
                let answer = answer(&source);
                out.extend(source.settled(&answer, &mut second));
            }
            assert_eq!(in_short(&out)[..21], ANNOUNCED, "{kept} {last}");
        }
    }

    #[test]
    fn events_that_the_streams_lost_are_published_again() {
        let mut first = ledger();
        let (mut source, mut out) = begin(Pace::LockStep, None, &mut first);
        while out.len() < 8 {
            let answer = answer(&source);
            out.extend(source.settled(&answer, &mut first));
        }
        // The streams keep the tick of step 2, but not its events and the second event of step 1.
        let mut second = ledger();
        if let Message::Event(event) = &out[1] {
            second.recall(event);
        }
        let tick = Some(source.clock());
        let (_, again) = begin(Pace::LockStep, tick, &mut second);
        let expected = [STEPS[2], STEPS[5], STEPS[6], STEPS[7]];
        assert_eq!(texts(&again), expected);
    }

    #[test]
    fn by_time_all_that_is_due_comes_once_and_a_restart_catches_up() {
        let pace = Pace::Scaled {
            rate: 600.0,
            wall_at: Timestamp::from_unix(5),
        };
        let mut first = ledger();
        let (mut source, out) = begin(pace, None, &mut first);
        assert_eq!(texts(&out), ["tick 100 step 0 upto 0 complete"]);
        let tick = source.clock();
        assert_eq!(source.due(), Some(Timestamp::from_unix(100)));
        let now = Timestamp::from_unix(112);
        assert_eq!(source.poll(now, 99, &mut first).len(), 4);
        assert_eq!(source.due(), Some(Timestamp::from_unix(120)));
        assert!(source.poll(now, 99, &mut first).is_empty());

        let later = Pace::Scaled {
            rate: 600.0,
            wall_at: Timestamp::from_unix(77),
        };
        let (mut source, out) = begin(later, Some(tick.clone()), &mut first);
        assert_eq!(
            out,
            vec![Message::Tick(tick)],
            "time goes on without a jump"
        );
        let rest = source.poll(Timestamp::from_unix(131), 99, &mut first);
        assert_eq!(
            texts(&rest),
            [
                "5: 120 NodeBusy { node: \"c\" }",
                "6: 120 NodeIdle { node: \"c\" }",
                "tick 130 step 1 upto 6 complete ended"
            ]
        );
        assert!(source.ended() && source.due().is_none());
    }

    #[test]
    fn a_trace_that_has_ended_begins_again_and_numbers_go_on() {
        let mut ledger = ledger();
        let (mut source, _) = begin(Pace::LockStep, None, &mut ledger);
        while !source.ended() {
            let answer = answer(&source);
            source.settled(&answer, &mut ledger);
        }
        let old = source.clock();
        let (_, out) = begin(Pace::LockStep, Some(old), &mut ledger);
        assert_eq!(texts(&out), ["tick 100 step 1 upto 6"]);
        assert_eq!(ledger.idle(), 0);
    }

    #[test]
    fn a_tick_of_another_trace_is_not_resumed() {
        let mut ledger = ledger();
        let (mut source, _) = begin(Pace::LockStep, None, &mut ledger);
        for _ in 0..3 {
            let answer = answer(&source);
            source.settled(&answer, &mut ledger);
        }
        ledger.restart();
        let seq = ledger.seq();
        let other = Clock {
            recording: "other".to_owned(),
            ..source.clock()
        };
        let mut source = TraceSource::begin(trace(Pace::LockStep), Some(other), &mut ledger);
        let snapshot = ledger.snapshot(ledger.newest_at());
        assert_eq!(snapshot.seq, seq);
        assert_eq!(snapshot.at, Timestamp::from_unix(100));
        assert_eq!(snapshot.kind, EventKind::Snapshot { idle: vec![] });
        let texts = texts(&source.start(&mut ledger));
        assert_eq!(texts, [format!("tick 100 step 1 upto {seq}")]);
        assert_eq!(source.clock().recording, "this");
    }
}
