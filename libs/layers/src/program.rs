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
//! What is known before: layers by themselves, each on the kind that is cheapest for it, need at least
//! `o_l = min over t of w_t P_lt / (y - S_lt)`, since a stage needs no fewer units than its layers in
//! fractions do. A stage i+1..j is left out where `Σ o before i` and the rest make it too dear.
//!
//! `w_t` is what a unit of t counts: its price, its price with a multiplier, or 1 for a single kind.
//! Senders of one bandwidth are a class, so a program takes O(L² Σ_t classes_t) stages, and O(L T) or
//! O(L T²) comparisons.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; layers, kinds and classes are places in tables made in this file"
)]

use crate::model::{Load, ROUNDING, Step, Terms, over, share_out, whole};

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
    /// By place, kind and class, where the stage ends.
    ends: Vec<usize>,
    /// Where the classes of a kind begin within those of all kinds, with their number at the end.
    classes: Vec<usize>,
    below: f64,
    /// `Σ o` of the layers from each place on.
    after: Vec<f64>,
    /// R and the first kind.
    least: f64,
    first: usize,
}

impl Program {
    /// Solves it for a rate, y = 1/x, with weights of units by kind. Only what is less than `below` is
    /// of interest: `below` stands for all that is not.
    pub(crate) fn solve(
        terms: &Terms,
        y: f64,
        (count, below): (Count, f64),
        weights: &[f64],
    ) -> Self {
        let (layers, kinds) = (terms.layers(), terms.kinds().len());
        let mut classes = vec![0];
        for kind in terms.kinds() {
            classes.push(classes[classes.len() - 1] + kind.classes());
        }
        let all_classes = classes[kinds];
        let (uniform, varied): (Vec<usize>, Vec<usize>) =
            (0..kinds).partition(|&t| terms.kind(t).classes() == 2);
        let mut program = Self {
            kinds,
            to_go: vec![below; (layers + 1) * kinds],
            next_kind: vec![0; (layers + 1) * kinds],
            ends: vec![0; layers * all_classes],
            classes,
            below,
            after: after(terms, y, weights),
            least: below,
            first: 0,
        };
        program.to_go[layers * kinds..].fill(0.0);
        // B of the place, by kind and class.
        let mut begun = vec![below; all_classes];
        for i in (0..layers).rev() {
            begun.fill(below);
            for (t, &weight) in weights.iter().enumerate() {
                program.begin(terms, (i, t), (y, count), weight, &mut begun);
            }
            if i == 0 {
                for t in 0..kinds {
                    let least = begun[program.classes[t]];
                    if least < program.least {
                        (program.least, program.first) = (least, t);
                    }
                }
                break;
            }
            // Most kinds receive from all others alike: of these the best two serve every sender.
            let mut alike = [(below, 0); 2];
            for &t in &uniform {
                let least = begun[program.classes[t] + 1];
                if least < alike[0].0 {
                    alike = [(least, t), alike[0]];
                } else if least < alike[1].0 {
                    alike[1] = (least, t);
                }
            }
            for before in 0..kinds {
                let mut best = if alike[0].1 == before {
                    alike[1]
                } else {
                    alike[0]
                };
                for &t in varied.iter().filter(|&&t| t != before) {
                    let least = begun[program.classes[t] + terms.kind(t).class_of(before)];
                    if least < best.0 {
                        best = (least, t);
                    }
                }
                let place = i * kinds + before;
                (program.to_go[place], program.next_kind[place]) = best;
            }
        }
        program
    }

    /// B of a stage on kind t that begins at place i.
    fn begin(
        &mut self,
        terms: &Terms,
        (i, t): (usize, usize),
        (y, count): (f64, Count),
        weight: f64,
        begun: &mut [f64],
    ) {
        let kind = terms.kind(t);
        if kind.most < 1.0 {
            return;
        }
        let start = self.classes[t];
        let ends = i * self.classes[self.kinds] + start;
        // Stages of interest leave as much as the layers before them need.
        let interest = (self.below - (self.after[0] - self.after[i])) * (1.0 + ROUNDING);
        let least = &mut begun[start..start + kind.classes()];
        let mut load = Load::default();
        for j in i + 1..=terms.layers() {
            load.add(kind.load(j - 1));
            let fraction = share_out(load.parallel, load.serial, y);
            let inside = fraction.max(kind.units_of_memory(&load));
            if over(inside, kind.most) || weight * fraction + self.after[j] > interest {
                break;
            }
            let counted = match count {
                Count::Whole => whole(inside).max(1.0),
                Count::Fractions => fraction,
            };
            // More layers never need fewer units: what is dearer by itself stays so.
            let at_least = weight * counted;
            let mut dearest = f64::NEG_INFINITY;
            let rest = self.to_go[j * self.kinds + t];
            if at_least + rest > interest {
                continue;
            }
            for class in kind.classes_at(i) {
                if at_least + rest < least[class] {
                    let (parallel, serial) = kind.incoming(i, class);
                    let (parallel, serial) =
                        (load.sent_parallel + parallel, load.sent_serial + serial);
                    let sent = share_out(parallel, serial, y);
                    let units = match count {
                        Count::Whole if sent > counted => whole(sent).max(counted),
                        Count::Whole => counted,
                        Count::Fractions => counted.max(sent),
                    };
                    let spend = weight * units + rest;
                    if !over(sent, kind.most) && spend < least[class] {
                        (least[class], self.ends[ends + class]) = (spend, j);
                    }
                }
                dearest = dearest.max(least[class]);
            }
            if dearest <= at_least {
                break;
            }
        }
    }

    /// R, if it is less than `below`: the least weight of units a second; infinite if no plan has the
    /// rate.
    pub(crate) fn least(&self) -> f64 {
        self.least
    }

    /// H: the least weight of the units of all later stages.
    pub(crate) fn to_go(&self, place: usize, kind: usize) -> f64 {
        self.to_go[place * self.kinds + kind]
    }

    /// The stages with the least weight and their whole units, if R is less than `below`.
    pub(crate) fn steps(&self, terms: &Terms, y: f64) -> Option<Vec<Step>> {
        if self.least >= self.below {
            return None;
        }
        let (mut from, mut kind, mut before) = (0, self.first, None);
        let mut steps = Vec::new();
        while from < terms.layers() {
            let class = before.map_or(0, |before| terms.kind(kind).class_of(before));
            let until = self.ends[from * self.classes[self.kinds] + self.classes[kind] + class];
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

/// `Σ o` of the layers from each place on, with 0 at the end; infinite where a layer has no kind.
fn after(terms: &Terms, y: f64, weights: &[f64]) -> Vec<f64> {
    let mut after = vec![0.0; terms.layers() + 1];
    for layer in (0..terms.layers()).rev() {
        let mut least = f64::INFINITY;
        for (t, &weight) in weights.iter().enumerate() {
            let load = terms.kind(t).load(layer);
            let fraction = share_out(load.parallel, load.serial, y);
            if !over(fraction, terms.kind(t).most) {
                least = least.min(weight * fraction);
            }
        }
        after[layer] = after[layer + 1] + least;
    }
    after
}
