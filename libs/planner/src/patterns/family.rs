//! The patterns of a joint allocation with their values, V of [`crate::joint`].

use crate::joint::{Member, Request, Settings};
use crate::patterns::cells::Cells;
use crate::patterns::column::{Column, Patterns};
use crate::patterns::takers::{Hits, Run, Taker};

/// How many runs a pricing gives out for a trainer: the best from as many first cells.
const OFFERS: usize = 6;

/// What a column does, as its mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A bound trainer keeps what it has, a loose one gets nothing.
    Keep,
    /// The trainer goes down to so many nodes, giving back from the front.
    Shrink(u32),
    /// It takes a run of free nodes.
    Run,
    /// It takes the node set that it has in the plan of this number.
    Set(u32),
}

impl Deed {
    pub(crate) const fn tag(self) -> u64 {
        match self {
            Self::Keep => 0,
            Self::Run => 1,
            Self::Shrink(to) => 2 | (to as u64) << 2,
            Self::Set(plan) => 3 | (plan as u64) << 2,
        }
    }

    pub(crate) const fn of(tag: u64) -> Self {
        let of = (tag >> 2) as u32;
        match tag & 3 {
            0 => Self::Keep,
            1 => Self::Run,
            2 => Self::Shrink(of),
            _ => Self::Set(of),
        }
    }
}

/// One trainer's patterns.
#[derive(Debug, Clone)]
struct Own {
    keep: f64,
    /// Columns that no price changes: shrinking, and what is left to a trainer that was hit.
    fixed: Vec<Column>,
    takes: Takes,
}

/// How a trainer takes runs.
#[derive(Debug, Clone)]
enum Takes {
    /// It has no room, or no run ever pays.
    Never,
    /// As the loose trainers of this kind do.
    Kind(usize),
    /// A bound trainer, beside what it has.
    Beside(Box<(Taker, Hits)>),
}

/// Loose trainers that are alike, with what the last pricing found for them.
#[derive(Debug, Clone)]
struct Kind {
    taker: Taker,
    like: usize,
    price: Vec<f64>,
    offers: Vec<Column>,
}

/// The patterns of all trainers.
#[derive(Debug, Clone)]
pub(crate) struct Family<'a> {
    cells: &'a Cells,
    hits: Hits,
    own: Vec<Own>,
    kinds: Vec<Kind>,
    /// Free nodes of each cell.
    all: Vec<i64>,
}

impl<'a> Family<'a> {
    /// The patterns of these members; `held` are the places of their nodes.
    pub(crate) fn new(
        cells: &'a Cells,
        members: &[Member<'_>],
        held: &[Vec<usize>],
        request: &Request<'_>,
        settings: &Settings,
        salvage: f64,
    ) -> Self {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut own = Vec::with_capacity(members.len());
        let all: Vec<i64> = cells.capacity().into_iter().map(i64::from).collect();
        for (j, (member, held)) in members.iter().zip(held).enumerate() {
            let maker = Maker {
                cells,
                member,
                trainer: j as u32,
                held,
                request,
                settings,
                salvage,
            };
            own.push(if member.is_loose() {
                let like = |kind: &Kind| members.get(kind.like).is_some_and(|m| m.is_like(member));
                let kind = kinds.iter().position(like).unwrap_or_else(|| {
                    kinds.push(Kind {
                        taker: Taker::new(member, 0, 0.0, settings, salvage),
                        like: j,
                        price: Vec::new(),
                        offers: Vec::new(),
                    });
                    kinds.len() - 1
                });
                maker.loose(kind)
            } else {
                maker.bound(&all)
            });
        }
        let most = kinds.iter().map(|kind| kind.taker.most).max();
        let nobody = vec![settings.horizon_s; cells.scenarios];
        Self {
            cells,
            hits: Hits::new(cells, &nobody, settings.horizon_s, most.unwrap_or(0)),
            own,
            kinds,
            all,
        }
    }

    /// How a trainer takes runs, if it does.
    fn taker(&self, j: usize) -> Option<(&Taker, &Hits)> {
        match &self.own.get(j)?.takes {
            Takes::Never => None,
            Takes::Kind(kind) => self.kinds.get(*kind).map(|kind| (&kind.taker, &self.hits)),
            Takes::Beside(with) => Some((&with.0, &with.1)),
        }
    }

    /// The best runs of a taker, as columns of nobody.
    fn offers(
        cells: &Cells,
        taker: &Taker,
        hits: &Hits,
        available: &[i64],
        price: &[f64],
    ) -> Vec<Column> {
        let mut best: Vec<(f64, Run)> = Vec::new();
        taker.best(available, price, cells, hits, |reduced, run| {
            best.push((reduced, run));
        });
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(OFFERS);
        best.into_iter()
            .map(|(_, run)| {
                let (take, value) = taker.carry_out(run, available, price, cells, hits);
                Column {
                    trainer: 0,
                    take,
                    value,
                    tag: Deed::Run.tag(),
                }
            })
            .collect()
    }
}

/// Works out one trainer's patterns.
struct Maker<'a, 'b> {
    cells: &'a Cells,
    member: &'a Member<'b>,
    trainer: u32,
    held: &'a [usize],
    request: &'a Request<'b>,
    settings: &'a Settings,
    salvage: f64,
}

impl Maker<'_, '_> {
    fn worth(&self, places: &[usize]) -> f64 {
        let places = places.iter().copied();
        let (scenarios, horizon) = (self.request.scenarios, self.settings.horizon_s);
        crate::joint::worth(self.member, scenarios, places, horizon, self.salvage)
    }

