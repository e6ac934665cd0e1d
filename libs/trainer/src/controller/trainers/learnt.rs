//! How fast a trainer learns on each number of nodes, from what its program reports of its steps and
//! of its gradient's noise.
//!
//! A worker's seconds lie on a line through the shares that it had, and what else a step takes was
//! measured for each number of workers. `lacuna-goodput` takes these times where there are any, and
//! goes on from them at other sizes, up to twice the largest one that was seen: by the replay of the
//! newest step if it can be trusted, and else by the model of Pollux (OSDI 2021). At each size it
//! chooses the batch, as the program does or within its bounds. The noise scale counts less by its
//! error, so doubt keeps batches and trainers small.
//!
//! Programs say what they like, as often as they like, and a table of many sizes takes a while. So a
//! report is looked at a minute after the last one, and sizes are seen only up to the most nodes that
//! the trainer has had.
//!
//! A trainer with rates by kind of node has the table of the kind on which it was timed last; of
//! nodes of several kinds none is made. `lacuna_rates` says what it is worth on other kinds.

use std::borrow::Cow;
use std::collections::BTreeSet;

use lacuna_goodput::{BatchRule, Bounds, Error, GoodputCurve, Noise, Observation, StepProfile};
use lacuna_model::{
    Follows, Goodput, GoodputAt, KindName, Learning, Sizing, StepCosts, StepModel, Tier, Timestamp,
    TrainerRecord,
};

/// Sizes of this number and below stand in the record; beyond it half as many for each doubling.
const FINE: u32 = 32;

/// Seconds between two reports of which tables are made.
const APART_S: f64 = 60.0;

/// The newest table of a trainer beside its record.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Learnt {
    published: Option<GoodputCurve>,
    /// When a table was last made, or could not be.
    made: Option<Timestamp>,
    /// The most nodes that an incarnation had.
    most_nodes: u32,
}

/// Whole numbers of a report, which `lacuna-goodput` takes as `u32`.
fn narrow(samples: u64) -> u32 {
    u32::try_from(samples).unwrap_or(u32::MAX)
}

impl Learnt {
    /// Takes a report. Returns whether the record has another table.
    pub(crate) fn observe(
        &mut self,
        record: &mut TrainerRecord,
        learning: &Learning,
        at: Timestamp,
        kind: Option<&KindName>,
    ) -> bool {
        let present = u32::try_from(record.nodes.len()).unwrap_or(u32::MAX);
        self.most_nodes = self.most_nodes.max(present).max(half_of_known(record));
        let is_soon = |made: Timestamp| (0.0..APART_S).contains(&at.since(made).as_secs_f64());
        if learning.sizing.is_none() || self.made.is_some_and(is_soon) {
            return false;
        }
        self.made = Some(at);
        let Some((table, unit)) = table(record, kind, learning, self.most_nodes) else {
            return false;
        };
        let is_of_another_kind =
            (record.goodput.as_deref()).is_some_and(|old| old.kind.as_ref() != kind);
        let is_news =
            is_of_another_kind || (self.published.as_ref()).is_none_or(|old| table.is_news(old));
        if is_news {
            record.goodput = Some(Box::new(Goodput {
                at,
                kind: kind.cloned(),
                sizes: sizes(&table, unit),
            }));
            self.published = Some(table);
        }
        is_news
    }
}

/// The most nodes that were seen when control made the record's table, before it started again: a
/// table goes on to twice as many.
fn half_of_known(record: &TrainerRecord) -> u32 {
    let sizes = record.goodput.as_ref().map(|known| &known.sizes);
    let last = sizes.and_then(|sizes| sizes.last());
    last.map_or(0, |last| last.nodes / 2)
}

/// Sizes of a table, in samples of the user's batch: `unit` of one sample of the table's.
fn sizes(table: &GoodputCurve, unit: f64) -> Vec<GoodputAt> {
    let entries = (0_u32..).zip(table.entries());
    let last = table.entries().len().saturating_sub(1);
    let is_kept = |nodes: u32| {
        let step = nodes.next_power_of_two() / FINE;
        step < 2 || nodes.is_multiple_of(step) || nodes as usize == last
    };
    let kept = entries.filter(|(nodes, _)| is_kept(*nodes));
    let of = kept.filter_map(|(nodes, entry)| {
        let choice = entry.choice?;
        Some(GoodputAt {
            nodes,
            batch: choice.batch as u64,
            efficiency: choice.efficiency * unit,
            rate: choice.goodput * unit,
        })
    });
    of.collect()
}

