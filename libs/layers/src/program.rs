//! The dynamic program of one rate, without limits that bind over several stages.
//!
//! `H_j(t)`: least spend of layers j+1..L if the stage that ends at j is on t; `H_L(t) = 0`.
//! `B_i(t, c)`: the same if a stage on t begins at i+1 and receives by class c.
//!
//! ```text
//! B_i(t, c) = min over j > i  of  w_t k_{i+1..j, t, c}(x) + H_j(t)
//! H_i(t')   = min over t != t' of B_i(t, class of t' at t)
//! R(x)      = min over t of B_0(t, start)
//! ```
//!
//! `w_t` is what a unit of t counts: its price, its price with a multiplier, or 1 for a single kind.
//! Senders of one bandwidth are a class, so a program takes O(L² Σ_t classes_t + L T²) stages.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; layers, kinds and classes are places in tables made in this file"
)]

use crate::model::{Load, Step, Terms, share_out, whole};

/// How units are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// Whole units, as many as a plan has.
    Whole,
    /// The fractions that computation and communication alone need: a bound for all higher rates.
    Fractions,
}

/// The least spend from each place on.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    kinds: usize,
    /// H, by place and kind.
    to_go: Vec<f64>,
    /// By place and kind, the kind that follows.
    next_kind: Vec<usize>,
    /// By place and kind, for each class, where the stage ends.
    ends: Vec<Vec<usize>>,
    /// R and the first kind.
    least: f64,
    first: usize,
}

/// B of one place and kind: least spend and end by class.
struct Begun {
    least: Vec<f64>,
    ends: Vec<usize>,
}

impl Program {
    /// Solves it for a rate, y = 1/x, with weights of units by kind.
    pub(crate) fn solve(terms: &Terms, y: f64, count: Count, weights: &[f64]) -> Self {
        let (layers, kinds) = (terms.layers(), terms.kinds().len());
        let mut program = Self {
            kinds,
            to_go: vec![f64::INFINITY; (layers + 1) * kinds],
            next_kind: vec![0; (layers + 1) * kinds],
            ends: vec![Vec::new(); layers * kinds],
            least: f64::INFINITY,
            first: 0,
        };
        program.to_go[layers * kinds..].fill(0.0);
        for i in (0..layers).rev() {
            let mut begun = Vec::with_capacity(kinds);
            for (t, &weight) in weights.iter().enumerate() {
                begun.push(program.begin(terms, (i, t), (y, count), weight));
            }
            if i == 0 {
                for (t, begun) in begun.iter().enumerate() {
                    if begun.least[0] < program.least {
                        (program.least, program.first) = (begun.least[0], t);
                    }
                }
            }
            for before in 0..kinds {
                let place = i * kinds + before;
                for (t, begun) in begun.iter().enumerate().filter(|&(t, _)| t != before) {
                    let least = begun.least[terms.kind(t).class_of(before)];
                    if least < program.to_go[place] {
                        (program.to_go[place], program.next_kind[place]) = (least, t);
                    }
                }
            }
            for (t, begun) in begun.into_iter().enumerate() {
                program.ends[i * kinds + t] = begun.ends;
            }
        }
        program
    }

    /// B of a stage on kind t that begins at place i.
    fn begin(
        &self,
        terms: &Terms,
        (i, t): (usize, usize),
        (y, count): (f64, Count),
        weight: f64,
    ) -> Begun {
        let kind = terms.kind(t);
        let classes = kind.classes();
        let mut begun = Begun {
            least: vec![f64::INFINITY; classes],
            ends: vec![0; classes],
        };
        let mut load = Load::default();
        for j in i + 1..=terms.layers() {
            load.add(kind.load(j - 1));
            let fraction = share_out(load.parallel, load.serial, y);
            let inside = whole(fraction).max(kind.units_of_memory(&load)).max(1.0);
            if inside > kind.most {
                break;
            }
            let counted = |whole: f64, fraction: f64| match count {
                Count::Whole => whole,
                Count::Fractions => fraction,
            };
            // More layers never need fewer units: what is dearer by itself stays so.
            let at_least = weight * counted(inside, fraction);
            if begun.least[kind.classes_at(i)]
                .iter()
                .all(|&least| least <= at_least)
            {
                break;
            }
            let rest = self.to_go[j * self.kinds + t];
            for class in kind.classes_at(i) {
                if at_least + rest >= begun.least[class] {
                    continue;
                }
                let (parallel, serial) = kind.incoming(i, class);
                let sent = share_out(load.sent_parallel + parallel, load.sent_serial + serial, y);
                let all = inside.max(whole(sent));
                if all > kind.most {
                    continue;
                }
                let least = weight * counted(all, fraction.max(sent)) + rest;
                if least < begun.least[class] {
                    (begun.least[class], begun.ends[class]) = (least, j);
                }
            }
        }
        begun
    }

    /// R: the least weight of units a second; infinite if no plan has the rate.
    pub(crate) fn least(&self) -> f64 {
        self.least
    }

    /// H: the least weight of the units of all later stages.
    pub(crate) fn to_go(&self, place: usize, kind: usize) -> f64 {
        self.to_go[place * self.kinds + kind]
    }

    /// The stages with the least weight and their whole units, if there are any.
    pub(crate) fn steps(&self, terms: &Terms, y: f64) -> Option<Vec<Step>> {
        if !self.least.is_finite() {
            return None;
        }
        let (mut from, mut kind, mut before) = (0, self.first, None);
        let mut steps = Vec::new();
        while from < terms.layers() {
            let class = before.map_or(0, |before| terms.kind(kind).class_of(before));
            let until = self.ends[from * self.kinds + kind][class];
            let load = terms.stage(from, until, kind, before);
            let units = terms.units(&load, kind, y)?;
            steps.push(Step {
                from,
                until,
                kind,
                units,
            });
            before = Some(kind);
            from = until;
            if from < terms.layers() {
                kind = self.next_kind[from * self.kinds + kind];
            }
        }
        Some(steps)
    }
}
