//! The checker: a pure function over a history. It knows the invariants, and nothing of the code
//! that keeps them.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{History, Observation};
use super::leads::Leads;
use super::numbers::Numbers;
use super::workload::DEADLINE_S;

/// All violations in a history that has ended.
pub(super) fn violations(history: &History) -> Vec<String> {
    let mut checker = Checker::default();
    checker.read(history);
    checker.end()
}

/// Reports heard less than this before the end of the server may be lost, seconds.
const AT_RISK_S: f64 = 10.0;

/// The longest delay of an agent's report by the network, seconds. An agent that was stopped may
/// also repeat an old report.
const ON_ITS_WAY_S: f64 = 3.0;

#[derive(Debug, Clone, Copy)]
struct Report {
    heard: f64,
    until: i64,
    samples: f64,
}

/// Reads a history, in pieces if need be.
#[derive(Debug, Default)]
pub(super) struct Checker {
    /// Observations read so far.
    pub(super) read: usize,
    found: Vec<String>,
    /// The trainer that a command, lease or report gives a node under an epoch.
    owners: BTreeMap<(String, u64), String>,
    /// The newest epoch under which an agent reported training, with the incarnation.
    trained: BTreeMap<String, (u64, String, u64)>,
    /// The newest command that an agent process reported as obeyed.
    obeyed: BTreeMap<(String, String), (u64, u64)>,
    /// When a wanted node must be free.
    wanted: BTreeMap<String, f64>,
    /// Whether a node trains, by the newest report.
    training: BTreeMap<String, bool>,
    /// Nodes that a batch job uses.
    busy: BTreeSet<String>,
    generation: u64,
    /// The newest message number of each process.
    words: BTreeMap<String, u64>,
    leases: BTreeMap<String, u64>,
    /// The controls that have written each node's lease, in their order.
    writers: BTreeMap<String, Vec<String>>,
    /// The trainer that holds each node's lease, if any, its epoch, and since when.
    holders: BTreeMap<String, (Option<String>, u64, f64)>,
    /// Since when an agent reports another trainer than the holder of its node's lease.
    strays: BTreeMap<String, f64>,
    numbers: Numbers,
    leads: Leads,
    /// All reports of each incarnation.
    reports: BTreeMap<String, BTreeMap<u64, Vec<Report>>>,
    /// The start of each incarnation, which ends the one before: later work of that does not count.
    begun: BTreeMap<(String, u64), i64>,
    /// The start of each incarnation as its first command had it. It never changes: a number is of
    /// one incarnation.
    starts: BTreeMap<(String, u64), i64>,
    /// The times at which the server may have lost its newest writes.
    at_risk: Vec<f64>,
    counts: BTreeMap<String, (u64, f64)>,
}

impl Checker {
    /// Reads further observations.
    pub(super) fn read(&mut self, more: &[(f64, Observation)]) {
        for (at, said) in more {
            self.take(*at, said);
        }
        self.read += more.len();
    }

    /// The violations found since the last call.
    pub(super) fn found(&mut self) -> Vec<String> {
        std::mem::take(&mut self.found)
    }

    fn blame(&mut self, at: f64, text: String) {
        self.found.push(format!("at {at:.1} s: {text}"));
    }

    fn blame_for(&mut self, at: f64, wrong: Option<String>) {
        if let Some(text) = wrong {
            self.blame(at, text);
        }
    }

