//! What batch jobs see: the time from the signal that asks a pilot for its node to the moment
//! at which the job begins there.
//!
//! It holds what Lacuna takes (`lacuna_control_harm_seconds`) and what the main scheduler takes
//! itself to end a job and to begin another. The beginning is that of a prolog which publishes
//! `node.busy` (deploy/slurm), whose event's id is `<job>.<node>.node.busy.<time>`; a poll sees it
//! too late to be of use. Nobody waited for a node whose pilot control has cancelled itself; a
//! pilot whose time was up is not told apart, but for [`LONGEST`]. A job on several nodes waits for the last of them. The signal's moment is
//! by control's clock, the prolog's by its node's.

use std::collections::BTreeMap;

use lacuna_model::{AgentStatus, EventKind, NodeEvent, NodeId, Span, Timestamp};

/// A job that begins later than so long after the signal has waited for something else: Slurm
/// kills what it preempts after 30 s (`KillWait`, its default), and has then to begin the job.
const LONGEST: Span = Span::from_secs(35);
/// A pilot that ends so long after it was cancelled ends because of that.
const CANCELLED: Span = Span::from_secs(60);
/// All nodes of a job have said that it begins so long after the last of them.
const TOGETHER: Span = Span::from_secs(5);

/// Nodes that pilots have left, and jobs that have begun on them.
#[derive(Debug, Default)]
pub(crate) struct Handovers {
    /// When each node was asked for.
    asked: BTreeMap<NodeId, Timestamp>,
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

    /// An agent has spoken at `now`.
    pub(crate) fn spoke(&mut self, status: &AgentStatus, now: Timestamp) {
        if let Some(took) = status.gave_back_in {
            let cancelled = self.cancelled.remove(&status.node);
            if cancelled.is_none_or(|at| now.since(at) > CANCELLED) {
                self.asked.insert(status.node.clone(), now - took);
            }
        } else if !status.leaving {
            self.asked.remove(&status.node);
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
        let Some(asked) = self.asked.remove(node) else {
            return;
        };
        let took = event.at.since(asked).max(Span::ZERO);
        if took <= LONGEST {
            let (longest, newest) = self.jobs.entry(job.to_owned()).or_insert((took, event.at));
            *longest = took.max(*longest);
            *newest = event.at.max(*newest);
        }
    }

    /// What the jobs have waited that have begun on all their nodes by `now`.
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
    use lacuna_model::{Activity, Epoch};

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

    fn words(n: usize, leaving: bool, took: Option<i64>) -> AgentStatus {
        AgentStatus {
            node: node(n),
            epoch: Epoch(0),
            seq: 0,
            activity: Activity::Free,
            released: None,
            leaving,
            gave_back_in: took.map(Span::from_ms),
            broken: None,
            terms: None,
        }
    }

    #[test]
    fn a_job_waits_for_the_last_of_its_nodes() {
        let mut handovers = Handovers::default();
        for (n, took) in [(1, 30), (2, 40), (3, 5)] {
            handovers.spoke(&words(n, true, None), at(90));
            handovers.spoke(&words(n, true, Some(took)), at(100));
        }
        // Asked at 70 and 60.
        for (n, ms) in [(1, 170), (2, 190)] {
            let id = format!("17.{}.node.busy.1700000000.170", node(n));
            handovers.event(&busy(n, ms), &id);
        }
        // What a poll finds, or another tool publishes, is no beginning.
        handovers.event(&busy(3, 180), "snapshot-7");
        assert_eq!(handovers.complete(at(3000)), []);
        assert_eq!(handovers.complete(at(6000)), [Span::from_ms(130)]);
        assert_eq!(handovers.complete(at(9000)), []);
    }

    #[test]
    fn nodes_that_nobody_waited_for_are_not_counted() {
        let mut handovers = Handovers::default();
        let id = |n| format!("18.{}.node.busy.1", node(n));
        handovers.event(&busy(1, 0), &id(1));
        // Another pilot came before the job.
        handovers.spoke(&words(2, true, Some(9)), at(10));
        handovers.spoke(&words(2, false, None), at(20));
        handovers.event(&busy(2, 30), &id(2));
        // It waited for its time to come, not for the node.
        handovers.spoke(&words(3, true, Some(9)), at(10));
        handovers.event(&busy(3, 40_000), &id(3));
        // Control did not need the pilot.
        handovers.cancelled(node(4), at(0));
        handovers.spoke(&words(4, false, None), at(5));
        handovers.spoke(&words(4, true, None), at(8));
        handovers.spoke(&words(4, true, Some(9)), at(10));
        handovers.event(&busy(4, 30), &id(4));
        assert_eq!(handovers.complete(at(900_000)), []);
    }

    #[test]
    fn a_cancellation_that_reached_nobody_is_forgotten() {
        let mut handovers = Handovers::default();
        handovers.cancelled(node(1), at(0));
        handovers.spoke(&words(1, true, Some(9)), at(61_000));
        let id = format!("19.{}.node.busy.1", node(1));
        handovers.event(&busy(1, 61_021), &id);
        // So is one that has had its effect.
        handovers.cancelled(node(2), at(70_000));
        handovers.spoke(&words(2, true, Some(9)), at(70_010));
        handovers.spoke(&words(2, false, None), at(80_000));
        handovers.spoke(&words(2, true, Some(9)), at(90_009));
        let id = format!("20.{}.node.busy.1", node(2));
        handovers.event(&busy(2, 90_020), &id);
        let waited = [Span::from_ms(30), Span::from_ms(20)];
        assert_eq!(handovers.complete(at(900_000)), waited);
    }
}
