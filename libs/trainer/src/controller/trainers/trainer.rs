//! One trainer: its record, and its state beside the record.
//!
//! Invariants:
//! - The record's nodes are those of the present incarnation, sorted. They change only with a new
//!   incarnation ([`Trainer::begin`]), which closes the account of the one before.
//! - Parked nodes (`Measured.parked`) are no members, and are given up with the incarnation's last.
//! - Nodes that were lost are members until the next incarnation begins, and work counts up to the
//!   first loss.

use std::sync::Arc;

use lacuna_model::{
    Assignment, Ending, Launch, NodeId, Phase, Progress, ScalingCurve, Span, Tier, Timestamp,
    TrainerId, TrainerRecord, Tries,
};
use lacuna_rates::{Observed, OfRelatives, Rates, Site};

use crate::Now;
use crate::account::{Change, Counted, LossAccount, is_done};
use crate::controller::trainers::health::{Due, Health};
use crate::controller::trainers::launch::launch;
use crate::controller::trainers::learnt::Learnt;
use crate::controller::trainers::moves::{Loss, Target};
use crate::controller::trainers::parked::{drop_parked, or_all, parked};
use crate::controller::trainers::probes::Probes;
use crate::controller::trainers::stalls::StallTimes;
use crate::settings::Control;

/// One trainer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trainer {
    record: TrainerRecord,
    account: LossAccount,
    observed: Observed,
    stalls: StallTimes,
    probes: Probes,
    learnt: Learnt,
    health: Health,
    target: Option<Target>,
    loss: Option<Loss>,
    /// While its owner may have no pilots: until when (real time).
    no_pilots: Option<Timestamp>,
    /// Nodes that it had before the first step of a re-placement that is under way.
    replaced_from: Option<u32>,
    /// Since when it ends, if it does, as far as this control knows (real time).
    ends_since: Timestamp,
    /// How crowded its uplinks are ([`lacuna_model::crowds`]).
    crowd: f64,
    /// Whether the record has changed since it was last kept.
    dirty: bool,
}

/// A new incarnation has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Nodes before.
    pub(crate) before: u32,
    /// Nodes now.
    pub(crate) after: u32,
    /// Why, as [`crate::controller::Note::Run`] has it.
    pub(crate) cause: &'static str,
}

/// The incarnation that follows a loss.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AfterLoss {
    /// Its nodes; none if too few are left.
    pub(crate) nodes: Vec<NodeId>,
    /// The change as which it is charged.
    pub(crate) change: Change,
    /// When the one before ended (cluster time).
    pub(crate) at: Timestamp,
}

/// Rates and costs measured by a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Measurement {
    /// Whether the scaling curve is another one now.
    pub(crate) curve: bool,
    /// Whether a rescale cost is another one now.
    pub(crate) cost: bool,
    /// Whether the cost of a start was measured.
    pub(crate) start: bool,
    /// Whether learning by node count is another one now.
    pub(crate) goodput: bool,
}

/// What is known of it.
impl Trainer {
    pub(super) fn resumed(record: TrainerRecord, now: Now) -> Self {
        Self {
            account: LossAccount::default(),
            observed: Observed::resumed(&record),
            stalls: StallTimes::resumed(&record),
            probes: Probes::default(),
            learnt: Learnt::default(),
            health: Health::resumed(now),
            record,
            target: None,
            loss: None,
            no_pilots: None,
            replaced_from: None,
            ends_since: now.wall,
            crowd: 1.0,
            dirty: false,
        }
    }

    pub(crate) const fn record(&self) -> &TrainerRecord {
        &self.record
    }

    pub(super) fn into_record(self) -> TrainerRecord {
        self.record
    }

    pub(crate) fn owner(&self) -> &str {
        self.record.owner()
    }

    /// Nodes of the present incarnation, sorted.
    pub(crate) fn nodes(&self) -> &[NodeId] {
        &self.record.nodes
    }

    pub(crate) fn is_member(&self, node: &NodeId) -> bool {
        self.record.nodes.binary_search(node).is_ok()
    }

    /// Nodes that it holds beside those of its incarnation.
    pub(crate) fn parked(&self) -> &[NodeId] {
        parked(&self.record)
    }

    /// Its fewest nodes.
    pub(crate) const fn min_nodes(&self) -> usize {
        self.record.spec.min_nodes as usize
    }