    fn take(&mut self, at: f64, said: &Observation) {
        match said {
            Observation::Idle(node) => {
                self.wanted.remove(node);
                self.busy.remove(node);
            }
            Observation::Wanted(node, due) => {
                self.wanted.entry(node.clone()).or_insert(*due);
            }
            Observation::Busy(node) => {
                self.busy.insert(node.clone());
            }
            Observation::Event { sender, seq, what } => {
                let wrong = self.numbers.event(sender, *seq, what);
                self.blame_for(at, wrong);
            }
            Observation::Snapshot { sender, seq } => {
                let wrong = self.numbers.snapshot(sender, *seq);
                self.blame_for(at, wrong);
            }
            Observation::Lead {
                service,
                instance,
                kept,
            } => self.leads.lead(service, instance, *kept),
            Observation::Usurped(instance) => self.leads.excuse(instance),
            Observation::Sent { sender, sent } => {
                let wrong = self.leads.sends(sender, *sent);
                self.blame_for(at, wrong);
            }
            Observation::Renewal {
                sender,
                sent,
                leases,
            } => {
                for (node, epoch) in leases {
                    let wrong = self.leads.renews(sender, *sent, node, *epoch);
                    self.blame_for(at, wrong);
                }
            }
            Observation::Plan {
                sender,
                word,
                generation,
            } => {
                let newest = self.generation;
                if self.in_order(sender, *word) && *generation < newest {
                    self.blame(at, format!("plan {generation} came after plan {newest}"));
                }
                self.generation = newest.max(*generation);
            }
            Observation::Command { node, epoch, run } => {
                if let Some((trainer, run, since)) = run {
                    self.owns(at, node, *epoch, trainer);
                    let key = (trainer.clone(), *run);
                    self.begun.insert(key.clone(), *since);
                    let first = *self.starts.entry(key).or_insert(*since);
                    if first != *since {
                        let text =
                            format!("{trainer}: run {run} begins at {first} ms and at {since} ms");
                        self.blame(at, text);
                    }
                }
            }
            Observation::Agent {
                agent,
                word,
                node,
                epoch,
                seq,
                runs,
            } => {
                if self.in_order(agent, *word) {
                    self.agent(at, agent, node, (*epoch, *seq), runs.as_ref());
                }
            }
            Observation::Lease {
                sender,
                node,
                epoch,
                trainer,
                kept,
            } => {
                self.lease_of(at, node, sender);
                self.leads.leased(node, *epoch, sender, *kept);
                let newest = self.leases.entry(node.clone()).or_default();
                let (before, now) = (*newest, *epoch);
                *newest = before.max(now);
                if now < before {
                    self.blame(at, format!("lease of {node}: epoch {now} after {before}"));
                }
                if now > before {
                    let holder = (trainer.clone(), now, at);
                    self.holders.insert(node.clone(), holder);
                }
                if let Some(trainer) = trainer {
                    self.owns(at, node, *epoch, trainer);
                }
            }
            Observation::Report {
                trainer,
                run,
                until,
                samples,
            } => {
                let runs = self.reports.entry(trainer.clone()).or_default();
                runs.entry(*run).or_default().push(Report {
                    heard: at,
                    until: *until,
                    samples: *samples,
                });
            }
            Observation::Trainer {
                trainer,
                run,
                since,
                samples,
            } => {
                self.begun.insert((trainer.clone(), *run), *since);
                self.counted(at, trainer, *run, *samples);
            }
            Observation::WritesAtRisk => self.at_risk.push(at),
            // Counts that the server loses begin at 0; numbers must not go back.
            Observation::Emptied => {
                self.at_risk.push(at);
                self.counts.clear();
                self.starts.clear();
            }
        }
    }

    /// Whether this message is newer than all others of its sender. Else the network has swapped or
    /// repeated messages.
    fn in_order(&mut self, sender: &str, word: u64) -> bool {
        let newest = self.words.entry(sender.to_owned()).or_default();
        let newer = word > *newest;
        *newest = word.max(*newest);
        newer
    }

    fn owns(&mut self, at: f64, node: &str, epoch: u64, trainer: &str) {
        let key = (node.to_owned(), epoch);
        let other = self.owners.entry(key).or_insert_with(|| trainer.to_owned());
        if other != trainer {
            let text = format!("{node} belongs to {other} and to {trainer} under epoch {epoch}");
            self.blame(at, text);
        }
    }

    /// A lease is written by compare-and-set: once another control has written it, a former one does
    /// not know its revision.
    fn lease_of(&mut self, at: f64, node: &str, sender: &str) {
        let writers = self.writers.entry(node.to_owned()).or_default();
        match writers.iter().position(|writer| writer == sender) {
            None => writers.push(sender.to_owned()),
            Some(place) if place + 1 < writers.len() => {
                self.blame(
                    at,
                    format!("a former control writes the lease of {node} again"),
                );
            }
            Some(_) => {}
        }
    }

    fn agent(
        &mut self,
        at: f64,
        agent: &str,
        node: &str,
        newest: (u64, u64),
        runs: Option<&(String, u64)>,
    ) {
        let key = (agent.to_owned(), node.to_owned());
        let before = self.obeyed.entry(key).or_insert(newest);
        if newest < *before {
            let text = format!("{node} has obeyed {newest:?} after {before:?}: an older command");
            self.blame(at, text);
        } else {
            *before = newest;
        }
        self.training.insert(node.to_owned(), runs.is_some());
        let Some((trainer, run)) = runs else {
            self.strays.remove(node);
            return;
        };
        let epoch = newest.0;
        self.strays(at, node, epoch, trainer);
        self.owns(at, node, epoch, trainer);
        if let Some((old, whose, number)) = self.trained.get(node)
            && (epoch < *old || (epoch == *old && run < number))
        {
            let text = format!(
                "{node} trains {trainer} (run {run}) under epoch {epoch}, after {whose} \
                 (run {number}) under {old}"
            );
            self.blame(at, text);
        }
        let entry = (epoch, trainer.clone(), *run);
        self.trained.insert(node.to_owned(), entry);
        if let Some(due) = self.wanted.get(node).copied()
            && at > due
        {
            let text = format!("{node} still trains {trainer}, {:.1} s too long", at - due);
            self.wanted.remove(node);
            self.blame(at, text);
        }
    }

