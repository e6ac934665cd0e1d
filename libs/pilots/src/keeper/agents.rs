//! Reports of agents.

use lacuna_model::{NodeId, Timestamp, TrainerId};

use super::Keeper;
use super::node::{Agent, NodeRecord, Phase};

impl Keeper {
    /// An agent has reported.
    pub(super) fn agent(
        &mut self,
        node: &NodeId,
        (leaving, free): (bool, bool),
        serves: Option<TrainerId>,
        now: Timestamp,
    ) {
        let record = self.nodes.entry(node.clone()).or_default();
        if let (Some(pilot), Some(_)) = (&record.pilot, &serves)
            && pilot.is_submitted()
            && pilot.serves.is_some()
            && pilot.serves != serves
        {
            // The agent of an earlier pilot, whose trainer was another.
            record.agent = record.agent.filter(|_| pilot.spoke || !leaving);
            return;
        }
        if leaving {
            record.agent = None;
            record.over = None;
            if let Some(pilot) = &mut record.pilot {
                pilot.left.get_or_insert(now);
                // A pilot that is being submitted is another than the pilot of that agent.
                if matches!(pilot.phase, Phase::Pending | Phase::Running) {
                    pilot.phase = Phase::Ending;
                }
            }
            return;
        }
        let before = record.agent.and_then(|agent| agent.free_since);
        record.agent = Some(Agent {
            at: now,
            free_since: free.then(|| before.unwrap_or(now)),
        });
        if let Some(pilot) = &mut record.pilot {
            pilot.spoke = true;
            pilot.serves = serves.or(pilot.serves.take());
            if pilot.phase == Phase::Pending {
                pilot.phase = Phase::Running;
            }
            if pilot.phase == Phase::Running {
                pilot.running_since.get_or_insert(now);
                record.waits = 0;
                if now.since(pilot.began) >= self.settings.young {
                    record.failures = 0;
                    record.quarantined = false;
                }
            }
        }
    }

    /// Whether a node has an agent that reports. Without the bus, no report arrives.
    pub(super) fn agent_speaks(&self, record: &NodeRecord, now: Timestamp) -> bool {
        record.agent.is_some_and(|agent| {
            !self.linked || self.silence(agent, now) < self.settings.silent_after
        })
    }

    /// Time since the newest report of an agent, while the bus was connected.
    pub(super) fn silence(&self, agent: Agent, now: Timestamp) -> lacuna_model::Span {
        now.since(agent.at.max(self.linked_at))
    }
}