    /// Its fewest and its most nodes.
    pub(crate) const fn bounds(&self) -> (u32, u32) {
        (self.record.spec.min_nodes, self.record.spec.max_nodes)
    }

    /// Whether it has a use for the node's lease.
    pub(crate) fn needs(&self, node: &NodeId) -> bool {
        self.is_member(node)
            || self.parked().binary_search(node).is_ok()
            || self
                .target
                .as_ref()
                .is_some_and(|t| t.nodes().contains(node))
    }

    /// Whether agents ask for the names of its nodes: those of programs do.
    pub(crate) const fn is_program(&self) -> bool {
        matches!(self.record.spec.launch, Launch::Command(_))
    }

    /// Whether it loads the data of another trainer.
    pub(crate) const fn loads(&self) -> bool {
        self.record.spec.kinds.loads_for().is_some()
    }

    /// Whether it has nodes, or is about to.
    pub(crate) fn holds(&self) -> bool {
        !self.record.nodes.is_empty() || self.target.is_some()
    }

    /// Whether its programs live on over its incarnations.
    pub(crate) fn regroups(&self) -> bool {
        self.record.spec.launch.regroups()
    }

    pub(crate) fn is_profiled(&self) -> bool {
        self.record.spec.is_profiled()
    }

    pub(crate) const fn health(&self) -> &Health {
        &self.health
    }

    /// Whether a plan has not been followed for it since a departure has hit it.
    pub(crate) const fn is_hit(&self) -> bool {
        self.record.hit_at.is_some()
    }

    /// Whether its present incarnation restarts anyhow: it is being re-placed, or a departure has
    /// hit it and its stall lasts.
    pub(crate) fn restarts(&self, now: Now) -> bool {
        self.replaced_from.is_some() || Rates::of(&self.record).is_hit(now.cluster)
    }

    /// Whether its nodes are about to change, or its programs to restart or to end.
    pub(crate) const fn is_changing(&self) -> bool {
        self.target.is_some() || self.loss.is_some() || self.health.is_restarting() || self.ends()
    }

    /// The moment up to which its present incarnation counts (cluster time).
    pub(crate) fn counts_until(&self) -> Timestamp {
        let loss = self.loss.as_ref();
        loss.map_or(self.record.run_since, Loss::since)
    }

    /// The moment of its newest report (cluster time).
    pub(crate) fn reported(&self) -> Timestamp {
        self.account.reported()
    }

    /// The present incarnation for agents: the part of an agent that is no member.
    pub(crate) fn assignment(&self, control: &Control) -> Assignment {
        let record = &self.record;
        Assignment {
            trainer: record.spec.id.clone(),
            run: record.run,
            rank: 0,
            nodes: 0,
            launch: Arc::new(launch(&record.spec)),
            throughput: throughput(record),
            rescale: Rates::of(record).rescale(),
            work: record.spec.work,
            samples_before: record.samples_before,
            owed: record.run_owed,
            since: record.run_since,
            checkpoint: record.checkpoint.clone(),
            store: control.store.clone(),
            token: None,
            owner: Some(self.owner().to_owned()).filter(|owner| !owner.is_empty()),
            shared_account: control.shared_account.clone(),
        }
    }

    /// Why it is given up, if it has failed this often in a row.
    pub(crate) fn given_up(&self, max_failures: u32) -> Option<String> {
        let record = &self.record;
        (record.failures >= max_failures).then(|| {
            format!(
                "given up after {} failures in a row; the last: {}",
                record.failures, record.reason
            )
        })
    }
}

/// The curve of its present incarnation: its own, or by the kinds of its nodes one point.
fn throughput(record: &TrainerRecord) -> ScalingCurve {
    let nodes = record.nodes.len() as u32;
    let by_kind = record
        .mix_rate
        .map(|rate| ScalingCurve::new([(nodes, rate)]));
    match by_kind {
        Some(Ok(curve)) => curve,
        Some(Err(_)) | None => Rates::of(record).curve().clone(),
    }
}

/// Its life.
impl Trainer {
    pub(super) fn admit(&mut self) {
        self.record.phase = Phase::Active;
    }

    /// Ends it. Returns its phase before.
    pub(super) fn end(&mut self, phase: Phase, reason: &str, now: Now) -> Phase {
        self.target = None;
        reason.clone_into(&mut self.record.reason);
        self.record.ended = Some(now.cluster);
        std::mem::replace(&mut self.record.phase, phase)
    }

