//! Nodes: the state of each by the pool, the bucket of leases, its agent and the operator's lists.
//!
//! Invariants:
//! - The numbers of nodes in the pool and under a lease are those of the nodes.
//! - A node is *unacknowledged* only if a command was sent to it, *releasing* only if its release
//!   is open, and *unwritten* only if a write is under way.
//! - A known node is never forgotten: it keeps its epoch and the failures of programs there.

mod agent;
mod demand;
mod failures;
mod lease;
mod on_demand;
#[cfg(test)]
mod tests;
mod trouble;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{
    Action, Activity, AgentStatus, AgentTerms, Blame, Command, Epoch, Hole, KindName, NodeId,
    NodeKinds, Span, Timestamp, TrainerId, WithheldBy,
};

use crate::Now;
use crate::agent::LEASE_TIMEOUT;
use crate::controller::{ControllerConfig, LeaseResult, LeaseWrite, Taken};

pub(crate) use agent::AgentView;
pub(crate) use failures::Failures;
pub(crate) use lease::{Lease, Written};

use demand::Demand;
use on_demand::Silence;

/// One node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Node {
    /// Since when it is a hole.
    idle_since: Option<Timestamp>,
    /// Whether a scheduler has named it, or it has had a lease, since control's start.
    is_named: bool,
    lease: Lease,
    agent: AgentView,
    failures: Failures,
    demand: Demand,
    /// Whether it left the pool as down or drained.
    is_down: bool,
    /// Whether the operator's lists leave it out, once that was looked up.
    barred: Option<Option<WithheldBy>>,
    /// Why it is not to be used, if the operator wants it so.
    withheld: Option<WithheldBy>,
}

impl Node {
    /// Since when it is a hole, if it is one.
    pub(crate) const fn idle_since(&self) -> Option<Timestamp> {
        self.idle_since
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.idle_since.is_some()
    }

    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) const fn agent(&self) -> &AgentView {
        &self.agent
    }

    pub(crate) const fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Whether it left the pool because it is down, or drained by the main scheduler.
    pub(crate) const fn is_down(&self) -> bool {
        self.is_down
    }

    pub(crate) const fn withheld(&self) -> Option<WithheldBy> {
        self.withheld
    }

    /// The reason if the operator's lists bar the node; `None` also before the lists are looked up.
    pub(crate) fn barred(&self) -> Option<WithheldBy> {
        self.barred.flatten()
    }

    /// Whether it could be used, if the operator did not withhold it.
    pub(crate) const fn is_sound(&self) -> bool {
        !self.agent.is_silent() && !self.lease.is_overdue() && !self.failures.is_quarantined()
    }

    /// Whether a trainer may be given it, now or once it is free.
    pub(crate) const fn is_usable(&self) -> bool {
        self.is_sound() && self.withheld.is_none()
    }

    /// Whether it can be given to a trainer at once.
    pub(crate) const fn is_ready(&self) -> bool {
        self.is_idle() && self.lease.is_free() && self.is_usable()
    }

    /// Whether its program waits, under the present lease, to be taken into an incarnation of
    /// the trainer.
    pub(crate) fn is_ready_for(&self, trainer: &TrainerId) -> bool {
        self.agent.is_ready_for(trainer, self.lease.epoch())
    }

    /// Whether its agent was commanded, under the present lease, to start the program.
    pub(crate) fn is_preparing(&self) -> bool {
        self.agent.is_preparing(self.lease.epoch())
    }
}

/// How a hole closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed {
    /// Whether a trainer held the node.
    pub(crate) was_held: bool,
    /// Whether the main scheduler is to be answered at once, since nothing of ours runs there.
    pub(crate) is_free: bool,
}

/// Changes by a status.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heard {
    /// Whether the agent had been silent.
    pub(crate) was_silent: bool,
    /// Whether no agent was there before, or one that served another trainer.
    pub(crate) is_new: bool,
    /// Its terms, if they have changed and are longer than those of control's configuration.
    pub(crate) longer_terms: Option<AgentTerms>,
    /// Whether it has obeyed the newest command.
    pub(crate) has_acknowledged: bool,
    /// The lease at the start of control under which it has held nothing.
    pub(crate) not_held: Option<NotHeld>,
}

