//! From messages to inputs of the controller.

use std::collections::BTreeMap;

use lacuna_model::{EventKind, Hole, NodeEvent, NodeId, Timestamp};
use lacuna_pool::{Change, PoolKeeper, UnknownNodes};
use lacuna_trainer::controller::{Input, Taken, Tick};
use lacuna_wire::msg::{Clock, Pace};

/// Keeps the pool from events and returns its changes as inputs of the controller.
#[derive(Debug)]
pub(crate) struct Feed {
    keeper: PoolKeeper,
    /// Whether the controller knows the pool.
    begun: bool,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            keeper: PoolKeeper::new(UnknownNodes::Accept),
            begun: false,
        }
    }

    /// The inputs from a batch of events. Changes of one moment go together, so that several
    /// nodes lost at once are one loss. With each event comes when the bus took it.
    pub(crate) fn events<'e>(
        &mut self,
        events: impl IntoIterator<Item = (&'e NodeEvent, Option<Timestamp>)>,
    ) -> Vec<Input> {
        let mut inputs = Vec::new();
        let mut moment = Moment::default();
        for (event, kept) in events {
            let changes = self.keeper.step_kept(event, kept);
            if moment.at != Some(event.at) {
                inputs.extend(moment.take(self.keeper.seq()));
                moment.at = Some(event.at);
            }
            for change in changes.list {
                moment.add(change, taken(&event.kind));
            }
            moment.seq = self.keeper.seq();
        }
        inputs.extend(moment.take(self.keeper.seq()));
        if self.begun {
            return inputs;
        }
        if self.keeper.sync() == lacuna_pool::Sync::Fresh {
            // The first full view of the pool.
            self.begun = true;
            return vec![Input::Snapshot {
                seq: self.keeper.seq(),
                at: self.keeper.newest_at(),
                idle: self.keeper.holes(),
            }];
        }
        Vec::new()
    }
}

/// The changes of one moment, netted for each node.
#[derive(Debug, Default)]
struct Moment {
    at: Option<Timestamp>,
    seq: u64,
    opened: BTreeMap<NodeId, Hole>,
    closed: BTreeMap<NodeId, Taken>,
}

impl Moment {
    fn add(&mut self, change: Change, taken: Taken) {
        match change {
            Change::Opened { hole, .. } => {
                self.opened.insert(hole.node.clone(), hole);
            }
            Change::Closed { hole, .. } => {
                self.opened.remove(&hole.node);
                self.closed.insert(hole.node, taken);
            }
        }
    }

    /// The input, even if nothing has changed: the controller must know how far events are read.
    fn take(&mut self, seq: u64) -> Option<Input> {
        let at = self.at.take()?;
        let opened = std::mem::take(&mut self.opened);
        Some(Input::Pool {
            seq: self.seq.min(seq),
            at,
            opened: opened.into_values().collect(),
            closed: std::mem::take(&mut self.closed).into_iter().collect(),
        })
    }
}

/// How an event that closes holes takes their nodes.
fn taken(kind: &EventKind) -> Taken {
    match kind {
        EventKind::NodeDown { .. } => Taken::Down,
        EventKind::NodeWanted { deadline, .. } => Taken::Wanted {
            deadline: *deadline,
        },
        EventKind::NodeBusy { .. }
        | EventKind::NodeIdle { .. }
        | EventKind::NodeReleased { .. }
        | EventKind::JobPlanned { .. }
        | EventKind::Reservation { .. }
        | EventKind::Snapshot { .. } => Taken::Busy,
    }
}

/// A tick as an input of the controller.
pub(crate) fn tick(clock: &Clock) -> Input {
    Input::Clock(Tick {
        now: clock.now,
        step: clock.step,
        events_upto: clock.events_upto,
        complete: clock.complete,
        lock_step: clock.pace == Pace::LockStep,
        is_wall: clock.pace == Pace::Real,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_full_view_is_a_snapshot_and_moments_are_netted() {
        let events = lacuna_testkit::events(1, &[("idle", "n1"), ("idle", "n2")]);
        let mut feed = Feed::new();
        let inputs = feed.events(events.iter().map(|event| (event, None)));
        assert!(
            matches!(&inputs[..], [Input::Snapshot { seq: 2, idle, .. }] if idle.len() == 2),
            "{inputs:?}"
        );
        let mut more = lacuna_testkit::events(
            3,
            &[
                ("busy", "n1"),
                ("idle", "n3"),
                ("busy", "n3"),
                ("idle", "n1"),
            ],
        );
        for event in &mut more {
            event.at = Timestamp::from_unix(500_000_000_000);
        }
        let inputs = feed.events(more.iter().map(|event| (event, None)));
        let [
            Input::Pool {
                seq: 6,
                opened,
                closed,
                ..
            },
        ] = &inputs[..]
        else {
            panic!("{inputs:?}");
        };
        // n1 was away in between; n3 came and went.
        let names = |nodes: Vec<&NodeId>| nodes.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(opened.iter().map(|h| &h.node).collect()), ["n1"]);
        assert_eq!(
            names(closed.iter().map(|(node, _)| node).collect()),
            ["n1", "n3"]
        );
    }
}