    /// Takes its account up after a start of control.
    pub(crate) fn resume_account(&mut self) {
        self.account.resume(&mut self.record);
    }

    /// The record as it is to be kept.
    pub(super) fn keep(&mut self) -> TrainerRecord {
        self.dirty = false;
        self.record.clone()
    }

    pub(crate) const fn is_dirty(&self) -> bool {
        self.dirty
    }
}

/// Its end.
impl Trainer {
    /// Whether a member has said that the work is done.
    pub(crate) const fn ends(&self) -> bool {
        self.record.ending.is_some()
    }

    /// Its work is done, or goes on after all. It waits for no nodes then.
    pub(crate) fn set_ending(&mut self, ending: Option<Ending>, now: Now) {
        self.record.ending = ending;
        self.ends_since = now.wall;
        if ending.is_some() {
            self.target = None;
            self.health.meet_again();
        }
    }

    /// Whether it has ended for this long, as far as this control knows.
    pub(crate) fn has_ended_for(&self, limit: Span, now: Now) -> bool {
        self.ends() && now.since(self.ends_since) >= limit
    }

    /// Whether it is never begun again: a program has exited after the work, or all samples are
    /// trained.
    pub(crate) fn is_finished(&self) -> bool {
        self.record.ending == Some(Ending::Exited) || (self.ends() && self.is_done())
    }

    /// Whether a member may be the one with rank 0. Workers of torchrun may have it on any node, and
    /// its agents wait for each other, so the first one stands for all.
    pub(crate) fn may_have_rank_0(&self, node: &NodeId) -> bool {
        let leads = self.regroups() && self.record.leaders().contains(node);
        leads || self.record.nodes.first() == Some(node)
    }
}

/// Its nodes.
impl Trainer {
    pub(crate) const fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    pub(crate) fn take_target(&mut self) -> Option<Target> {
        self.target.take()
    }

    /// Whether it starts on fewer nodes than it can use, and has waited for more for less than `wait`.
    /// A program that regroups takes them later, at no cost.
    pub(crate) fn gathers(&self, target: &Target, wait: Span, now: Now) -> bool {
        let starts = self.is_program() && !self.regroups() && self.record.nodes.is_empty();
        let has_most = target.nodes().len() >= self.bounds().1 as usize;
        starts && !has_most && now.since(target.begun()) < wait
    }

    pub(crate) fn set_target(&mut self, target: Target) {
        self.target = Some(target);
    }

    /// A node has left its target and its parked nodes. Returns whether it was parked.
    pub(crate) fn forget_node(&mut self, node: &NodeId) -> bool {
        if let Some(target) = &mut self.target {
            target.remove(node);
        }
        drop_parked(&mut self.record, node)
    }

    /// A member has lost its node at `at`. Work counts up to the first loss.
    pub(super) fn lose(&mut self, node: &NodeId, at: Timestamp, now: Now) {
        match &mut self.loss {
            Some(loss) => loss.add(node, at),
            loss @ None => *loss = Some(Loss::new(node, at, now.cluster)),
        }
    }

    pub(crate) const fn has_loss(&self) -> bool {
        self.loss.is_some()
    }

    /// The incarnation that follows its loss.
    pub(super) fn settle_loss(&mut self) -> Option<AfterLoss> {
        let loss = self.loss.take()?;
        Some(AfterLoss {
            nodes: self.without(|node| loss.has(node)),
            change: loss.change(),
            at: loss.since(),
        })
    }

    /// Its nodes without those that are gone, with the parked ones if too few are left, or none if
    /// these are too few as well. A failure that waits for its restart is explained by that.
    pub(crate) fn without(&mut self, is_gone: impl Fn(&NodeId) -> bool) -> Vec<NodeId> {
        self.forgive();
        let left = self.nodes().iter().filter(|node| !is_gone(node));
        let mut rest = or_all(&self.record, left.cloned().collect());
        if !self.can_go_on_with(rest.len()) {
            rest.clear();
        }
        rest
    }

    /// Whether this number of nodes is enough after a loss. Programs that only have to end are.
    pub(crate) fn can_go_on_with(&self, nodes: usize) -> bool {
        nodes >= self.min_nodes() || (self.ends() && self.regroups())
    }