/// A trainer that did not have one of its nodes in the time without control: the node's agent has started
/// again with nothing on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotHeld {
    pub(crate) trainer: TrainerId,
    /// Whether that is so of all its nodes now.
    pub(crate) is_last: bool,
}

/// A release that an agent has confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freed {
    /// Real time since the release.
    pub(crate) after: Span,
    /// Whether the node had been unusable for want of the confirmation.
    pub(crate) was_overdue: bool,
    /// Whether the main scheduler waits for an answer.
    pub(crate) is_wanted: bool,
}

/// The report of an agent that it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastWords {
    /// Whether they are the first.
    pub(crate) first: bool,
    /// The cause under which its leaving is counted.
    pub(crate) cause: &'static str,
}

/// Timeouts that have passed.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    /// Nodes that may be used again, with agents on demand.
    pub(crate) usable: Vec<NodeId>,
    /// Nodes that have become unusable, and why.
    pub(crate) unusable: Vec<(NodeId, &'static str)>,
    /// Releases that are no longer waited for.
    pub(crate) unheard: Vec<NodeId>,
    /// Nodes under a lease whose agents have become silent.
    pub(crate) lost: Vec<NodeId>,
    /// Nodes under a lease on which no agent has spoken so far.
    pub(crate) missing: Vec<NodeId>,
}

/// Nodes in the pool, and those of them under a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    pub(crate) in_pool: u32,
    pub(crate) harvested: u32,
}

impl Count {
    const fn add(&mut self, in_pool: i32, harvested: i32) {
        self.in_pool = self.in_pool.saturating_add_signed(in_pool);
        self.harvested = self.harvested.saturating_add_signed(harvested);
    }
}

/// The count of all nodes, and of those of each kind.
pub(crate) type Counts = (Count, BTreeMap<KindName, Count>);

/// All nodes that were ever in the pool or under a lease.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    by_id: BTreeMap<NodeId, Node>,
    count: Count,
    leased: u32,
    /// The kinds of nodes, if there are two at least.
    kinds: NodeKinds,
    /// The count of each kind.
    of_kinds: BTreeMap<KindName, Count>,
    /// Nodes with a command without acknowledgement.
    unacknowledged: BTreeSet<NodeId>,
    /// Nodes with a release that is waited for.
    releasing: BTreeSet<NodeId>,
    /// Nodes with a write of which the outcome is unknown.
    unwritten: BTreeSet<NodeId>,
    /// Nodes that are closed to an owner at least.
    closed: BTreeSet<NodeId>,
    /// Nodes given back after a start of control, before the pool was known.
    returned: BTreeSet<NodeId>,
    /// Trainers of nodes that were under a lease when control started, and held until then as far as is
    /// known.
    before: BTreeMap<NodeId, TrainerId>,
}

/// A node that keeps several trainers waiting.
#[derive(Debug)]
pub(crate) struct SlowNode {
    pub(crate) node: NodeId,
    pub(crate) trainers: Vec<TrainerId>,
    /// The owners to whom it is closed, and for how long.
    pub(crate) closed: Vec<(String, Span)>,
}

impl Nodes {
    pub(crate) fn get(&self, id: &NodeId) -> Option<&Node> {
        self.by_id.get(id)
    }

