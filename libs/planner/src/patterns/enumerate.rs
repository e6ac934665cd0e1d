//! Works out all patterns of a trainer with their values.
//!
//! Values are worked out run by run: how many nodes are alive when is kept by scenario while a
//! run goes from class to class. All counts of a class are valued at once, since a further node
//! adds one to every size up to the moment at which its class leaves, see
//! [`Spectrum`](crate::patterns::profile::Spectrum).

use crate::patterns::profile::{Profile, Spectrum, rate};
use crate::patterns::table::{Base, Block, Table, beside, held};
use crate::patterns::{Runs, Trainer};

/// What makes the values of one trainer.
struct Maker<'a> {
    runs: &'a Runs,
    /// Nodes of each class that a run's first class may be taken of.
    all: &'a [u32],
    loose: &'a [u32],
    /// Quarters of the first class that a run may begin with.
    parts: &'a [u32],
    trainer: &'a Trainer,
    spectrum: Spectrum,
    /// By scenario.
    profiles: Vec<Profile>,
    table: Table,
}

/// All patterns of a trainer over `loose` nodes of each class, the first class of a run being
/// taken of `all`, or in these `parts` (quarters) when the run goes on; nothing if there is no
/// such trainer.
pub(crate) fn enumerate(
    runs: &Runs,
    j: usize,
    loose: &[u32],
    all: &[u32],
    parts: &[u32],
) -> Option<Table> {
    let trainer = runs.trainers.get(j)?;
    let mut maker = Maker {
        runs,
        all,
        loose,
        parts,
        trainer,
        spectrum: Spectrum::default(),
        profiles: runs.leaves.iter().map(|_| Profile::default()).collect(),
        table: Table {
            trainer: u32::try_from(j).ok()?,
            blocks: Vec::new(),
            values: Vec::new(),
            nothing: None,
            loose: loose.to_vec(),
        },
    };
    maker.shrinks();
    maker.walks(Base::Held, trainer.charges.grow);
    if let Some(charge) = trainer.charges.any {
        maker.walks(Base::Nothing, charge);
    }
    Some(maker.table)
}

impl Maker<'_> {
    /// Sets the profiles to those nodes.
    fn begin(&mut self, nodes: &[(u32, u32)]) {
        for (profile, scenario) in self.profiles.iter_mut().zip(&self.runs.leaves) {
            profile.clear();
            for &(k, n) in nodes {
                let leave = scenario.get(k as usize).copied().unwrap_or(0.0);
                profile.add(leave, n, self.runs.horizon);
            }
        }
    }

    /// Adds nodes of a class to the profiles.
    fn extend(&mut self, class: u32, nodes: u32) {
        for (profile, scenario) in self.profiles.iter_mut().zip(&self.runs.leaves) {
            let leave = scenario.get(class as usize).copied().unwrap_or(0.0);
            profile.add(leave, nodes, self.runs.horizon);
        }
    }

    /// Adds the block of `1..=len` nodes of a class to what the profiles hold.
    fn block(&mut self, mut block: Block, charge: f64) {
        if block.len == 0 {
            self.table.blocks.push(block);
            return;
        }
        let share = 1.0 / self.runs.leaves.len() as f64;
        self.spectrum.constant = -charge;
        for (profile, scenario) in self.profiles.iter().zip(&self.runs.leaves) {
            let leave = scenario.get(block.class as usize).copied().unwrap_or(0.0);
            profile.spread(
                leave,
                &self.trainer.rates,
                self.runs.horizon,
                self.trainer.stall_s,
                share,
                &mut self.spectrum,
            );
        }
        let table = &mut self.table;
        block.at = table.values.len();
        table.values.resize(block.at + block.len as usize, 0.0);
        let values = table.values.get_mut(block.at..).unwrap_or_default();
        self.spectrum.pour(&self.trainer.rates, values);
        block.most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        table.blocks.push(block);
    }

    /// Shrinking to the last n of what it holds, and to nothing.
    fn shrinks(&mut self) {
        let trainer = self.trainer;
        let held = &trainer.held;
        if held.is_empty() {
            return;
        }
        let charges = self.trainer.charges;
        let charge = charges
            .any
            .map_or(charges.shrink, |any| any.min(charges.shrink));
        let none = rate(&self.trainer.rates, 0);
        self.table.nothing = Some(none * self.runs.horizon - charge);
        self.begin(&[]);
        let last = held.last().map_or(0, |h| h.0);
        for (place, &(class, nodes)) in held.iter().enumerate().rev() {
            // All of it and nothing in front of it would be what it has now.
            let len = if place == 0 { nodes - 1 } else { nodes };
            if len > 0 {
                let block = Block {
                    base: Base::Shrunk,
                    first: class == last,
                    from: last,
                    start: nodes,
                    class,
                    whole: nodes,
                    at: 0,
                    len,
                    most: 0.0,
                };
                self.block(block, charge);
            }
            self.extend(class, nodes);
        }
    }

    /// Runs from every class in both directions.
    fn walks(&mut self, base: Base, charge: f64) {
        let classes = u32::try_from(self.runs.free.len()).unwrap_or(u32::MAX);
        let held = match base {
            Base::Held => self.trainer.held.as_slice(),
            Base::Nothing | Base::Shrunk => &[],
        };
        let room = self.trainer.max_nodes();
        let before = held.iter().fold(0_u32, |sum, h| sum.saturating_add(h.1));
        let room = room.saturating_sub(before);
        for from in 0..classes {
            for &part in self.parts {
                self.walk(base, charge, &mut (0..=from).rev(), room, (part, true));
                self.walk(base, charge, &mut (from..classes), room, (part, false));
            }
        }
    }

    /// Takes all that is to be had class after class. The first class may be taken beyond
    /// that, up to all nodes of the class: others may give them back. Or the walk goes on from
    /// a part of it, in quarters. The same patterns within the first class come only once: in
    /// the walk that is told so and goes on from all of it.
    fn walk(
        &mut self,
        base: Base,
        charge: f64,
        classes: &mut dyn Iterator<Item = u32>,
        mut room: u32,
        (quarters, alone): (u32, bool),
    ) {
        let count = |counts: &[u32], k: u32| counts.get(k as usize).copied().unwrap_or(0);
        let (trainer, counts) = (self.trainer, self.loose);
        let loose = |k: u32| beside(trainer, base, k, count(counts, k));
        let Some(from) = classes.next() else {
            return;
        };
        let all_of_it = quarters >= 4;
        let start = loose(from).min(loose(from).saturating_mul(quarters) / 4);
        let most = if alone && all_of_it {
            let own = match base {
                Base::Held => held(trainer, from),
                Base::Nothing | Base::Shrunk => 0,
            };
            count(self.all, from).saturating_sub(own).min(room)
        } else {
            0
        };
        if room == 0 || (start == 0 && most == 0) {
            return;
        }
        self.begin(match base {
            Base::Held => trainer.held.as_slice(),
            Base::Nothing | Base::Shrunk => &[],
        });
        let block = |first, class, whole, len| Block {
            base,
            first,
            from,
            start,
            class,
            whole,
            at: 0,
            len,
            most: f64::NEG_INFINITY,
        };
        self.block(block(true, from, start, most), charge);
        if start == 0 {
            return;
        }
        self.extend(from, start);
        room = room.saturating_sub(start);
        for class in classes {
            if room == 0 {
                return;
            }
            let whole = loose(class);
            let len = whole.min(room);
            if len > 0 {
                self.block(block(false, class, whole, len), charge);
                self.extend(class, whole);
            }
            room = room.saturating_sub(whole);
        }
    }
}