    /// Begins the next incarnation, on these nodes (sorted), with this rate on them by their kinds.
    /// The one before ended at `at`. A real program's last report of it counts for `grace` after
    /// that.
    pub(crate) fn begin(
        &mut self,
        nodes: Vec<NodeId>,
        change: Change,
        at: Timestamp,
        grace: Span,
        mix_rate: Option<f64>,
        now: Now,
    ) -> Begun {
        let before = self.record.nodes.len() as u32;
        let after = nodes.len() as u32;
        let joins = self.replaced_from.is_some();
        if change == Change::Replaced {
            self.replaced_from.get_or_insert(before);
        } else {
            self.end_replacement();
        }
        let grace = if self.is_program() { grace } else { Span::ZERO };
        let record = &mut self.record;
        let rate = mix_rate.unwrap_or_else(|| Rates::of(record).near(after));
        let lost = self.account.turn(record, change, rate, at, grace);
        let cause = match change {
            Change::Grown | Change::Shrunk if before > 0 => {
                record.rescales += 1;
                if change == Change::Grown {
                    "grown"
                } else {
                    "shrunk"
                }
            }
            Change::Grown | Change::Shrunk => "start",
            // Counted when it is complete.
            Change::Replaced if before > 0 || joins => "replaced",
            Change::Replaced => "start",
            Change::Lost { .. } => {
                record.preemptions += u64::from(lost);
                "preempted"
            }
            Change::Restarted => "restarted",
            Change::Paced => "paced",
            Change::Ended => "ended",
        };
        self.probes.begin(record, &nodes, change, now);
        record.nodes = nodes;
        record.mix_rate = mix_rate.filter(|_| after > 0);
        record.hit_at = match change {
            Change::Lost { at } => Some(at),
            // Until it has joined the others.
            Change::Replaced | Change::Paced => record.hit_at,
            _ => None,
        };
        if after > 0 {
            record.started.get_or_insert(now.cluster);
        }
        if after == 0 || !record.spec.launch.regroups() {
            record.ending = None;
        }
        let begun = (record.run, record.run_since);
        let regroups = self.regroups();
        self.stalls.begin(begun, change, (before, after), regroups);
        self.health.begin(now);
        Begun {
            before,
            after,
            cause,
        }
    }

    /// A plan has been followed for it, and it waits for no node: a departure before is settled,
    /// and its re-placement is complete. Returns whether a departure had hit it.
    pub(crate) fn settle(&mut self) -> bool {
        self.end_replacement();
        self.record.hit_at.take().is_some()
    }

    /// A re-placement is complete: leaving and joining are one rescale if the size is another.
    fn end_replacement(&mut self) {
        let nodes = self.record.nodes.len() as u32;
        let from = self.replaced_from.take();
        if from.is_some_and(|from| from > 0 && from != nodes) {
            self.record.rescales += 1;
        }
    }
}

/// Its uplinks.
impl Trainer {
    pub(crate) const fn crowd(&self) -> f64 {
        self.crowd
    }

    pub(crate) const fn set_crowd(&mut self, crowd: f64) {
        self.crowd = crowd;
    }
}

/// Its pilots.
impl Trainer {
    /// Its owner may have no pilots, for this reason.
    pub(crate) fn hold_pilots(&mut self, until: Timestamp, reason: String) {
        self.no_pilots = Some(until);
        self.record.reason = reason;
    }

    /// Whether it gets no further nodes, since its owner may have no pilots.
    pub(crate) const fn lacks_pilots(&self) -> bool {
        self.no_pilots.is_some()
    }

    /// Takes another ticket of its owner. Returns whether pilots may be tried again with it.
    pub(crate) fn renew(&mut self, ticket: String, now: Now) -> bool {
        self.record.ticket = Some(ticket);
        self.dirty = true;
        self.no_pilots = self.no_pilots.map(|_| now.wall);
        self.tries_pilots_again(now)
    }

    /// Whether pilots may be tried again from now on.
    pub(crate) fn tries_pilots_again(&mut self, now: Now) -> bool {
        let again = self.no_pilots.take_if(|until| *until <= now.wall).is_some();
        if again {
            self.record.reason.clear();
            self.dirty = true;
        }
        again
    }
}

/// Its programs.
impl Trainer {
    /// Takes a report of samples.
    pub(crate) fn report(&mut self, report: &Progress) -> Counted {
        let counted = self.account.report(&mut self.record, report);
        self.dirty |= matches!(counted, Counted::Samples(_));
        counted
    }

    /// Whether all of its samples are trained.
    pub(crate) fn is_done(&self) -> bool {
        self.record.phase == Phase::Active && is_done(&self.record)
    }

