//! The column generator of placement: patterns of all trainers with their values, V of
//! [`crate::placement`].

use crate::placement::{FirstHits, Member, Request, Settings, net_value};
use crate::problem::Shape;

use super::bidder::{Bidder, Hits, Interval, Tolls};
use super::classes::Classes;
use super::column::{Column, Pricing};
use super::uplinks::{Uplinks, change};

/// Number of intervals that a pricing offers for a trainer: the best of as many first classes.
const OFFERS: usize = 6;

/// The kind of a column, as its tag encodes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// A pinned trainer keeps its nodes, a flexible one gets none.
    Keep,
    /// The trainer shrinks to this number of nodes, giving back from the front.
    Shrink(u32),
    /// The trainer takes an interval of free nodes.
    Interval,
    /// The trainer has the nodes that a departure has left to it.
    Left,
}

impl ColumnKind {
    pub(crate) const fn tag(self) -> u64 {
        match self {
            Self::Keep => 0,
            Self::Interval => 1,
            Self::Shrink(to) => 2 | (to as u64) << 2,
            Self::Left => 3,
        }
    }

    pub(crate) const fn of(tag: u64) -> Self {
        let of = (tag >> 2) as u32;
        match tag & 3 {
            0 => Self::Keep,
            1 => Self::Interval,
            2 => Self::Shrink(of),
            _ => Self::Left,
        }
    }
}

/// One trainer's patterns.
#[derive(Debug, Clone)]
struct TrainerColumns {
    keep: f64,
    /// Columns independent of prices: shrinking, and the remaining nodes of a hit trainer.
    fixed: Vec<Column>,
    takes: Takes,
}

/// The way in which a trainer bids for intervals.
#[derive(Debug, Clone)]
enum Takes {
    /// Not at all: it has no room, or no interval ever pays.
    Never,
    /// As the flexible trainers of this kind.
    Kind(usize),
    /// Beside its present nodes: a pinned trainer.
    Beside(Box<(Bidder, Hits)>),
}

/// Equal flexible trainers, with the columns of the last pricing.
#[derive(Debug, Clone)]
struct Kind {
    bidder: Bidder,
    like: usize,
    price: Vec<f64>,
    offers: Vec<Column>,
}

/// The patterns of all trainers.
#[derive(Debug, Clone)]
pub(crate) struct ColumnGenerator<'a> {
    classes: &'a Classes,
    hits: Hits,
    own: Vec<TrainerColumns>,
    kinds: Vec<Kind>,
    /// Free nodes of each class.
    all: Vec<i64>,
}