    /// A node must be free before another trainer gets it. An agent that still reports its old
    /// trainer while another one has held the lease for a while is a violation. So is one whose node
    /// has been nothing's for as long as an agent that hears nothing may keep it.
    fn strays(&mut self, at: f64, node: &str, epoch: u64, trainer: &str) {
        let other = self.holders.get(node).and_then(|(holder, newer, since)| {
            let is_other = holder.as_deref() != Some(trainer);
            let given = if holder.is_some() { 0.0 } else { DEADLINE_S };
            let strays = *newer > epoch && is_other && at > since + given + ON_ITS_WAY_S;
            strays.then(|| (holder.clone(), *since))
        });
        let Some((holder, since)) = other else {
            self.strays.remove(node);
            return;
        };
        let first = *self.strays.entry(node.to_owned()).or_insert(at);
        if at > first + ON_ITS_WAY_S {
            let whose = holder.map_or("free".to_owned(), |holder| format!("{holder}'s"));
            let text = format!("{node} trains {trainer}, and is {whose} since {since:.1} s");
            self.strays.remove(node);
            self.blame(at, text);
        }
    }

    fn counted(&mut self, at: f64, trainer: &str, run: u64, samples: f64) {
        let near = |samples: f64| samples * (1.0 + 1e-9) + 1e-6;
        if let Some((newest, before)) = self.counts.get(trainer).copied() {
            if run < newest {
                let text = format!("{trainer}: run {run} after run {newest}");
                self.blame(at, text);
            }
            if near(samples) < before {
                let text = format!("{trainer}: {samples} samples after {before}");
                self.blame(at, text);
            }
        }
        self.counts.insert(trainer.to_owned(), (run, samples));
    }

    /// The least and the most samples that control may count for a trainer. The last report of each
    /// incarnation before its end may be missing, and reports that the server may have lost. An
    /// incarnation whose end was not heard has no least: it may have ended long before the next one
    /// that was heard began, and work after its end does not count.
    fn bounds(&self, trainer: &str) -> (f64, f64) {
        let (mut least, mut most) = (0.0, 0.0);
        for (run, reports) in self.reports.get(trainer).into_iter().flatten() {
            let next = (trainer.to_owned(), run + 1)..=(trainer.to_owned(), u64::MAX);
            let following = self.begun.range(next).next();
            let follower = (trainer.to_owned(), run + 1);
            let unsaid = following.is_some() && !self.begun.contains_key(&follower);
            let end = following.map(|(_, since)| *since);
            let lost = |heard: f64| {
                let at_risk = |s: &f64| (heard..heard + AT_RISK_S).contains(s);
                self.at_risk.iter().any(at_risk)
            };
            let mut due: Vec<f64> = reports
                .iter()
                .filter(|r| end.is_none_or(|end| r.until <= end) && !unsaid && !lost(r.heard))
                .map(|r| r.samples)
                .collect();
            due.sort_by(f64::total_cmp);
            due.dedup();
            due.pop();
            least += due.pop().unwrap_or_default();
            // Reports dated after its end are in here too, since a wrong clock dates all of them
            // so.
            most += reports.iter().map(|r| r.samples).fold(0.0, f64::max);
        }
        (least, most)
    }

    /// All violations left, with those that only the whole history shows.
    pub(super) fn end(mut self) -> Vec<String> {
        for (trainer, (_, samples)) in self.counts.clone() {
            let (least, most) = self.bounds(&trainer);
            if samples > most * (1.0 + 1e-9) + 1e-6 {
                self.found.push(format!(
                    "{trainer}: {samples} samples counted, {most} reported"
                ));
            }
            if samples < least * (1.0 - 1e-9) - 1e-6 {
                self.found.push(format!(
                    "{trainer}: {samples} samples counted, at least {least} due"
                ));
            }
        }
        let late: Vec<_> = self.wanted.keys().cloned().collect();
        for node in late {
            if self.training.get(&node) == Some(&true) && self.busy.contains(&node) {
                self.found.push(format!(
                    "{node} was wanted, and never reported that it is free"
                ));
            }
        }
        self.found
    }
}