    /// It has made progress: after `enough` of that since the last failure, failures are
    /// forgotten. Returns for how long it has, since it last did.
    pub(crate) fn progress(&mut self, enough: Span, now: Now) -> Span {
        let more = self.health.progress(now);
        if self.is_sound(enough) {
            self.end_row();
        }
        more
    }

    /// Whether it has made progress for `enough` since its last failure.
    pub(crate) fn is_sound(&self, enough: Span) -> bool {
        self.health.healthy() >= enough
    }

    /// The row of its failures is over.
    fn end_row(&mut self) {
        self.record.failures = 0;
        self.record.tries.end_row();
    }

    /// Counts a failure. Returns how many in a row there are.
    pub(crate) fn count_failure(&mut self, reason: String) -> u32 {
        self.record.failures += 1;
        self.record.reason = reason;
        self.record.failures
    }

    /// Where its programs failed, and when they are tried again.
    pub(crate) const fn tries(&self) -> &Tries {
        &self.record.tries
    }

    pub(crate) const fn tries_mut(&mut self) -> &mut Tries {
        self.dirty = true;
        &mut self.record.tries
    }

    /// A failure on this node was none: the main scheduler has taken the node since. Returns whether
    /// there was one.
    pub(crate) fn forgive_on(&mut self, node: &NodeId, within: Span, now: Now) -> bool {
        let is_explained = self.tries_mut().forgive(node, within, now.wall);
        if is_explained && !self.health.is_restarting() {
            self.record.failures = self.record.failures.saturating_sub(1);
        }
        is_explained
    }

    /// A loader reports no progress: if its run has lasted for `enough`, failures are forgotten.
    pub(crate) fn forgive_loader(&mut self, enough: Span, now: Now) {
        if self.loads() && now.cluster.since(self.record.run_since) >= enough {
            self.end_row();
        }
    }

    /// The present incarnation did not hold its nodes for this much of the cluster's time.
    pub(super) fn skip(&mut self, time: Span) {
        let nodes = self.record.nodes.len() as f64;
        if nodes > 0.0 {
            self.record.held.seconds -= time.as_secs_f64();
            self.record.held.node_s -= time.as_secs_f64() * nodes;
            self.dirty = true;
        }
    }

    /// The present incarnation did not hold one of its nodes for this much of the cluster's time; with
    /// `is_last`, none of them.
    pub(super) fn skip_node(&mut self, is_last: bool, time: Span) {
        self.record.held.node_s -= time.as_secs_f64();
        if is_last {
            self.record.held.seconds -= time.as_secs_f64();
        }
        self.dirty = true;
    }

    /// The whole incarnation restarts after `wait`, for the failure just counted: on its nodes, if it
    /// keeps them.
    pub(crate) fn restart_after_failure(&mut self, wait: Span, keeps_nodes: bool, now: Now) {
        self.health.restart_after_failure(wait, keeps_nodes, now);
    }

    /// The whole incarnation restarts at once, for a reason that is no failure.
    pub(crate) fn restart_at_once(&mut self, now: Now) {
        self.health.restart_at_once(now);
    }

    /// It restarts, or goes on without a member, for this reason, which is no failure. Returns how
    /// many such restarts in a row have brought no new samples.
    pub(crate) fn count_restart(&mut self, reason: &str) -> u32 {
        reason.clone_into(&mut self.record.reason);
        self.dirty = true;
        self.health.count_restart(self.record.samples())
    }

    /// A member has exited with code 0 before any word of an end. Returns whether a word is waited
    /// for: for `limit` from the first time on.
    pub(crate) fn waits_for_word(&mut self, limit: Span, now: Now) -> bool {
        self.health.waits_for_word(limit, now)
    }

    /// Progress before a failure counts no longer.
    pub(crate) const fn forget_progress(&mut self) {
        self.health.forget_progress();
    }

    /// Takes back the restart that waits: something else explains it than a failure.
    pub(crate) fn forgive(&mut self) {
        if self.health.forgive() {
            self.record.failures = self.record.failures.saturating_sub(1);
        }
    }

    /// A member's program has exited: its incarnation ends `wait` after the first that did.
    pub(crate) fn await_exits(&mut self, wait: Span, now: Now) {
        self.health.await_exits(wait, now);
    }

    /// Takes the restart that is due, if there is one.
    pub(crate) fn take_due_restart(&mut self, now: Now) -> Option<Due> {
        self.health.take_due(now)
    }

