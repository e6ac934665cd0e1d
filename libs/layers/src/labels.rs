//! Exact search with limits at one rate: the units used so far are part of the state.
//!
//! A *label* at (j, t) is a way to run layers 1..j whose last stage is on t, with its spend and its
//! units of the tracked kinds. What a completion costs and uses depends on (j, t) alone: the next
//! stage needs `k` units by its layers, its kind, the rate, and the kind before it. So
//!
//! - *dominance*: of two labels at (j, t), one that spends no less and uses no less of each tracked
//!   kind is dropped: each completion of it is one of the other too, and not cheaper there.
//! - *bound*: with `H` of the weights `p + λ`, each completion of a label within the limits spends at
//!   least `spend + Σ λ_t (used_t - N_t) + H_j(t)`. A label whose bound is not below the best known
//!   spend is dropped.
//! - *limits*: with `H` of weights 1 for one kind and 0 for the others, a completion uses at least
//!   that much of it. A label that exceeds a limit with it is dropped.
//!
//! What remains at j = L with the least spend is a best plan: no drop loses all best plans. Where
//! a width bounds the labels at a place, the least bound of those left out limits what is proven.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; places, kinds and labels are numbers of tables made in this file"
)]

use crate::model::{Load, ROUNDING, Step, Terms, share_out, whole};
use crate::program::{Count, Program};

/// What is searched.
pub(crate) struct Search<'a> {
    pub(crate) terms: &'a Terms,
    /// 1/x.
    pub(crate) y: f64,
    pub(crate) prices: &'a [f64],
    pub(crate) tracked: &'a [usize],
    /// Prices with multipliers, by kind.
    pub(crate) weights: &'a [f64],
    /// `Σ λ_t N_t`.
    pub(crate) free: f64,
    /// The most labels at a place.
    pub(crate) width: usize,
    /// Whether any plan will do.
    pub(crate) any: bool,
}

/// A label; its units of tracked kinds are in the arena.
#[derive(Debug, Clone, Copy)]
struct Label {
    spend: f64,
    bound: f64,
    /// The label before, or itself at the start.
    before: usize,
    step: Step,
}

/// The labels, and what was found.
#[derive(Debug)]
pub(crate) struct Labels {
    labels: Vec<Label>,
    /// Units of the tracked kinds, label after label.
    used: Vec<u32>,
    /// The best stages below the given spend.
    pub(crate) steps: Option<Vec<Step>>,
    /// No plan within the tracked limits spends less.
    pub(crate) at_least: f64,
}

/// A stage that may follow.
struct Next {
    step: Step,
    class: usize,
}

impl Labels {
    /// Searches plans that spend less than `upper`.
    pub(crate) fn search(search: &Search<'_>, upper: f64) -> Self {
        let (layers, kinds) = (search.terms.layers(), search.terms.kinds().len());
        let count = (Count::Whole, f64::INFINITY);
        let whole = |weights: &[f64]| Program::solve(search.terms, search.y, count, weights);
        let to_go = whole(search.weights);
        let needed: Vec<Program> = search
            .tracked
            .iter()
            .map(|&t| {
                let one = |kind| if kind == t { 1.0 } else { 0.0 };
                whole(&(0..kinds).map(one).collect::<Vec<f64>>())
            })
            .collect();
        let mut found = Self {
            labels: Vec::new(),
            used: Vec::new(),
            steps: None,
            at_least: upper,
        };
        let mut upper = upper;
        let mut best = None;
        let mut fronts: Vec<Vec<usize>> = vec![Vec::new(); (layers + 1) * kinds];
        let mut left_out = f64::INFINITY;
        for i in 0..layers {
            let nexts: Vec<Vec<Next>> = (0..kinds).map(|t| nexts(search, i, t)).collect();
            for before in 0..if i == 0 { 1 } else { kinds } {
                let front = std::mem::take(&mut fronts[i * kinds + before]);
                let (front, dropped) = found.thin(front, search, upper);
                left_out = left_out.min(dropped);
                let starts = front.into_iter().map(Some);
                let starts: Vec<Option<usize>> = if i == 0 { vec![None] } else { starts.collect() };
                for label in starts {
                    for t in (0..kinds).filter(|&t| i == 0 || t != before) {
                        let class = if i == 0 {
                            0
                        } else {
                            search.terms.kind(t).class_of(before)
                        };
                        for next in nexts[t].iter().filter(|next| next.class == class) {
                            let Some(id) =
                                found.push(search, (&to_go, &needed), label, next.step, upper)
                            else {
                                continue;
                            };
                            if next.step.until < layers {
                                fronts[next.step.until * kinds + t].push(id);
                                continue;
                            }
                            upper = found.labels[id].spend;
                            best = Some(id);
                            if search.any {
                                found.at_least = 0.0;
                                found.steps = Some(found.trace(id));
                                return found;
                            }
                        }
                    }
                }
            }
        }
        found.at_least = upper.min(left_out);
        found.steps = best.map(|id| found.trace(id));
        found
    }

