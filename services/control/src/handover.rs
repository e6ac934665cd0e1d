//! The handover as batch jobs see it: the time from the signal that asks a pilot for its node to
//! the start of the job there.
//!
//! It contains what Lacuna takes (`lacuna_control_harm_seconds`) and what the main scheduler takes
//! itself to end a job and to begin another. The beginning is that of a prolog which publishes
//! `node.busy` (deploy/slurm), whose event's id is `<job>.<node>.node.busy.<time>`; a poll sees it
//! too late to be of use. No job waited for a node whose pilot control has cancelled itself. A
//! pilot whose time was up differs from a wanted one by [`LONGEST`] alone. A job on several nodes
//! waits for the last of them. The signal's time is by control's clock, the prolog's by its node's.

use std::collections::BTreeMap;

use lacuna_model::{AgentStatus, EventKind, NodeEvent, NodeId, Span, Timestamp};

/// A job that begins later than this after the signal has waited for something else: Slurm
/// kills what it preempts after 30 s (`KillWait`, its default), and has then to begin the job.
const LONGEST: Span = Span::from_secs(35);
/// A pilot that ends within this time after its cancellation ends because of it.
const CANCELLED: Span = Span::from_secs(60);
/// A job is complete this long after the newest beginning on one of its nodes.
const TOGETHER: Span = Span::from_secs(5);

/// Nodes that pilots have left, and jobs that have begun on them.
#[derive(Debug, Default)]
pub(crate) struct Handovers {
    /// When each node was asked for.
    requested: BTreeMap<NodeId, Timestamp>,
    /// When control itself cancelled the pilot of each node.
    cancelled: BTreeMap<NodeId, Timestamp>,
    /// Of each job, the longest time of its nodes so far, and when the last of them began.
    jobs: BTreeMap<String, (Span, Timestamp)>,
}

impl Handovers {
    /// The pilot on a node is cancelled, because Lacuna does not need it there.
    pub(crate) fn cancelled(&mut self, node: NodeId, now: Timestamp) {
        self.cancelled.insert(node, now);
    }

    /// An agent's status of `now`.
    pub(crate) fn status(&mut self, status: &AgentStatus, now: Timestamp) {
        if let Some(took) = status.gave_back_in {
            let cancelled = self.cancelled.remove(&status.node);
            if cancelled.is_none_or(|at| now.since(at) > CANCELLED) {
                self.requested.insert(status.node.clone(), now - took);
            }
        } else if !status.leaving {
            self.requested.remove(&status.node);
        }
    }

    /// An event; `id` is the one that its publisher gave it.
    pub(crate) fn event(&mut self, event: &NodeEvent, id: &str) {
        let EventKind::NodeBusy { node } = &event.kind else {
            return;
        };
        let Some((job, _)) = id.split_once(&format!(".{node}.node.busy.")) else {
            return;
        };
        let Some(requested) = self.requested.remove(node) else {
            return;
        };
        let took = event.at.since(requested).max(Span::ZERO);
        if took <= LONGEST {
            let (longest, newest) = self.jobs.entry(job.to_owned()).or_insert((took, event.at));
            *longest = took.max(*longest);
            *newest = event.at.max(*newest);
        }
    }

    /// The waits of the jobs that have begun on all their nodes by `now`.
    pub(crate) fn complete(&mut self, now: Timestamp) -> Vec<Span> {
        let mut complete = Vec::new();
        self.jobs.retain(|_, (longest, newest)| {
            let waits = now.since(*newest) < TOGETHER;
            if !waits {
                complete.push(*longest);
            }
            waits
        });
        complete
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn node(n: usize) -> NodeId {
        lacuna_testkit::node(&format!("n{n}.hall"))
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(1_700_000_000_000 + ms)
    }

    fn busy(n: usize, ms: i64) -> NodeEvent {
        NodeEvent {
            seq: 0,
            at: at(ms),
            kind: EventKind::NodeBusy { node: node(n) },
        }
    }

    fn status(n: usize, leaving: bool, took: Option<i64>) -> AgentStatus {
        AgentStatus {
            leaving,
            gave_back_in: took.map(Span::from_ms),
            ..lacuna_testkit::status(node(n).as_str())
        }
    }

    #[test]
    fn a_job_waits_for_the_last_of_its_nodes() {
        let mut handovers = Handovers::default();
        for (n, took) in [(1, 30), (2, 40), (3, 5)] {
            handovers.status(&status(n, true, None), at(90));
            handovers.status(&status(n, true, Some(took)), at(100));
        }
        // Asked at 70 and 60.
        for (n, ms) in [(1, 170), (2, 190)] {
            let id = format!("17.{}.node.busy.1700000000.170", node(n));
            handovers.event(&busy(n, ms), &id);
        }
        // An event of a poll or of another tool is no beginning.
        handovers.event(&busy(3, 180), "snapshot-7");
        assert_eq!(handovers.complete(at(3000)), []);
        assert_eq!(handovers.complete(at(6000)), [Span::from_ms(130)]);
        assert_eq!(handovers.complete(at(9000)), []);
    }

    #[test]
    fn nodes_that_no_job_waited_for_are_not_counted() {
        let mut handovers = Handovers::default();
        let id = |n| format!("18.{}.node.busy.1", node(n));
        handovers.event(&busy(1, 0), &id(1));
        // Another pilot came before the job.
        handovers.status(&status(2, true, Some(9)), at(10));
        handovers.status(&status(2, false, None), at(20));
        handovers.event(&busy(2, 30), &id(2));
        // The job waited for its time to come, not for the node.
        handovers.status(&status(3, true, Some(9)), at(10));
        handovers.event(&busy(3, 40_000), &id(3));
        // Control did not need the pilot.
        handovers.cancelled(node(4), at(0));
        handovers.status(&status(4, false, None), at(5));
        handovers.status(&status(4, true, None), at(8));
        handovers.status(&status(4, true, Some(9)), at(10));
        handovers.event(&busy(4, 30), &id(4));
        assert_eq!(handovers.complete(at(900_000)), []);
    }

    #[test]
    fn a_cancellation_without_effect_is_forgotten() {
        let mut handovers = Handovers::default();
        handovers.cancelled(node(1), at(0));
        handovers.status(&status(1, true, Some(9)), at(61_000));
        let id = format!("19.{}.node.busy.1", node(1));
        handovers.event(&busy(1, 61_021), &id);
        // So is one that has had its effect.
        handovers.cancelled(node(2), at(70_000));
        handovers.status(&status(2, true, Some(9)), at(70_010));
        handovers.status(&status(2, false, None), at(80_000));
        handovers.status(&status(2, true, Some(9)), at(90_009));
        let id = format!("20.{}.node.busy.1", node(2));
        handovers.event(&busy(2, 90_020), &id);
        let waited = [Span::from_ms(30), Span::from_ms(20)];
        assert_eq!(handovers.complete(at(900_000)), waited);
    }
}