    fn charge(&self, nodes: usize) -> f64 {
        self.member.charge(nodes as u32, self.settings.hysteresis)
    }

    fn loose(&self, kind: usize) -> Own {
        let mut fixed = Vec::new();
        // What a departure has left to it is as good a set as any.
        if self.member.item.is_size(self.held.len() as u32) && !self.held.is_empty() {
            fixed.push(Column {
                trainer: self.trainer,
                take: self.cells.counts(self.held.iter().copied()),
                value: self.worth(self.held) - self.charge(self.held.len()),
                tag: Deed::Set(0).tag(),
            });
        }
        Own {
            keep: 0.0,
            fixed,
            takes: Takes::Kind(kind),
        }
    }

    fn bound(&self, all: &[i64]) -> Own {
        let (scenarios, horizon) = (self.request.scenarios, self.settings.horizon_s);
        let count = self.cells.scenarios;
        let mut until = vec![horizon; count];
        let (mut stay, mut fixed) = (0.0, Vec::new());
        let item = self.member.item;
        // From the back: the nodes that are kept when it shrinks.
        for (nodes, &place) in (1_u32..).zip(self.held.iter().rev()) {
            for (until, leave) in until.iter_mut().zip(scenarios.of(place)) {
                *until = until.min(*leave);
            }
            stay += scenarios.stay_s(place, horizon);
            if nodes as usize == self.held.len() || !item.is_size(nodes) {
                continue;
            }
            let hits = until.iter().filter(|&&t| t < horizon).count() as f64 / count as f64;
            let first = until.iter().sum::<f64>() / count as f64;
            let value = self.member.rate(nodes) * (first - item.down_s * hits)
                + self.salvage * (stay - f64::from(nodes) * first);
            fixed.push(self.shrink(nodes, value));
        }
        if !self.held.is_empty() {
            fixed.push(self.shrink(0, 0.0));
        }
        let keep = self.worth(self.held) - self.charge(self.held.len());
        let taker = Taker::new(
            self.member,
            self.held.len() as u32,
            stay,
            self.settings,
            self.salvage,
        );
        let mut takes = Takes::Never;
        if taker.least <= taker.most {
            let hits = Hits::new(self.cells, &until, horizon, taker.most);
            let free = vec![0.0; all.len()];
            let mut pays = false;
            taker.best(all, &free, self.cells, &hits, |value, _| {
                pays |= value > keep;
            });
            // What does not pay for nothing pays at no price.
            if pays {
                takes = Takes::Beside(Box::new((taker, hits)));
            }
        }
        Own { keep, fixed, takes }
    }

