//! The learning of the hazard: the choice of an order, samples, and the times of fits.

use super::core::{HazardCore, by_age};
use super::features::{Place, RawFeatures};
use super::present::By;
use super::settings::OrderState;
use super::trust::{Compared, HOLES};
use crate::OrderBy;

/// The number of events after which a given order without significant evidence is dropped.
const PATIENCE: u64 = 300;

/// The margin by which the learnt order must beat the names, in mean places.
const PLAINER: f64 = 0.04;

impl HazardCore {
    /// Updates the correction between fits.
    pub(super) fn follow(&mut self, now_s: f64) {
        if let Some(model) = &self.model
            && self.drift.is_due(now_s)
        {
            self.drift.update(model, &self.samples.list, now_s);
        }
    }

    /// Learns from the places of the leaving nodes.
    pub(super) fn witness(&mut self, by: By) {
        if let Some(place) = self.present.mean_place(By::Rank) {
            let nodes = self.present.leaving.len();
            let is_reversed = self.state == OrderState::Reversed;
            self.given
                .event(if is_reversed { 1.0 - place } else { place }, nodes);
            if self.has_ranks
                && let Some(place) = self.present.mean_place(By::Taken)
            {
                self.by_taken.event(place, nodes);
            }
            let list = self.present.list(By::Rank);
            self.taken.event(list, &self.present.leaving);
        }
        let list = self.present.list(by);
        for (&a, &b) in list.iter().zip(list.iter().skip(1)) {
            let leaves = |node| self.present.slot(node).is_leaving;
            if leaves(a) || leaves(b) {
                self.links
                    .pair(self.present.pair_features(a, b), leaves(a) && leaves(b));
            }
        }
        self.links.event();
    }

    /// Chooses the order that the evidence supports.
    pub(super) fn reconsider(&mut self) {
        let events = self.given.events();
        let state = match self.settings.order {
            OrderBy::None => OrderState::Released,
            OrderBy::Learnt => {
                let names = self.given.mean().unwrap_or(0.5);
                let (by_names, place) = if self.given.holds() {
                    (OrderState::Given, names)
                } else if self.given.is_reversed() {
                    (OrderState::Reversed, 1.0 - names)
                } else {
                    (OrderState::Released, 0.5)
                };
                let taken = self.by_taken.mean().unwrap_or(0.5);
                // Without a margin, two orders of about equal evidence would alternate.
                let plainer = match self.state {
                    OrderState::Taken => -PLAINER,
                    _ => PLAINER,
                };
                if self.by_taken.holds() && taken + plainer < place {
                    OrderState::Taken
                } else {
                    by_names
                }
            }
            OrderBy::Names | OrderBy::List(_) | OrderBy::Weights(_) => {
                let is_traceless = events >= PATIENCE && self.given.z().is_some_and(|z| z < 2.0);
                if self.given.is_reversed() || is_traceless {
                    OrderState::Released
                } else if self.given.holds() {
                    OrderState::Given
                } else {
                    self.state
                }
            }
        };
        if state != self.state {
            let was_given = self.settings.order != OrderBy::Learnt;
            if was_given && state == OrderState::Released {
                self.anomalies.contradicted += 1;
            }
            self.turn(state);
        }
    }

    /// Switches to another order.
    pub(super) fn turn(&mut self, state: OrderState) {
        self.state = state;
        self.present.reverse(state == OrderState::Reversed);
    }

    /// Fills `rows` with the features of the holes at the wanted places.
    pub(super) fn look(&mut self, now_s: f64, wanted: impl Fn(usize) -> bool) {
        let by = self.by();
        let is_order = self.state.is_order();
        let (demand, quiet_s) = self.recent.rate_and_quiet(now_s);
        let event_size = self.recent.event_size;
        let taken = &self.taken;
        let rows = &mut self.rows;
        rows.clear();
        let pool = self.present.list(by).len() as u32;
        self.present.walk(by, |present, place, node, fresh, front| {
            if !wanted(place as usize) {
                return;
            }
            let slot = present.slot(node);
            let group = present.group(slot.group);
            let features = RawFeatures {
                age_s: (now_s - slot.since_s) as f32,
                place: is_order.then_some(Place {
                    front: place,
                    fresh,
                    group_front: front,
                    passed: u32::from(slot.passed),
                    rank: present.rank_share(by, node),
                }),
                group: group.size,
                group_left: group.left,
                block: present.in_block(node),
                pool,
                demand,
                event_size,
                quiet_s,
                hazard_ratio: taken.hazard_ratio(node),
            };
            rows.push((node, features.row()));
        });
    }

    pub(super) fn sample(&mut self, now_s: f64) {
        let holes = self.present.list(self.by()).len();
        if holes == 0 || !self.samples.is_due() {
            return;
        }
        self.samples.make_room(now_s);
        let mut places = std::mem::take(&mut self.places);
        self.samples.choose(holes, &mut places);
        self.look(now_s, |place| places.binary_search(&place).is_ok());
        for &(node, row) in &self.rows {
            self.samples.push(node, row, now_s);
        }
        self.places = places;
    }

    /// Takes in which holes were still open just before a step.
    pub(super) fn judge(&mut self, now_s: f64) {
        let present = &self.present;
        self.trust.settle(now_s, |node, since_s| {
            let slot = present.slot(node);
            slot.is_present && slot.since_s == since_s
        });
    }

    /// Forecasts some holes both by the fitted hazard and by age, to compare them later.
    pub(super) fn compare(&mut self, now_s: f64) {
        if !self.trust.is_due() {
            return;
        }
        let Some(model) = self.model.take() else {
            return;
        };
        let holes = self.present.list(self.by()).len();
        let every = holes.div_ceil(HOLES).max(1);
        self.look(now_s, |place| place % every == 0);
        let lengths = self.mixture(now_s);
        let compared: Vec<Compared> = self
            .rows
            .iter()
            .map(|(node, row)| {
                let slot = self.present.slot(*node);
                Compared {
                    node: *node,
                    since_s: slot.since_s,
                    release: slot.group,
                    fitted: model.open(row, &self.drift.shift),
                    by_age: by_age(&lengths, now_s - slot.since_s),
                }
            })
            .collect();
        self.trust.compare(now_s, &compared);
        self.model = Some(model);
    }

    pub(super) fn is_fit_due(&self, now_s: f64) -> bool {
        let is_grown = self.ended.saturating_sub(self.ended_at_fit) >= self.ended_at_fit / 4;
        let is_old = now_s >= self.fitted_s + self.settings.refit_every.as_secs_f64();
        self.ended >= self.settings.needed
            && self.ended > self.ended_at_fit
            && (self.ended_at_fit == 0 || is_grown || is_old)
    }

    /// Notes the time of a fit and the ended holes in it.
    pub(super) fn mark_fitted(&mut self, now_s: f64, ended: u64) {
        self.fits += 1;
        self.ended_at_fit = ended;
        self.fitted_s = now_s;
    }

    /// Updates the learnt order.
    pub(super) fn rank_taken(&mut self) {
        let nodes = &self.present.nodes;
        let ranks = self.taken.ranks(
            nodes.blocks() as usize,
            |node| nodes.block(node),
            |node| nodes.rank(node),
        );
        self.present.learn(&ranks);
        self.has_ranks = true;
    }
}
