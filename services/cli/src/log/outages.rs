//! Outages: times in which a machine ran next to nothing although it had work. No node counts as idle
//! in them. They are removed from holes in memory here, from other traces in `outage_filter.rs`.
//!
//! An outage shows in what happens, not in how much is idle: a machine that is little used, and a
//! quiet night, are no outages. For half an hour or more next to nothing runs and next to nothing
//! starts; then much starts at once, which either
//! - had waited in the queue for a good part, or
//! - is nearly the whole machine, and nearly the whole machine had become idle at once, too.
//!
//! A log without batch jobs shows only the second, and only on a machine of a hundred nodes or more:
//! the nodes of a small one may all be of one job.

use std::collections::BTreeMap;

use lacuna_model::{HoleRecord, Span, Timestamp};

/// An outage, from its start to its end.
pub(super) type Outage = (Timestamp, Timestamp);

/// The shortest outage.
const SHORTEST: Span = Span::from_secs(1800);

/// Jobs are counted by intervals of this length, milliseconds. Two neighbours are "at once".
const BIN_MS: i64 = 300_000;

/// Jobs that were submitted so long before their start have waited.
const WAITED: Span = Span::from_secs(600);

/// Shares of a machine: a good part, and nearly all.
const LEAST: f64 = 0.25;
const MOST: f64 = 0.8;

/// Fewer jobs than this are no sign, however many nodes they have.
const JOBS: u64 = 3;

/// Fewer nodes than this are no sign where jobs are not known.
const NODES: u32 = 100;

/// Starts, or ends, of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    jobs: u64,
    nodes: u64,
    /// The nodes of the largest of them.
    largest: u64,
}

impl Count {
    const fn add(&mut self, nodes: u64) {
        self.jobs += 1;
        self.nodes += nodes;
        if nodes > self.largest {
            self.largest = nodes;
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            jobs: self.jobs + other.jobs,
            nodes: self.nodes + other.nodes,
            largest: self.largest.max(other.largest),
        }
    }

    /// Whether these are several jobs, on this share of a machine or more. A machine that is drained
    /// for one large job has no outage.
    fn is_many(self, share: f64, machine: u32) -> bool {
        let machine = f64::from(machine);
        let others = (self.nodes - self.largest) as f64;
        self.jobs >= JOBS && self.nodes as f64 >= share * machine && others >= LEAST * machine
    }
}

/// What happens within one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bin {
    started: Count,
    /// Those of them that had waited.
    waited: Count,
    ended: Count,
    first_start: Option<Timestamp>,
    /// The last start or end.
    last: Option<Timestamp>,
    /// Nodes that run something after it.
    running: i64,
}

/// Starts and ends of jobs over time. Its memory grows with the length of the log, not with its jobs.
#[derive(Debug, Clone, Default)]
pub(super) struct Activity {
    bins: BTreeMap<i64, Bin>,
    running_before: i64,
}

impl Activity {
    fn bin(&mut self, at: Timestamp) -> &mut Bin {
        let bin = self
            .bins
            .entry(at.unix_ms().div_euclid(BIN_MS))
            .or_default();
        bin.last = bin.last.max(Some(at));
        bin
    }

    fn start(&mut self, at: Timestamp, nodes: u64, waited: bool) {
        let bin = self.bin(at);
        bin.first_start = Some(bin.first_start.map_or(at, |first| first.min(at)));
        bin.started.add(nodes);
        if waited {
            bin.waited.add(nodes);
        }
    }

    /// Adds a job that ran.
    pub(super) fn job(
        &mut self,
        (submit, start, end): (Option<Timestamp>, Timestamp, Option<Timestamp>),
        nodes: u64,
    ) {
        if end.is_some_and(|end| end < start) {
            return;
        }
        let waited = submit.is_some_and(|submit| submit + WAITED <= start);
        self.start(start, nodes, waited);
        if let Some(end) = end {
            self.bin(end).ended.add(nodes);
        }
    }

    /// What the holes of a machine of this many nodes show. Nothing if it is small.
    pub(super) fn of_holes(holes: &[HoleRecord], machine: u32) -> Self {
        let mut activity = Self::default();
        let first = holes.iter().map(|hole| hole.from).min();
        let last = holes.iter().map(|hole| hole.until).max();
        let (Some(first), Some(last)) = (first, last) else {
            return activity;
        };
        if machine < NODES {
            return activity;
        }
        activity.running_before = i64::from(machine);
        for hole in holes {
            // Holes at both ends of the log say nothing about when they began and ended.
            if hole.from > first {
                activity.bin(hole.from).ended.add(1);
            } else {
                activity.running_before -= 1;
            }
            if hole.until < last && !hole.censored {
                activity.start(hole.until, 1, false);
            }
        }
        activity
    }