    fn shrink(&self, to: u32, value: f64) -> Column {
        let given = self.held.len() - to as usize;
        let back = self.held.iter().copied().take(given);
        let mut take = self.cells.counts(back);
        for (_, nodes) in &mut take {
            *nodes = -*nodes;
        }
        Column {
            trainer: self.trainer,
            take,
            value: value - self.charge(to as usize),
            tag: Deed::Shrink(to).tag(),
        }
    }
}

impl Patterns for Family<'_> {
    fn trainers(&self) -> usize {
        self.own.len()
    }

    fn like(&self, j: usize) -> usize {
        let kind = |j: usize| match self.own.get(j) {
            Some(Own { fixed, takes, .. }) if fixed.is_empty() => match takes {
                Takes::Kind(kind) => Some(*kind),
                Takes::Never | Takes::Beside(_) => None,
            },
            _ => None,
        };
        let Some(own) = kind(j) else { return j };
        (0..j).find(|&i| kind(i) == Some(own)).unwrap_or(j)
    }

    fn weight(&self, k: usize) -> f64 {
        self.cells.stay.get(k).copied().unwrap_or(0.0)
    }

    fn keep(&mut self, j: usize) -> Column {
        Column {
            trainer: j as u32,
            take: Vec::new(),
            value: self.own.get(j).map_or(0.0, |own| own.keep),
            tag: Deed::Keep.tag(),
        }
    }

    fn price(&mut self, j: usize, price: &[f64], out: &mut Vec<Column>) {
        let Some(own) = self.own.get(j) else { return };
        match &own.takes {
            Takes::Never => {}
            Takes::Kind(kind) => {
                if let Some(kind) = self.kinds.get_mut(*kind) {
                    if kind.price != price {
                        kind.price = price.to_vec();
                        kind.offers =
                            Self::offers(self.cells, &kind.taker, &self.hits, &self.all, price);
                    }
                    out.extend(of(j, &kind.offers));
                }
            }
            Takes::Beside(with) => {
                let (taker, hits) = with.as_ref();
                let offers = Self::offers(self.cells, taker, hits, &self.all, price);
                out.extend(of(j, &offers));
            }
        }
        let best = own
            .fixed
            .iter()
            .max_by(|a, b| a.reduced(price).total_cmp(&b.reduced(price)));
        out.extend(best.cloned());
    }

    fn near(&mut self, j: usize, price: &[f64], floor: f64, most: usize, out: &mut Vec<Column>) {
        let Some((taker, hits)) = self.taker(j) else {
            return;
        };
        let mut near: Vec<(f64, Run)> = Vec::new();
        taker.near(&self.all, price, self.cells, hits, floor, |reduced, run| {
            near.push((reduced, run));
        });
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.truncate(most);
        out.extend(near.into_iter().map(|(_, run)| {
            let (take, value) = taker.carry_out(run, &self.all, price, self.cells, hits);
            Column {
                trainer: j as u32,
                take,
                value,
                tag: Deed::Run.tag(),
            }
        }));
        let own = self.own.get(j).into_iter().flat_map(|own| &own.fixed);
        out.extend(own.filter(|column| column.reduced(price) >= floor).cloned());
    }

    fn fit(&mut self, j: usize, free: &[i64], price: &[f64], out: &mut Vec<Column>) {
        let Some(own) = self.own.get(j) else { return };
        if let Some((taker, hits)) = self.taker(j) {
            let offers = Self::offers(self.cells, taker, hits, free, price);
            out.extend(of(j, &offers));
        }
        let fitting = own.fixed.iter().filter(|column| column.fits(free));
        out.extend(fitting.cloned());
        let keep = self.keep(j);
        out.push(keep);
    }
}

/// The columns as those of trainer `j`.
fn of(j: usize, columns: &[Column]) -> impl Iterator<Item = Column> + '_ {
    let trainer = j as u32;
    columns.iter().map(move |column| Column {
        trainer,
        ..column.clone()
    })
}