    /// Adds a label unless its bound or a limit drops it.
    fn push(
        &mut self,
        search: &Search<'_>,
        (to_go, needed): (&Program, &[Program]),
        before: Option<usize>,
        step: Step,
        upper: f64,
    ) -> Option<usize> {
        let id = self.labels.len();
        let units = f64::from(step.units);
        let spent = before.map_or(0.0, |label| self.labels[label].spend);
        let spend = spent + search.prices[step.kind] * units;
        let mut bound = spend - search.free + to_go.to_go(step.until, step.kind);
        let dims = search.tracked.len();
        let start = self.used.len();
        for (place, &t) in search.tracked.iter().enumerate() {
            let own = if t == step.kind { step.units } else { 0 };
            let before = before.map_or(0, |label| self.used[label * dims + place]);
            let used = before.saturating_add(own);
            let needed = needed[place].to_go(step.until, step.kind);
            if f64::from(used) + needed > search.terms.kind(t).most {
                self.used.truncate(start);
                return None;
            }
            bound += (search.weights[t] - search.prices[t]) * f64::from(used);
            self.used.push(used);
        }
        if bound >= upper * (1.0 - ROUNDING) || spend >= upper {
            self.used.truncate(start);
            return None;
        }
        self.labels.push(Label {
            spend,
            bound,
            before: before.unwrap_or(id),
            step,
        });
        Some(id)
    }

    /// Drops labels of a place that are dominated or too dear by now, and those beyond the width,
    /// with the least bound of the latter.
    fn thin(&self, mut front: Vec<usize>, search: &Search<'_>, upper: f64) -> (Vec<usize>, f64) {
        let dims = search.tracked.len();
        let used = |id: usize| &self.used[id * dims..(id + 1) * dims];
        front.retain(|&id| self.labels[id].bound < upper * (1.0 - ROUNDING));
        front.sort_by(|&a, &b| {
            let spends = self.labels[a].spend.total_cmp(&self.labels[b].spend);
            spends.then_with(|| used(a).cmp(used(b)))
        });
        let mut kept: Vec<usize> = Vec::new();
        for id in front {
            let mine = used(id);
            let dominates = |&other: &usize| used(other).iter().zip(mine).all(|(o, m)| o <= m);
            if !kept.iter().any(dominates) {
                kept.push(id);
            }
        }
        if kept.len() <= search.width {
            return (kept, f64::INFINITY);
        }
        kept.sort_by(|&a, &b| self.labels[a].bound.total_cmp(&self.labels[b].bound));
        let dropped = self.labels[kept[search.width]].bound;
        kept.truncate(search.width);
        (kept, dropped)
    }

    fn trace(&self, mut id: usize) -> Vec<Step> {
        let mut steps = vec![self.labels[id].step];
        while self.labels[id].before != id {
            id = self.labels[id].before;
            steps.push(self.labels[id].step);
        }
        steps.reverse();
        steps
    }
}

/// The stages on a kind that may begin at a place.
fn nexts(search: &Search<'_>, i: usize, t: usize) -> Vec<Next> {
    let kind = search.terms.kind(t);
    let mut nexts = Vec::new();
    let mut load = Load::default();
    for j in i + 1..=search.terms.layers() {
        load.add(kind.load(j - 1));
        let inside = kind.units_inside(&load, search.y);
        if inside > kind.most {
            break;
        }
        for class in kind.classes_at(i) {
            let all = load.with_incoming(kind.incoming(i, class));
            let sent = whole(share_out(all.sent_parallel, all.sent_serial, search.y));
            let units = inside.max(sent);
            if units <= kind.most {
                nexts.push(Next {
                    step: Step {
                        from: i,
                        until: j,
                        kind: t,
                        units: units as u32,
                    },
                    class,
                });
            }
        }
    }
    nexts
}