    /// The outages of a machine of this many nodes, in order of time.
    pub(super) fn outages(mut self, machine: u32) -> Vec<Outage> {
        let mut running = self.running_before;
        for bin in self.bins.values_mut() {
            running += bin.started.nodes as i64 - bin.ended.nodes as i64;
            bin.running = running;
        }
        let bins: Vec<(i64, Bin)> = self.bins.into_iter().collect();
        (0..bins.len())
            .filter_map(|at| outage_before(&bins, at, machine))
            .collect()
    }
}

/// The outage that ends in the interval `at`, if one does.
fn outage_before(bins: &[(i64, Bin)], at: usize, machine: u32) -> Option<Outage> {
    let near_empty = i64::from(machine / 10);
    let few = u64::from(machine / 100);
    let one = |at: usize| bins.get(at).map(|(_, bin)| *bin);
    // The neighbour of an interval, if something happens in it.
    let beside = |at: usize, other: Option<usize>| {
        let (number, _) = bins.get(at)?;
        let (beside, bin) = bins.get(other?)?;
        (beside.abs_diff(*number) == 1).then_some(*bin)
    };
    let (back, after) = (one(at)?, beside(at, Some(at + 1)).unwrap_or_default());
    let started = back.started.and(after.started);
    let waited = back.waited.and(after.waited);
    let had_waited = started.is_many(LEAST, machine) && waited.nodes * 2 >= started.nodes;
    let all_back = started.is_many(MOST, machine);
    if back.started.nodes <= few || !(had_waited || all_back) {
        return None;
    }
    // The quiet intervals before it.
    let quiet = |at: usize| {
        one(at).is_some_and(|bin| bin.running <= near_empty && bin.started.nodes <= few)
    };
    let mut first = at;
    while first > 0 && quiet(first - 1) {
        first -= 1;
    }
    // What runs at the end, and the interval in which it became quiet.
    let before = one(at.checked_sub(1)?)?;
    if before.running > near_empty {
        return None;
    }
    let became = if first > 0 && one(first - 1)?.running <= near_empty {
        first - 1
    } else {
        first.min(at - 1)
    };
    let gone = one(became)?;
    let earlier = beside(became, became.checked_sub(1)).unwrap_or_default();
    let all_gone = gone.ended.and(earlier.ended).is_many(MOST, machine);
    if !(had_waited || all_gone) {
        return None;
    }
    let (from, until) = (gone.last?, back.first_start?);
    (until.since(from) >= SHORTEST).then_some((from, until))
}

/// The intervals in which more than `most` nodes are idle, in order of time.
pub(super) fn crowded(holes: &[HoleRecord], most: u32) -> Vec<Outage> {
    let ends = holes.iter().map(|hole| (hole.until, -1_i64));
    let mut changes: Vec<(Timestamp, i64)> = holes.iter().map(|hole| (hole.from, 1)).collect();
    changes.extend(ends);
    changes.sort_unstable();
    let mut crowded = Vec::new();
    let (mut idle, mut since) = (0_i64, None);
    for moment in changes.chunk_by(|a, b| a.0 == b.0) {
        let at = moment.first().map_or_else(Timestamp::default, |m| m.0);
        idle += moment.iter().map(|m| m.1).sum::<i64>();
        match (idle > i64::from(most), since) {
            (true, None) => since = Some(at),
            (false, Some(from)) => {
                crowded.push((from, at));
                since = None;
            }
            _ => {}
        }
    }
    crowded
}

/// The parts of the holes outside outages.
#[must_use]
pub(super) fn leave_out(holes: &[HoleRecord], outages: &[Outage]) -> Vec<HoleRecord> {
    let mut kept: Vec<HoleRecord> = holes.iter().flat_map(|hole| rest(hole, outages)).collect();
    kept.sort_by(|a, b| (a.from, &a.node).cmp(&(b.from, &b.node)));
    kept
}