    /// All nodes, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NodeId, &Node)> {
        self.by_id.iter()
    }

    /// Nodes in the pool.
    pub(crate) const fn in_pool(&self) -> u32 {
        self.count.in_pool
    }

    /// Nodes under a lease.
    pub(crate) const fn leased(&self) -> u32 {
        self.leased
    }

    /// Nodes in the pool, and those of them under a lease.
    pub(crate) const fn count(&self) -> Count {
        self.count
    }

    /// The same of each kind; empty where fewer than two kinds are known.
    pub(crate) const fn count_of_kinds(&self) -> &BTreeMap<KindName, Count> {
        &self.of_kinds
    }

    /// The kind of a node, where two kinds at least are known.
    pub(crate) fn kind(&self, id: &NodeId) -> Option<&KindName> {
        self.kinds.of(id)
    }

    /// Takes the kinds of nodes, and counts them.
    pub(crate) fn tell_kinds(&mut self, kinds: &NodeKinds) {
        let tells_apart = kinds.names().len() > 1;
        self.kinds = if tells_apart {
            kinds.clone()
        } else {
            NodeKinds::default()
        };
        self.of_kinds.clear();
        for (id, node) in self.by_id.iter().filter(|(_, node)| node.is_idle()) {
            if let Some(kind) = self.kinds.of(id) {
                let held = i32::from(node.lease.owner().is_some());
                self.of_kinds.entry(kind.clone()).or_default().add(1, held);
            }
        }
    }

    /// Keeps count of a node that enters or leaves the pool, or a lease there.
    fn recount(&mut self, id: &NodeId, in_pool: i32, harvested: i32) {
        self.count.add(in_pool, harvested);
        if let Some(kind) = self.kinds.of(id) {
            let count = self.of_kinds.entry(kind.clone()).or_default();
            count.add(in_pool, harvested);
        }
    }

    /// Nodes with a command without acknowledgement.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.unacknowledged.len()
    }

    /// Whether all commands are acknowledged, all writes known and all releases confirmed.
    pub(crate) fn are_settled(&self) -> bool {
        self.unacknowledged.is_empty() && self.releasing.is_empty() && self.unwritten.is_empty()
    }

    /// The trainer that has a node's lease.
    pub(crate) fn owner(&self, id: &NodeId) -> Option<&TrainerId> {
        self.get(id).and_then(|node| node.lease.owner())
    }

    /// Nodes with the youngest holes first, then by name.
    pub(crate) fn by_age(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut nodes = nodes.to_vec();
        nodes.sort_by_cached_key(|id| {
            let since = self.get(id).and_then(Node::idle_since);
            (Reverse(since), id.clone())
        });
        nodes
    }

    fn node(&mut self, id: &NodeId) -> &mut Node {
        self.by_id.entry(id.clone()).or_default()
    }
}

/// The pool.
impl Nodes {
    /// A hole has opened. With `require_agents`, a node on which no agent has ever spoken counts as
    /// silent.
    pub(crate) fn open(&mut self, hole: Hole, config: &ControllerConfig) {
        let node = self.by_id.entry(hole.node.clone()).or_default();
        if config.on_demand.is_some() {
            if node.idle_since.is_none() && node.agent.has_left() {
                node.agent.await_next();
            }
        } else if config.control.require_agents && !node.agent.is_known() {
            node.agent.silence();
        }
        node.is_named = true;
        node.is_down = false;
        node.demand.none();
        if node.idle_since.replace(hole.since).is_none() {
            let held = i32::from(node.lease.owner().is_some());
            self.recount(&hole.node, 1, held);
        }
    }

    /// A hole has closed. Nothing is returned of a node that was never known.
    pub(crate) fn close(&mut self, id: &NodeId, taken: Taken, now: Now) -> Option<Closed> {
        let node = self.by_id.get_mut(id)?;
        node.is_named = true;
        node.is_down = taken == Taken::Down;
        let was_held = node.lease.owner().is_some();
        let was_idle = node.idle_since.take().is_some();
        let mut is_free = false;
        if was_held || self.releasing.contains(id) {
            node.demand.ask(taken, now);
        } else {
            node.demand.owe(false);
            is_free = node.lease.is_released() || matches!(taken, Taken::Wanted { .. });
        }
        if was_idle {
            self.recount(id, -1, -i32::from(was_held));
        }
        Some(Closed { was_held, is_free })
    }

    /// Nodes that are not among these holes, and that the pool or a lease still has.
    pub(crate) fn beside(&self, holes: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let nodes = self.iter().filter(|(id, _)| !holes.contains(*id));
        let nodes = nodes.filter(|(_, node)| node.is_idle() || node.lease.owner().is_some());
        nodes.map(|(id, _)| id.clone()).collect()
    }

    /// The counts with these holes, before the pool is known: in the time without control, and since
    /// control has started. Nodes under a lease were in the pool.
    pub(crate) fn counts_with(&self, holes: &BTreeSet<NodeId>) -> [Counts; 2] {
        let leased = self.by_id.iter();
        let leased = leased.filter(|(_, node)| node.lease.owner().is_some());
        [
            self.counts_of(self.before.keys().collect(), holes),
            self.counts_of(leased.map(|(id, _)| id).collect(), holes),
        ]
    }

