//! The checker: a pure function over a history. It knows the promises, and nothing of how they are
//! kept.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{History, Observation};

/// All that was promised and not kept, of a history that has ended.
pub(super) fn violations(history: &History) -> Vec<String> {
    let mut checker = Checker::default();
    checker.read(history);
    checker.end()
}

/// Reports heard so shortly before the server was killed may be lost, seconds.
const AT_RISK_S: f64 = 10.0;

/// A word of an agent may be on its way for so long behind a slow network, and one that was frozen
/// says its old word once more, seconds.
const ON_ITS_WAY_S: f64 = 3.0;

#[derive(Debug, Clone, Copy)]
struct Report {
    heard: f64,
    until: i64,
    samples: f64,
}

/// What is known after having read so much of a history.
#[derive(Debug, Default)]
pub(super) struct Checker {
    /// How much has been read.
    pub(super) read: usize,
    found: Vec<String>,
    /// Who was told, or said, to have a node under an epoch.
    owners: BTreeMap<(String, u64), String>,
    /// The newest epoch under which an agent said that it trains, with the run.
    trained: BTreeMap<String, (u64, String, u64)>,
    /// The newest command that an agent process said it had obeyed.
    obeyed: BTreeMap<(String, String), (u64, u64)>,
    /// When a wanted node must be free.
    wanted: BTreeMap<String, f64>,
    /// What the newest word about a node was: whether it trains.
    training: BTreeMap<String, bool>,
    /// Nodes that are in use by a batch job.
    busy: BTreeSet<String>,
    generation: u64,
    /// The newest word of each process.
    words: BTreeMap<String, u64>,
    leases: BTreeMap<String, u64>,
    /// Who holds each node's lease, if anybody, and since when.
    holders: BTreeMap<String, (Option<String>, u64, f64)>,
    /// Since when an agent has said that it trains somebody else than who holds its node's lease.
    strays: BTreeMap<String, f64>,
    /// Numbers of events and what was said under them.
    events: BTreeMap<u64, (String, String)>,
    /// The greatest number of each sender.
    senders: BTreeMap<String, u64>,
    /// All reports of each run.
    reports: BTreeMap<String, BTreeMap<u64, Vec<Report>>>,
    /// When each run began: then the one before it ended, and what it did later is not counted.
    begun: BTreeMap<(String, u64), i64>,
    /// When the server may have lost its newest writes.
    at_risk: Vec<f64>,
    counts: BTreeMap<String, (u64, f64)>,
}

impl Checker {
    /// Reads on.
    pub(super) fn read(&mut self, more: &[(f64, Observation)]) {
        for (at, said) in more {
            self.take(*at, said);
        }
        self.read += more.len();
    }

    /// What was found since the last time.
    pub(super) fn found(&mut self) -> Vec<String> {
        std::mem::take(&mut self.found)
    }

    fn blame(&mut self, at: f64, text: String) {
        self.found.push(format!("at {at:.1} s: {text}"));
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
            Observation::Event { sender, seq, what } => self.event(at, sender, *seq, what),
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
                    self.begun.insert(key, *since);
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
                node,
                epoch,
                trainer,
            } => {
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
                samples,
                ..
            } => self.counted(at, trainer, *run, *samples),
            Observation::WritesAtRisk => self.at_risk.push(at),
            // What the server loses begins anew; numbers must not.
            Observation::Emptied => {
                self.at_risk.push(at);
                self.counts.clear();
            }
        }
    }

    /// Whether this is a newer word of the sender than all that were heard; else the network has
    /// swapped or repeated them.
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

    fn event(&mut self, at: f64, sender: &str, seq: u64, what: &str) {
        if let Some((who, before)) = self.events.get(&seq)
            && (who != sender || before != what)
        {
            let text = format!("event {seq} is {before:?} and {what:?}");
            self.blame(at, text);
        }
        let newest = self.senders.values().copied().max().unwrap_or_default();
        if !self.senders.contains_key(sender) && seq <= newest {
            let text = format!("a new sender begins with event {seq} after {newest}");
            self.blame(at, text);
        }
        let own = self.senders.entry(sender.to_owned()).or_default();
        let later = seq > *own;
        *own = (*own).max(seq);
        // One that was overtaken may still be heard, but never with the newest number.
        if later && seq > newest && newest > 0 {
            let last = self.events.last_key_value();
            if let Some((_, (who, _))) = last
                && who != sender
                && self.events.values().any(|(s, _)| s == sender)
            {
                let text = format!("event {seq} is of a sender that was overtaken");
                self.blame(at, text);
            }
        }
        let entry = (sender.to_owned(), what.to_owned());
        self.events.entry(seq).or_insert(entry);
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

    /// A node must be free before it is somebody else's: an agent that goes on to say that it trains
    /// another trainer than the one that has held the lease for a while has not been waited for.
    fn strays(&mut self, at: f64, node: &str, epoch: u64, trainer: &str) {
        let other = self.holders.get(node).and_then(|(holder, newer, since)| {
            let holder = holder.as_ref()?;
            let strays = *newer > epoch && holder != trainer && at > since + ON_ITS_WAY_S;
            strays.then(|| (holder.clone(), *since))
        });
        let Some((holder, since)) = other else {
            self.strays.remove(node);
            return;
        };
        let first = *self.strays.entry(node.to_owned()).or_insert(at);
        if at > first + ON_ITS_WAY_S {
            let text = format!("{node} trains {trainer}, and is {holder}'s since {since:.1} s");
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

    /// What the books of a trainer must have at least, and at most. Of each run the last report
    /// before its end may be missing, and what the server may have lost. A run whose end was not heard
    /// (the server was away, and the next run heard is a later one) has nothing due. It may have
    /// ended long before that later run began, and work after its end does not count.
    fn standing(&self, trainer: &str) -> (f64, f64) {
        let (mut least, mut most) = (0.0, 0.0);
        for (run, reports) in self.reports.get(trainer).into_iter().flatten() {
            let next = (trainer.to_owned(), run + 1)..=(trainer.to_owned(), u64::MAX);
            let following = self.begun.range(next).next();
            let unsaid = following.is_some_and(|((_, later), _)| *later != run + 1);
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
            // What it reported of the time after its end is in here too: agents whose clock is wrong
            // date all of it so.
            most += reports.iter().map(|r| r.samples).fold(0.0, f64::max);
        }
        (least, most)
    }

    /// What can be judged only when all reports have been heard.
    pub(super) fn end(mut self) -> Vec<String> {
        for (trainer, (_, samples)) in self.counts.clone() {
            let (least, most) = self.standing(&trainer);
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
                self.found
                    .push(format!("{node} was wanted, and never said that it is free"));
            }
        }
        self.found
    }
}