    /// A member says that the group is broken. Returns whether it is the first, and since when
    /// the group is.
    pub(crate) fn break_group(&mut self, now: Now) -> (bool, Timestamp) {
        self.health.break_group(now)
    }

    /// Members meet although a restart waits for them: there is nothing to restart for.
    pub(crate) fn meet_again(&mut self) {
        self.health.meet_again();
    }

    /// No member reports a broken group any more.
    pub(crate) const fn mend_group(&mut self) {
        self.health.mend_group();
    }
}

/// Its rates, costs and probes.
impl Trainer {
    /// Measures by a report of the present incarnation. Rates are measured where its nodes have a site.
    pub(crate) fn measure(&mut self, report: &Progress, site: Option<&Site>) -> Measurement {
        let stall = self.stalls.observe(&mut self.record, report);
        let learning = report.learning.as_ref();
        let goodput = learning.zip(site).is_some_and(|(learning, site)| {
            let kind = site.kind.as_ref();
            self.learnt
                .observe(&mut self.record, learning, report.at, kind)
        });
        let cost = stall.is_some_and(|stall| stall.cost_changed);
        let start = stall.is_some_and(|stall| stall.is_start);
        if !self.is_profiled() {
            return Measurement {
                cost,
                start,
                goodput,
                ..Measurement::default()
            };
        }
        let mut curve = false;
        if let Some(site) = site {
            curve = self.observed.observe(&mut self.record, report, site);
            if let Some(costs) = report.step_costs.as_deref() {
                curve |= self
                    .observed
                    .replayed(&mut self.record, costs, site, report.at);
            }
        }
        if let Some(stall) = &stall {
            self.probes.stalled(&mut self.record, stall.seconds);
        }
        Measurement {
            curve,
            cost,
            start,
            goodput,
        }
    }

    /// Its rate on its present nodes, where their kinds say it, is another one.
    pub(crate) const fn set_rate(&mut self, rate: Option<f64>) {
        self.record.mix_rate = rate;
    }

    /// The programs of its first incarnation from no nodes are being started.
    pub(crate) const fn prepare(&mut self, now: Now) {
        if self.record.nodes.is_empty() {
            self.stalls.prepare(now.cluster);
        }
    }

    /// Takes over measurements of a relative. Returns whether plans depend on them.
    pub(super) fn take_over(&mut self, of: OfRelatives) -> bool {
        let Some(cost) = self.observed.take_over(&mut self.record, of) else {
            return false;
        };
        self.dirty = true;
        self.observed.enforce(&mut self.record) || cost
    }

    /// Rates, probes and the record, to find out which size is worth a probe.
    pub(crate) const fn probes(&self) -> &Probes {
        &self.probes
    }

    /// Seconds between the two newest reports of the present incarnation, once there are any.
    pub(crate) fn report_interval(&self) -> Option<f64> {
        self.observed.interval(self.record.run)
    }

    /// Brings the sums of node-time up to now.
    pub(crate) fn sum_up_probes(&mut self, now: Now) {
        self.probes.sum_up(&mut self.record, now.cluster);
    }

    /// The present size, at its tier, did not settle in the time that there is.
    pub(crate) fn probed_in_vain(&mut self, place: (u32, Tier)) {
        self.probes.in_vain(place);
    }

    /// Takes what probes have cost since this was last asked, node-seconds, if a probe is over or
    /// `at_once`.
    pub(crate) fn take_probe_cost(&mut self, at_once: bool) -> Option<f64> {
        let is_over = self.parked().is_empty();
        self.probes.take_cost(is_over, at_once)
    }

    /// Parks all members but those that stay. Returns which are parked.
    pub(crate) fn park(&mut self, stay: &[NodeId]) -> Vec<NodeId> {
        let leaves = |node: &&NodeId| !stay.contains(*node);
        let leave: Vec<NodeId> = self.record.nodes.iter().filter(leaves).cloned().collect();
        let measured = self.record.measured.get_or_insert_default();
        measured.parked.extend(leave.iter().cloned());
        measured.parked.sort();
        leave
    }

    /// Its parked nodes are no longer its own.
    pub(crate) fn unpark_all(&mut self) {
        if let Some(measured) = self.record.measured.as_deref_mut() {
            measured.parked.clear();
        }
    }

    /// Its identity.
    pub(crate) const fn id(&self) -> &TrainerId {
        &self.record.spec.id
    }
}