    fn counts_of(&self, leased: BTreeSet<&NodeId>, holes: &BTreeSet<NodeId>) -> Counts {
        let (mut all, mut of_kinds) = (Count::default(), BTreeMap::<_, Count>::new());
        for id in leased.iter().copied().chain(holes).collect::<BTreeSet<_>>() {
            let held = i32::from(leased.contains(id));
            all.add(1, held);
            if let Some(kind) = self.kinds.of(id) {
                of_kinds.entry(kind.clone()).or_default().add(1, held);
            }
        }
        (all, of_kinds)
    }

    /// A node was given back before the pool was known.
    pub(crate) fn returned_early(&mut self, id: &NodeId) {
        self.returned.insert(id.clone());
    }

    /// The pool has become known. A node that was released before and is no hole may have been
    /// wanted: the main scheduler is answered for each that it has, perhaps a second time.
    /// Returns those to be answered at once. The beginning of the wait is unknown, so no harm is
    /// counted.
    pub(crate) fn owe_answers(&mut self, holes: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let mut returned = std::mem::take(&mut self.returned);
        for (id, node) in &mut self.by_id {
            if !node.lease.is_released() || holes.contains(id) {
                continue;
            }
            if self.releasing.contains(id) {
                node.demand.owe(true);
            } else {
                returned.insert(id.clone());
            }
        }
        returned.retain(|id| !holes.contains(id));
        returned.into_iter().collect()
    }
}

/// Leases.
impl Nodes {
    /// Takes a lease up as the bucket has it. A node without an owner was released before, and is
    /// waited for.
    pub(crate) fn restore(
        &mut self,
        id: &NodeId,
        owner: Option<TrainerId>,
        epoch: Epoch,
        config: &ControllerConfig,
        now: Now,
    ) {
        let is_free = owner.is_none();
        if let Some(owner) = &owner {
            self.before.insert(id.clone(), owner.clone());
        }
        self.count_lease(id, is_free);
        let node = self.node(id);
        node.is_named = true;
        node.lease.restore(owner, epoch);
        node.lease.used();
        node.agent.listen(now);
        if is_free {
            node.lease.set_reason("released before control started");
            let _ = node.lease.open_release(now, config.safe_after());
            self.releasing.insert(id.clone());
        }
    }

    /// Keeps count of leases, before the owner of one changes.
    fn count_lease(&mut self, id: &NodeId, becomes_free: bool) {
        let was_free = self.owner(id).is_none();
        let in_pool = i32::from(self.get(id).is_some_and(Node::is_idle));
        match (was_free, becomes_free) {
            (true, false) => {
                self.leased += 1;
                self.recount(id, 0, in_pool);
            }
            (false, true) => {
                self.leased = self.leased.saturating_sub(1);
                self.recount(id, 0, -in_pool);
            }
            _ => {}
        }
    }

    /// Asks for the lease of a node for a trainer. The node must be ready.
    pub(crate) fn grant(&mut self, id: &NodeId, trainer: &TrainerId) -> LeaseWrite {
        self.node(id).lease.grant(id, trainer)
    }

    /// Takes the lease of a node back, if a trainer holds it and no write is under way. `ended`
    /// is the moment up to which the owner's incarnation counts.
    pub(crate) fn release(
        &mut self,
        id: &NodeId,
        reason: &str,
        ended: impl FnOnce(&TrainerId) -> Option<Timestamp>,
    ) -> Option<LeaseWrite> {
        let lease = &mut self.by_id.get_mut(id)?.lease;
        let owner = lease.owner().filter(|_| lease.can_be_released())?;
        let ended = ended(owner);
        Some(lease.take_back(id, reason, ended))
    }

    /// Takes the outcome of a write.
    pub(crate) fn written(&mut self, result: &LeaseResult) -> Written {
        let id = &result.node;
        let Some((owner, epoch)) = result.entry.clone() else {
            self.unwritten.insert(id.clone());
            return Written::Other;
        };
        self.unwritten.remove(id);
        self.count_lease(id, owner.is_none());
        self.node(id).lease.written(owner, epoch)
    }

    /// Why a node was released last.
    pub(crate) fn release_reason(&self, id: &NodeId) -> String {
        let reason = self.get(id).map(|node| node.lease.reason());
        reason.unwrap_or_default().to_owned()
    }

    /// Writes of which the outcome is unknown, once more.
    pub(crate) fn write_again(&mut self) -> Vec<LeaseWrite> {
        let unwritten = std::mem::take(&mut self.unwritten).into_iter();
        let again = unwritten.filter_map(|id| self.get(&id)?.lease.write_again(&id));
        again.collect()
    }