impl<'a> ColumnGenerator<'a> {
    /// The patterns of these members; `held` are the places of their nodes.
    pub(crate) fn new(
        classes: &'a Classes,
        uplinks: &Uplinks,
        members: &[Member<'_>],
        held: &[Vec<usize>],
        request: &Request<'_>,
        settings: &Settings,
        shadow_price: f64,
    ) -> Self {
        let tiers = request.scenarios.switches().levels();
        let mut kinds: Vec<Kind> = Vec::new();
        let mut own = Vec::with_capacity(members.len());
        let all = classes.capacity().into_iter().chain(uplinks.all.clone());
        let all: Vec<i64> = all.map(i64::from).collect();
        for (j, (member, held)) in members.iter().zip(held).enumerate() {
            let maker = Maker {
                classes,
                uplinks,
                member,
                trainer: j as u32,
                held,
                request,
                settings,
                shadow_price,
            };
            own.push(if member.is_flexible() {
                let like = |kind: &Kind| members.get(kind.like).is_some_and(|m| m.is_like(member));
                let kind = kinds.iter().position(like).unwrap_or_else(|| {
                    kinds.push(Kind {
                        bidder: Bidder::new(
                            member,
                            (0, 0.0),
                            tiers,
                            maker.tolls(&[]),
                            settings,
                            shadow_price,
                        ),
                        like: j,
                        price: Vec::new(),
                        offers: Vec::new(),
                    });
                    kinds.len() - 1
                });
                maker.flexible(kind)
            } else {
                maker.pinned(&all)
            });
        }
        let most = kinds.iter().map(|kind| kind.bidder.most).max();
        let (scenarios, horizon_s) = (request.scenarios, settings.horizon_s);
        let without = FirstHits::empty(classes.scenarios, horizon_s);
        Self {
            classes,
            hits: Hits::new(classes, &without, scenarios, horizon_s, most.unwrap_or(0)),
            own,
            kinds,
            all,
        }
    }

    /// The bidder of a trainer, if it bids.
    fn bidder(&self, j: usize) -> Option<(&Bidder, &Hits)> {
        match &self.own.get(j)?.takes {
            Takes::Never => None,
            Takes::Kind(kind) => self.kinds.get(*kind).map(|kind| (&kind.bidder, &self.hits)),
            Takes::Beside(with) => Some((&with.0, &with.1)),
        }
    }

    /// The best intervals of a bidder, as columns of trainer 0.
    fn offers(
        classes: &Classes,
        bidder: &Bidder,
        hits: &Hits,
        available: &[i64],
        price: &[f64],
    ) -> Vec<Column> {
        let mut best: Vec<(f64, Interval)> = Vec::new();
        bidder.best(available, price, classes, hits, |reduced, interval| {
            best.push((reduced, interval));
        });
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(OFFERS);
        best.into_iter()
            .map(|(_, interval)| {
                let (take, value) = bidder.apply(interval, available, price, classes, hits);
                Column {
                    trainer: 0,
                    take,
                    value,
                    tag: ColumnKind::Interval.tag(),
                }
            })
            .collect()
    }
}

/// A builder of one trainer's patterns.
struct Maker<'a, 'b> {
    classes: &'a Classes,
    uplinks: &'a Uplinks,
    member: &'a Member<'b>,
    trainer: u32,
    held: &'a [usize],
    request: &'a Request<'b>,
    settings: &'a Settings,
    shadow_price: f64,
}

impl Maker<'_, '_> {
    /// V of a set less its switching cost.
    fn value(&self, places: &[usize]) -> f64 {
        let scenarios = self.request.scenarios;
        net_value(
            self.member,
            scenarios,
            places,
            self.settings,
            self.shadow_price,
        )
    }

    fn tolls(&self, held: &[usize]) -> Tolls {
        Tolls::new(self.uplinks, self.classes, self.request.scenarios, held)
    }

    /// The uplinks that a node set crosses.
    fn crossed(&self, set: &[usize]) -> Vec<u32> {
        let switches = self.request.scenarios.switches();
        self.uplinks.crossed(switches, set)
    }

    fn flexible(&self, kind: usize) -> TrainerColumns {
        let mut fixed = Vec::new();
        // The nodes that a departure has left to it are a possible set.
        if self.member.item.is_size(self.held.len() as u32) && !self.held.is_empty() {
            let mut take = self.classes.counts(self.held.iter().copied());
            take.extend(change(&[], &self.crossed(self.held)));
            fixed.push(Column {
                trainer: self.trainer,
                take,
                value: self.value(self.held),
                tag: ColumnKind::Left.tag(),
            });
        }
        TrainerColumns {
            keep: 0.0,
            fixed,
            takes: Takes::Kind(kind),
        }
    }