/// The table of a trainer, and the samples of the user's batch that one of its samples is worth;
/// nothing if its program does not say enough, or what makes no sense.
fn table(
    record: &TrainerRecord,
    kind: Option<&KindName>,
    learning: &Learning,
    most_nodes: u32,
) -> Option<(GoodputCurve, f64)> {
    let sizing = learning.sizing.as_deref()?;
    // Its seconds are those of one kind: a change of kind starts the program again.
    let spec = match kind {
        None => Cow::Borrowed(&record.spec),
        Some(kind) => Cow::Owned(record.spec.on_kind(kind)),
    };
    let per_node = spec.launch.workers_per_node();
    let user = narrow(learning.user_batch);
    // The least batch is the unit: efficiency is defined from there on.
    let (rule, first, most) = match sizing.follows {
        Follows::Whole => (BatchRule::Whole, user, user),
        Follows::Adaptive => (BatchRule::Best, user, narrow(sizing.most).max(user)),
        Follows::PerNode { samples } => {
            let samples = narrow(samples);
            let of = |nodes: u32| samples.saturating_mul(nodes);
            let first = of(spec.min_nodes).min(user);
            (
                BatchRule::PerNode(samples),
                first,
                of(spec.max_nodes).max(first),
            )
        }
    };
    let mut rests = sizing.rest_s.clone();
    let each = per_node.max(1);
    rests.retain(|row| row.0.is_multiple_of(each) && row.0 / each <= most_nodes);
    let largest = rests.iter().map(|row| row.0 / each).max()?;
    if let Some(costs) = record.step_costs.as_deref() {
        rests.extend(replayed(sizing, costs, learning.batch as f64, per_node));
    }
    let seen = observations(sizing, &rests, per_node, (first, most));
    let sizes = (
        spec.min_nodes,
        largest
            .saturating_mul(2)
            .min(spec.max_nodes)
            .max(spec.min_nodes),
    );
    let found = || -> Result<(GoodputCurve, f64), Error> {
        // A worker's share of the user's own batch fits at the least size: programs train with it.
        let own = first.div_ceil(spec.min_nodes.saturating_mul(per_node).max(1));
        let worker = sizing.most_of_worker.map_or(most, narrow).max(own);
        let bounds = Bounds::new(first, most, (1, worker), false)?;
        let noise = Noise::of_scale(learning.noise_scale / f64::from(first))?;
        let noise = noise.doubted(learning.error)?;
        let unit = noise.efficiency(f64::from(user) / f64::from(first))?;
        let table = GoodputCurve::new(
            &StepProfile::new(&seen)?,
            noise,
            &bounds,
            rule,
            sizes,
            per_node,
        )?;
        Ok((table, 1.0 / unit))
    };
    found().ok()
}

/// By numbers of workers that were never seen, of which a replayed step tells: what it would take
/// beside the work of the longest. `batch` is the present one, in samples.
fn replayed(sizing: &Sizing, costs: &StepCosts, batch: f64, per_node: u32) -> Vec<(u32, f64)> {
    let (now, each) = (costs.members, per_node.max(1));
    let here = sizing.rest_s.iter().find(|row| row.0 == now);
    let is_sound = StepModel::of(costs, now / each, Tier(0), Timestamp::default()).is_some();
    let Some(&(_, here)) = here.filter(|_| is_sound) else {
        return Vec::new();
    };
    let rows = costs.elsewhere.iter().filter(|row| {
        let is_seen = sizing.rest_s.iter().any(|seen| seen.0 == row.members);
        // The workers of one node have another link.
        let has_link = row.members > each || each == 1;
        row.is_near() && !is_seen && has_link && row.members.is_multiple_of(each)
    });
    let rest = rows.map(|row| {
        let members = f64::from(row.members);
        let own = batch / f64::from(now);
        let there = costs
            .batch(row.members)
            .map_or(own, |over| batch * over / members);
        let more = row.step - costs.replayed - sizing.sample_s * (there - own);
        (row.members, (here + more).max(0.0))
    });
    rest.filter(|row| row.1.is_finite()).collect()
}

/// Steps at these numbers of workers with the least and the largest batch, on the line of a
/// worker's seconds. What one worker alone needs beside its samples belongs to its pass.
fn observations(
    sizing: &Sizing,
    rests: &[(u32, f64)],
    per_node: u32,
    batches: (u32, u32),
) -> Vec<Observation> {
    let alone = sizing.rest_s.iter().find(|row| row.0 == 1);
    let own = sizing.fixed_s + alone.map_or(0.0, |row| row.1);
    let rows = rests.iter();
    let rows = rows.filter(|row| row.0 > 0 && row.0.is_multiple_of(per_node.max(1)));
    rows.flat_map(|&(workers, rest_s)| {
        let shares: BTreeSet<u32> = [batches.0, batches.1]
            .map(|all| all.div_ceil(workers))
            .into();
        shares.into_iter().map(move |local| {
            let samples_s = sizing.sample_s * f64::from(local);
            let pass_s = own + samples_s;
            Observation {
                nodes: workers / per_node.max(1),
                replicas: workers,
                local,
                pass_s,
                step_s: (sizing.fixed_s + samples_s + rest_s).max(pass_s),
            }
        })
    })
    .collect()
}