    /// A node has no owner any more: its release is open. Returns the command for its agent.
    pub(crate) fn open_release(
        &mut self,
        id: &NodeId,
        config: &ControllerConfig,
        now: Now,
    ) -> Action {
        self.releasing.insert(id.clone());
        let node = self.node(id);
        let safe_after = node.agent.safe_after(config.safe_after());
        node.lease.open_release(now, safe_after)
    }

    /// Commands for all releases that are waited for.
    pub(crate) fn open_releases(&self, now: Now) -> Vec<(NodeId, Action)> {
        let command = |id: &NodeId| Action::Release {
            reason: self.release_reason(id),
            at: Some(now.cluster),
        };
        let releasing = self.releasing.iter();
        releasing.map(|id| (id.clone(), command(id))).collect()
    }

    /// The agent has given a node back.
    pub(crate) fn confirm(&mut self, id: &NodeId, now: Now) -> Option<Freed> {
        self.releasing.remove(id);
        let node = self.by_id.get_mut(id)?;
        let confirmed = node.lease.confirm()?;
        Some(Freed {
            after: now.since(confirmed.since),
            was_overdue: confirmed.was_overdue,
            is_wanted: node.demand.answer(),
        })
    }

    /// A release is no longer waited for: its agent has given up by itself, and the node goes to
    /// no trainer before an agent speaks there. Returns whether the main scheduler waits for an
    /// answer.
    pub(crate) fn stop_waiting(&mut self, id: &NodeId) -> bool {
        self.releasing.remove(id);
        self.unacknowledged.remove(id);
        self.node(id).demand.answer()
    }

    /// A node is given back, perhaps to the main scheduler: how it had been asked for, and for how
    /// long. `is_heard` says whether its agent has confirmed it.
    pub(crate) fn given_back(
        &mut self,
        id: &NodeId,
        is_heard: bool,
        is_pilots: bool,
        now: Now,
    ) -> Option<(&'static str, Span)> {
        let demand = &mut self.node(id).demand;
        if !is_heard {
            demand.forget_down();
        }
        demand.given_back(now, is_pilots)
    }
}

/// Agents and commands.
impl Nodes {
    /// An agent has reported.
    pub(crate) fn hear(
        &mut self,
        status: &AgentStatus,
        config: &ControllerConfig,
        now: Now,
    ) -> Heard {
        let id = &status.node;
        let not_held = self.not_held(status);
        let node = self.node(id);
        let before = node.agent.status().map(|before| &before.serves);
        let is_new = before != Some(&status.serves);
        let (was_silent, terms) = node.agent.hear(status, now);
        let safe_after = node.agent.safe_after(config.safe_after());
        if terms.is_some() {
            // A release may be older than the terms.
            node.lease.extend(safe_after);
        }
        let has_acknowledged = node.agent.has_acknowledged();
        if has_acknowledged {
            self.unacknowledged.remove(id);
        } else {
            self.unacknowledged.insert(id.clone());
        }
        Heard {
            was_silent,
            is_new,
            longer_terms: terms.filter(|_| safe_after > config.safe_after()),
            has_acknowledged,
            not_held,
        }
    }

    /// Whether the first status of an agent says that it holds nothing of what it held when control ended,
    /// and not for the lease timeout, which counts by itself.
    fn not_held(&mut self, status: &AgentStatus) -> Option<NotHeld> {
        let id = &status.node;
        let is_first = !self.get(id).is_some_and(|node| node.agent.has_spoken());
        let is_free = status.activity == Activity::Free;
        let timed_out = status.released.as_deref() == Some(LEASE_TIMEOUT);
        if !is_first || !is_free || timed_out || self.before.get(id) != self.owner(id) {
            return None;
        }
        let trainer = self.before.remove(id)?;
        Some(NotHeld {
            is_last: !self.before.values().any(|other| *other == trainer),
            trainer,
        })
    }

    /// Whether an agent's status confirms the open release of its node.
    pub(crate) fn is_confirmed_by(&self, status: &AgentStatus) -> bool {
        self.get(&status.node).is_some_and(|node| {
            status.activity == Activity::Free
                && node.lease.is_released()
                && status.epoch >= node.lease.epoch()
        })
    }

