//! How the hazard learns: which order holds, what is asked, when it is fitted.

use super::core::HazardCore;
use super::features::{Place, RawFeatures};
use super::present::By;
use super::settings::OrderState;
use crate::OrderBy;

/// After so many events a given order that leaves no trace is given up.
const PATIENCE: u64 = 300;

/// What was taken must show the order so much more plainly than the names do, in mean places.
const PLAINER: f64 = 0.04;

impl HazardCore {
    /// Keeps the level right between fits.
    pub(super) fn follow(&mut self, now_s: f64) {
        if let Some(model) = &self.model
            && self.drift.is_due(now_s)
        {
            self.drift.update(model, &self.samples.list, now_s);
        }
    }

    /// Learns from where the leaving nodes stand.
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

    /// Whether the order still holds, or another does.
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
                // Two orders about as plain would change places for ever.
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

    /// Goes by another order.
    pub(super) fn turn(&mut self, state: OrderState) {
        self.state = state;
        self.present.reverse(state == OrderState::Reversed);
    }

    /// Fills `rows` with the holes at the places that are wanted.
    pub(super) fn look(&mut self, now_s: f64, wanted: impl Fn(usize) -> bool) {
        let by = self.by();
        let is_order = self.state.is_order();
        let (demand, quiet_s) = self.recent.seen(now_s);
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
            let sight = RawFeatures {
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
            rows.push((node, sight.row()));
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

    pub(super) fn is_fit_due(&self, now_s: f64) -> bool {
        let is_grown = self.ended.saturating_sub(self.ended_at_fit) >= self.ended_at_fit / 4;
        let is_old = now_s >= self.fitted_s + self.settings.refit_every.as_secs_f64();
        self.ended >= self.settings.needed
            && self.ended > self.ended_at_fit
            && (self.ended_at_fit == 0 || is_grown || is_old)
    }

    /// The model is as of a moment.
    pub(super) fn mark_fitted(&mut self, now_s: f64, ended: u64) {
        self.fits += 1;
        self.ended_at_fit = ended;
        self.fitted_s = now_s;
    }

    /// Brings the learnt order up to date.
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
