//! What agents say of their nodes.

use lacuna_model::{NodeId, Timestamp};

use super::Keeper;
use super::place::{Agent, Phase, Place};

impl Keeper {
    /// An agent has spoken.
    pub(super) fn agent(&mut self, node: &NodeId, leaving: bool, free: bool, now: Timestamp) {
        let place = self.places.entry(node.clone()).or_default();
        if leaving {
            place.agent = None;
            if let Some(pilot) = &mut place.pilot {
                pilot.left.get_or_insert(now);
                // One still being submitted is another than that whose agent has left.
                if matches!(pilot.phase, Phase::Pending | Phase::Running) {
                    pilot.phase = Phase::Ending;
                }
            }
            return;
        }
        let before = place.agent.and_then(|agent| agent.free_since);
        place.agent = Some(Agent {
            at: now,
            free_since: free.then(|| before.unwrap_or(now)),
        });
        if let Some(pilot) = &mut place.pilot {
            pilot.spoke = true;
            if pilot.phase == Phase::Pending {
                pilot.phase = Phase::Running;
            }
            if pilot.phase == Phase::Running {
                pilot.running_since.get_or_insert(now);
                place.waits = 0;
                if now.since(pilot.began) >= self.settings.young {
                    place.failures = 0;
                    place.quarantined = false;
                }
            }
        }
    }

    /// Whether an agent speaks at a place. While the bus is away it would not be heard.
    pub(super) fn agent_speaks(&self, place: &Place, now: Timestamp) -> bool {
        place.agent.is_some_and(|agent| {
            !self.linked || self.silence(agent, now) < self.settings.silent_after
        })
    }

    /// How long an agent could have spoken and did not.
    pub(super) fn silence(&self, agent: Agent, now: Timestamp) -> lacuna_model::Span {
        now.since(agent.at.max(self.linked_at))
    }
}