/// The parts of a hole outside these intervals.
fn rest(hole: &HoleRecord, crowded: &[(Timestamp, Timestamp)]) -> Vec<HoleRecord> {
    let first = crowded.partition_point(|(_, until)| *until <= hole.from);
    let mut parts = Vec::new();
    let mut from = hole.from;
    let within = crowded.iter().skip(first);
    for &(begins, ends) in within.take_while(|(begins, _)| *begins < hole.until) {
        if begins > from {
            parts.push(HoleRecord {
                from,
                until: begins,
                censored: false,
                ..hole.clone()
            });
        }
        from = from.max(ends);
    }
    if from < hole.until {
        parts.push(HoleRecord {
            from,
            ..hole.clone()
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacuna_model::NodeId;

    fn hole(node: &str, from: i64, until: i64) -> HoleRecord {
        HoleRecord {
            node: NodeId::new(node).unwrap(),
            from: Timestamp::from_unix(from),
            until: Timestamp::from_unix(until),
            censored: until == 100,
        }
    }

    #[test]
    fn only_outages_are_left_out() {
        // Two nodes are idle in 20..30 and from 60 on; the second hole lies within the first.
        let holes = [hole("a", 0, 100), hole("b", 20, 30), hole("c", 60, 100)];
        let left_out = crowded(&holes, 1);
        let at = Timestamp::from_unix;
        assert_eq!(left_out, [(at(20), at(30)), (at(60), at(100))]);
        let mut first = hole("a", 0, 20);
        first.censored = false;
        let mut second = hole("a", 30, 60);
        second.censored = false;
        assert_eq!(leave_out(&holes, &left_out), [first, second]);
        assert_eq!(crowded(&holes, 2), []);
        assert_eq!(leave_out(&holes, &[]), holes);
        assert_eq!(leave_out(&holes, &crowded(&holes, 0)), []);
    }

    const HOUR: i64 = 3600;

    /// Jobs by hours of submission, start and end, each with its nodes.
    fn found(jobs: &[(f64, f64, f64, u64)], machine: u32) -> Vec<(f64, f64)> {
        let mut activity = Activity::default();
        let at = |hours: f64| Timestamp::from_unix((hours * HOUR as f64) as i64);
        for &(submit, start, end, nodes) in jobs {
            activity.job((Some(at(submit)), at(start), Some(at(end))), nodes);
        }
        let hours = |at: Timestamp| at.unix_seconds() / HOUR as f64;
        let outages = activity.outages(machine).into_iter();
        outages
            .map(|(from, until)| (hours(from), hours(until)))
            .collect()
    }

    /// Twenty jobs on the twenty nodes of a machine, over and over from hour 0 to `end`.
    fn busy(from: f64, end: f64, waited: f64) -> Vec<(f64, f64, f64, u64)> {
        let each = |node: u32| {
            let mut start = from;
            let mut jobs = Vec::new();
            while start < end {
                let until = (start + 1.0 + f64::from(node % 7) * 0.3).min(end);
                jobs.push((start - waited, start, until, 1));
                start = until;
            }
            jobs
        };
        (0..20).flat_map(each).collect()
    }

    #[test]
    fn a_machine_that_goes_and_comes_back_at_once_had_an_outage() {
        for waited in [0.0, 2.0] {
            let jobs = [busy(0.0, 30.0, waited), busy(38.0, 60.0, waited)].concat();
            assert_eq!(found(&jobs, 20), [(30.0, 38.0)], "{waited}");
        }
    }

    #[test]
    fn an_empty_machine_with_a_queue_that_then_starts_at_once_had_an_outage() {
        // It was drained: the last jobs end one by one, and a test of the operators ran between.
        let mut jobs = busy(0.0, 20.0, 2.0);
        jobs.extend((0..20).map(|node| (18.0, 20.0, 21.0 + f64::from(node) * 0.5, 1)));
        jobs.extend(busy(40.0, 60.0, 12.0));
        let outages = found(&jobs, 20);
        assert_eq!(outages.len(), 1, "{outages:?}");
        let (from, until) = outages[0];
        assert!((29.0..30.6).contains(&from) && until == 40.0, "{outages:?}");
    }

    #[test]
    fn quiet_nights_and_drains_for_large_jobs_are_no_outages() {
        // Each evening the last job ends late, and from eight in the morning jobs come one by one.
        let day = |day: u32| {
            let from = f64::from(day) * 24.0;
            (0..20).map(move |job| {
                let start = from + 8.0 + f64::from(job) * 0.21;
                (start, start, from + 17.0 + f64::from(job) * 0.3, 1)
            })
        };
        let jobs: Vec<_> = (0..20).flat_map(day).collect();
        assert_eq!(found(&jobs, 20), []);
        // Nodes become idle one by one, then one job that had waited takes all of them.
        let mut jobs = Vec::new();
        for round in 0..10 {
            let from = f64::from(round) * 10.0;
            jobs.extend((0..20).map(|node| (from, from, from + 1.0 + f64::from(node) * 0.2, 1)));
            jobs.push((from, from + 6.0, from + 9.9, 20));
        }
        assert_eq!(found(&jobs, 20), []);
    }

    #[test]
    fn holes_show_an_outage_of_a_large_machine_alone() {
        let list = |nodes: u32, from: i64, until: i64| {
            let mut holes = vec![hole("first", 0, 50), hole("last", 300_000, 300_100)];
            for node in 0..nodes {
                let name = format!("n{node}");
                let node = i64::from(node);
                holes.push(hole(&name, 1000 + 40 * node, 1030 + 40 * node));
                holes.push(hole(&name, from + node % 60, until + node % 90));
            }
            holes
        };
        let of = |holes: &[HoleRecord], nodes| Activity::of_holes(holes, nodes).outages(nodes);
        let outages = of(&list(400, 90_000, 120_000), 402);
        let at = Timestamp::from_unix;
        assert_eq!(outages, [(at(90_059), at(120_000))]);
        assert_eq!(of(&list(60, 90_000, 120_000), 62), []);
        // Half of them is a large job, and ten minutes are no outage.
        assert_eq!(of(&list(400, 90_000, 120_000), 800), []);
        assert_eq!(of(&list(400, 90_000, 90_600), 402), []);
    }
}