    /// An agent reports that it leaves.
    pub(crate) fn last_words(&mut self, status: &AgentStatus) -> LastWords {
        let node = self.node(&status.node);
        let cause = if node.demand.is_down() {
            "drained"
        } else if node
            .lease
            .owner()
            .is_some_and(|owner| agent::serves(status, owner))
        {
            "preempted"
        } else {
            "idle"
        };
        let (first, cause) = node.agent.leave(cause);
        LastWords { first, cause }
    }

    /// An agent has left: its node has none any more.
    pub(crate) fn forget_agent(&mut self, id: &NodeId) {
        self.node(id).agent.forget();
        self.unacknowledged.remove(id);
    }

    /// The agent of a node has left before the newest command: the command is kept for the next.
    pub(crate) fn expect_no_answer(&mut self, id: &NodeId) {
        self.node(id).agent.expect_nothing();
        self.unacknowledged.remove(id);
    }

    pub(crate) fn silence(&mut self, id: &NodeId) {
        self.node(id).agent.silence();
    }

    /// After an outage of the bus.
    pub(crate) fn reconnected(&mut self, now: Now) {
        for node in self.by_id.values_mut() {
            node.agent.reconnected(now);
        }
    }

    /// A command under the node's present epoch, which is waited for from now on.
    pub(crate) fn command(&mut self, id: &NodeId, seq: u64, action: Action, now: Now) -> Command {
        let node = self.node(id);
        let command = Command {
            node: id.clone(),
            epoch: node.lease.epoch(),
            seq,
            action,
        };
        if !matches!(command.action, Action::Release { .. }) {
            node.lease.used();
        }
        node.agent.send(command.clone(), now);
        self.unacknowledged.insert(id.clone());
        command
    }

    /// Commands without acknowledgement that are to be sent again.
    pub(crate) fn resend(&mut self, after: Span, now: Now) -> Vec<Command> {
        let mut again = Vec::new();
        for id in &self.unacknowledged {
            let node = self.by_id.get_mut(id);
            again.extend(node.and_then(|node| node.agent.resend(now, after)).cloned());
        }
        again
    }

    /// Which releases are overdue or need no confirmation any more, and which agents have become
    /// silent.
    pub(crate) fn find_overdue(&mut self, config: &ControllerConfig, now: Now) -> Overdue {
        let mut found = Overdue::default();
        for (id, node) in &mut self.by_id {
            if node.lease.becomes_overdue(now, config.transfer_wait) {
                found.unusable.push((id.clone(), "release overdue"));
            }
            if node.lease.is_safe(now) && self.releasing.contains(id) {
                found.unheard.push(id.clone());
            }
            if let Some(on_demand) = &config.on_demand {
                match node.silence_on_demand(on_demand, config.control.silent_after, now) {
                    Silence::Nothing => {}
                    Silence::Over => found.usable.push(id.clone()),
                    Silence::Lost => {
                        found.unusable.push((id.clone(), "silent"));
                        found.lost.push(id.clone());
                    }
                }
                continue;
            }
            let is_held = node.lease.owner().is_some();
            if is_held && node.agent.becomes_missing(now) {
                found.missing.push(id.clone());
            }
            let matters = node.is_idle() || is_held;
            if matters
                && !node.agent.is_silent()
                && node.agent.is_unheard(now, config.control.silent_after)
            {
                node.agent.silence();
                found.unusable.push((id.clone(), "silent"));
                if is_held {
                    found.lost.push(id.clone());
                }
            }
        }
        found
    }
}

/// Failures of programs.
impl Nodes {
    /// A program has failed on a node.
    pub(crate) fn count_failure(&mut self, id: &NodeId) {
        self.node(id).failures.count();
    }

    /// A program has made progress on these nodes. Returns whether anything spoke against one until
    /// then.
    pub(crate) fn count_progress(&mut self, nodes: &[NodeId], more: Span, enough: Span) -> bool {
        let mut any = false;
        for id in nodes {
            if let Some(node) = self.by_id.get_mut(id) {
                any |= node.failures.progress(more, enough);
            }
        }
        any
    }

    /// A program has done its work on these nodes. Returns whether anything spoke against one until
    /// then.
    pub(crate) fn count_sound(&mut self, nodes: &[NodeId]) -> bool {
        let mut any = false;
        for id in nodes {
            if let Some(node) = self.by_id.get_mut(id) {
                any |= node.failures.clear();
            }
        }
        any
    }