    fn pinned(&self, all: &[i64]) -> TrainerColumns {
        let (scenarios, horizon) = (self.request.scenarios, self.settings.horizon_s);
        let mut set = FirstHits::empty(self.classes.scenarios, horizon);
        let mut fixed = Vec::new();
        let item = self.member.item;
        // From the back: a shrinking trainer keeps these nodes.
        for (nodes, &place) in (1_u32..).zip(self.held.iter().rev()) {
            set.add(scenarios, place);
            if nodes as usize == self.held.len() || !item.is_size(nodes) {
                continue;
            }
            let means = set.means();
            let cost = self.switching_cost(nodes, means.shape.tier);
            let value = means.value(self.member, self.shadow_price);
            fixed.push(self.shrink(nodes, value - cost));
        }
        if !self.held.is_empty() {
            fixed.push(self.shrink(0, -self.switching_cost(0, 0)));
        }
        let keep = self.value(self.held);
        let bidder = Bidder::new(
            self.member,
            (self.held.len() as u32, set.means().stay),
            scenarios.switches().levels(),
            self.tolls(self.held),
            self.settings,
            self.shadow_price,
        );
        let mut takes = Takes::Never;
        if bidder.least <= bidder.most {
            let hits = Hits::new(self.classes, &set, scenarios, horizon, bidder.most);
            let free = vec![0.0; all.len()];
            let mut pays = false;
            bidder.best(all, &free, self.classes, &hits, |value, _| {
                pays |= value > keep;
            });
            // An interval that does not pay for free pays at no price.
            if pays {
                takes = Takes::Beside(Box::new((bidder, hits)));
            }
        }
        TrainerColumns { keep, fixed, takes }
    }

    fn switching_cost(&self, nodes: u32, tier: usize) -> f64 {
        self.member
            .switching_cost(&Shape::of(nodes, tier), self.settings.hysteresis)
    }

    fn shrink(&self, to: u32, value: f64) -> Column {
        let given = self.held.len() - to as usize;
        let back = self.held.iter().copied().take(given);
        let mut take = self.classes.counts(back);
        for (_, nodes) in &mut take {
            *nodes = -*nodes;
        }
        let kept = self.held.get(given..).unwrap_or(&[]);
        take.extend(change(&self.crossed(self.held), &self.crossed(kept)));
        Column {
            trainer: self.trainer,
            take,
            value,
            tag: ColumnKind::Shrink(to).tag(),
        }
    }
}

impl Pricing for ColumnGenerator<'_> {
    fn trainers(&self) -> usize {
        self.own.len()
    }

    fn representative(&self, j: usize) -> usize {
        let kind = |j: usize| match self.own.get(j) {
            Some(TrainerColumns { fixed, takes, .. }) if fixed.is_empty() => match takes {
                Takes::Kind(kind) => Some(*kind),
                Takes::Never | Takes::Beside(_) => None,
            },
            _ => None,
        };
        let Some(own) = kind(j) else { return j };
        (0..j).find(|&i| kind(i) == Some(own)).unwrap_or(j)
    }

    fn weight(&self, k: usize) -> f64 {
        self.classes.stay.get(k).copied().unwrap_or(0.0)
    }

    fn keep(&mut self, j: usize) -> Column {
        Column {
            trainer: j as u32,
            take: Vec::new(),
            value: self.own.get(j).map_or(0.0, |own| own.keep),
            tag: ColumnKind::Keep.tag(),
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
                            Self::offers(self.classes, &kind.bidder, &self.hits, &self.all, price);
                    }
                    out.extend(of(j, &kind.offers));
                }
            }
            Takes::Beside(with) => {
                let (bidder, hits) = with.as_ref();
                let offers = Self::offers(self.classes, bidder, hits, &self.all, price);
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
        let Some((bidder, hits)) = self.bidder(j) else {
            return;
        };
        let mut near: Vec<(f64, Interval)> = Vec::new();
        bidder.near(
            &self.all,
            price,
            self.classes,
            hits,
            floor,
            |reduced, interval| {
                near.push((reduced, interval));
            },
        );
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.truncate(most);
        out.extend(near.into_iter().map(|(_, interval)| {
            let (take, value) = bidder.apply(interval, &self.all, price, self.classes, hits);
            Column {
                trainer: j as u32,
                take,
                value,
                tag: ColumnKind::Interval.tag(),
            }
        }));
        let own = self.own.get(j).into_iter().flat_map(|own| &own.fixed);
        out.extend(own.filter(|column| column.reduced(price) >= floor).cloned());
    }

    fn fit(&mut self, j: usize, free: &[i64], price: &[f64], out: &mut Vec<Column>) {
        let Some(own) = self.own.get(j) else { return };
        if let Some((bidder, hits)) = self.bidder(j) {
            let offers = Self::offers(self.classes, bidder, hits, free, price);
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