    /// A program of this owner failed on a node and is sound elsewhere. Returns to which owners the
    /// node is closed for it, and for how long.
    pub(crate) fn blame(
        &mut self,
        id: &NodeId,
        owner: &str,
        blame: Blame,
        first: Span,
        now: Now,
    ) -> Vec<(String, Span)> {
        let closed = self.node(id).failures.blame(owner, blame, first, now);
        if !closed.is_empty() {
            self.closed.insert(id.clone());
        }
        closed
    }

    /// An operator opens nodes. Returns those against which anything spoke.
    pub(crate) fn reopen(&mut self, nodes: &[NodeId]) -> BTreeSet<NodeId> {
        let mut open = BTreeSet::new();
        for id in nodes {
            let node = self.by_id.get_mut(id);
            if node.is_some_and(|node| node.failures.reopen()) {
                open.insert(id.clone());
            }
        }
        open
    }

    /// A trainer of this owner waits for one of its nodes in each step, or for none; with the node,
    /// whether that has its rank 0. If another trainer waited for that node too, it is closed to the
    /// owners of both.
    pub(crate) fn count_waits(
        &mut self,
        trainer: &TrainerId,
        owner: &str,
        nodes: &[NodeId],
        slow: Option<(&NodeId, bool)>,
        first: Span,
        now: Now,
    ) -> Option<SlowNode> {
        for id in nodes {
            let waits = slow.filter(|(node, _)| *node == id);
            let for_rank_0 = waits.map(|(_, is_rank_0)| is_rank_0);
            self.node(id)
                .failures
                .waits(trainer, owner, for_rank_0, now);
        }
        let (node, _) = slow?;
        let (trainers, closed) = self.node(node).failures.close_slow(first, now)?;
        self.closed.insert(node.clone());
        Some(SlowNode {
            node: node.clone(),
            trainers,
            closed,
        })
    }

    /// Nodes that are closed to an owner at least, by name.
    pub(crate) fn closed(&self) -> impl Iterator<Item = &NodeId> {
        self.closed.iter()
    }

    /// Opens nodes whose closure is over, and brings quarantine up to date: it depends on which
    /// owners have trainers. Returns whether any node was opened, and which nodes have entered
    /// (true) or left quarantine.
    pub(crate) fn review_closed(
        &mut self,
        owners: &BTreeSet<&str>,
        now: Now,
    ) -> (bool, Vec<(NodeId, bool)>) {
        let mut any_opened = false;
        let mut moved = Vec::new();
        let by_id = &mut self.by_id;
        self.closed.retain(|id| {
            let Some(node) = by_id.get_mut(id) else {
                return false;
            };
            any_opened |= node.failures.open_due(now);
            moved.extend(node.failures.judge(owners).map(|bad| (id.clone(), bad)));
            node.failures.is_closed()
        });
        (any_opened, moved)
    }
}

/// The operator's controls.
impl Nodes {
    /// Forgets the verdicts of the operator's lists, so that they are looked up again.
    pub(crate) fn forget_bars(&mut self) {
        for node in self.by_id.values_mut() {
            node.barred = None;
        }
    }

    /// Looks up the missing verdicts of the operator's lists.
    pub(crate) fn look_up_bars(&mut self, bars: impl Fn(&NodeId) -> Option<WithheldBy>) {
        for (id, node) in &mut self.by_id {
            node.barred.get_or_insert_with(|| bars(id));
        }
    }

    /// Withholds these nodes and no others. Returns whether that has changed anything, and which
    /// of them a trainer holds.
    pub(crate) fn withhold(
        &mut self,
        withheld: &BTreeMap<NodeId, WithheldBy>,
    ) -> (bool, BTreeMap<WithheldBy, Vec<NodeId>>) {
        let mut changed = false;
        let mut held: BTreeMap<WithheldBy, Vec<NodeId>> = BTreeMap::new();
        for (id, node) in &mut self.by_id {
            let by = withheld.get(id).copied();
            let was = std::mem::replace(&mut node.withheld, by);
            changed |= was.is_some() != by.is_some();
            if let Some(by) = by.filter(|_| node.lease.can_be_released()) {
                held.entry(by).or_default().push(id.clone());
            }
        }
        (changed, held)
    }
}
