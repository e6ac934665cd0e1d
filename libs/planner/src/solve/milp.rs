//! The allocation problem over node counts, as a mixed-integer program.
//!
//! Nodes are interchangeable in the problem, and any feasible counts can be realised without
//! migration ([`crate::choose`]). So the program decides sizes only, without the published variable
//! per node and trainer.
//!
//! **Sets.** Trainers j. For each j its sizes, `S_j = {0} and min_j..=max_j`, at most N; cut
//! into pieces p: intervals of consecutive sizes `a_p..=b_p` along which the gain is concave. Each
//! piece has segments s, intervals of sizes along which the gain is linear.
//!
//! **Constants.** N nodes; T horizon (s); O_j(n) objective rate; C_j present size; cr_j rate
//! that a change stalls; R_up, R_dw (s). The gain of a size is
//! `G_j(n) = T O_j(n) - cr_j (R_up [n > C_j] + R_dw [n < C_j])`, less the wait for pilots: what is not concave in it (the
//! notch at C_j, bends of the curve) is where pieces end. `l_s` and `g_s` are a segment's
//! length and its gain per node.
//!
//! **Variables.** `z_jp` in {0, 1}: the size of j lies in piece p. `d_ps` in [0, l_s]: nodes
//! of segment s in use, continuous.
//!
//! **Maximise** `sum_jp (G_j(a_p) z_jp + sum_s g_s d_ps)` subject to
//!
//! - C1 (one piece): `sum_p z_jp = 1` for each j;
//! - C2 (within the piece): `d_ps <= l_s z_jp` for each p and s;
//! - C3 (pool): `sum_jp (a_p z_jp + sum_s d_ps) <= N`.
//!
//! Concavity fills segments in order. With `z` fixed, C2 and C3 are an interval of unit
//! coefficients and whole right-hand sides, so vertices are whole and `d` needs no
//! integrality. The relaxation is the concave hull of each trainer's gains, the tightest that
//! is separable: its bound is that of [`crate::dp`].

use std::time::Duration;

use lacuna_milp as milp;
use lacuna_milp::{ColumnId, Kind, Sense};
use lacuna_model::{Outcome, PlannerSettings, Solve};

use crate::{Item, Problem, Sizes, dp};

/// Limits of the mixed-integer programs, over counts and over mixes. Solves end by counts, which
/// are the same on every machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MilpOptions {
    /// Most nodes of branch and bound.
    pub tree_nodes: u32,
    /// Most iterations of the simplex method for one relaxation over mixes.
    pub iterations: u32,
    /// Emergency stop by the wall clock; [`Solve::stopped_by_clock`] reports it.
    pub time_limit: Duration,
    /// Relative gap that counts as optimal; 0 asks for proof.
    pub gap: f64,
    /// Whether bounds from the relaxation may replace the solver or make its problem smaller. The
    /// optimum provably stays the same.
    pub shortcuts: bool,
}

impl From<&PlannerSettings> for MilpOptions {
    fn from(settings: &PlannerSettings) -> Self {
        Self {
            tree_nodes: settings.tree_nodes,
            iterations: 10_000,
            time_limit: settings.time_limit.to_std(),
            gap: settings.gap,
            shortcuts: settings.shortcuts,
        }
    }
}

impl Default for MilpOptions {
    fn default() -> Self {
        (&PlannerSettings::default()).into()
    }
}

impl MilpOptions {
    /// Options for proofs in measurements and comparisons: the clock is the only limit.
    #[must_use]
    pub fn until(time_limit: Duration) -> Self {
        Self {
            tree_nodes: u32::MAX,
            iterations: u32::MAX,
            time_limit,
            ..Self::default()
        }
    }
}

/// Short cut: every trainer can have its best size, or the bound of the relaxation equals an
/// answer. The solver is not called.
pub const CERTIFICATE: &str = "certificate";
/// Short cut: the problem of the solver leaves out sizes that the bound rules out.
pub const PEGGING: &str = "pegging";

/// Solves the problem. With short cuts, [`Solve::shortcut`] names the used one; `certificate` means
/// that the solver was not called. If the solver finds no answer, the present sizes are kept
/// ([`fallback`]).
#[must_use]
pub fn solve(problem: &Problem, options: &MilpOptions) -> (Sizes, Solve) {
    if problem.trainers.is_empty() {
        let sizes = problem.sizes(Vec::new());
        let solve = solved(&sizes, Outcome::Optimal, Some(CERTIFICATE));
        return (sizes, solve);
    }
    if !options.shortcuts {
        let program = Program::build(problem, None);
        return program.solve(problem, options, None);
    }
    let relaxed = dp::Solver::new().relax(problem);
    let incumbent = problem.sizes(relaxed.counts);
    let gap = relaxed.gap / incumbent.objective.abs().max(f64::MIN_POSITIVE);
    if relaxed.proven {
        let solve = solved(&incumbent, Outcome::Optimal, Some(CERTIFICATE));
        return (incumbent, solve);
    }
    let program = Program::build(problem, Some(&relaxed.open));
    program.solve(problem, options, Some((incumbent, gap)))
}

fn solved(sizes: &Sizes, outcome: Outcome, shortcut: Option<&str>) -> Solve {
    let solver = match shortcut {
        Some(CERTIFICATE) => "relaxation",
        _ => "highs",
    };
    Solve {
        outcome,
        objective: sizes.objective,
        solver: solver.to_owned(),
        shortcut: shortcut.map(str::to_owned),
        stopped_by_clock: false,
    }
}

/// The sizes without an answer of a solver: the present ones, as far as they are possible and fit.
/// Later trainers give up first.
#[must_use]
pub fn fallback(problem: &Problem) -> Sizes {
    let mut left = problem.nodes;
    let counts = problem
        .trainers
        .iter()
        .map(|item| {
            let keeps = item.is_size(item.current) && item.current <= left;
            let count = if keeps { item.current } else { 0 };
            left -= count;
            count
        })
        .collect();
    problem.sizes(counts)
}

/// Largest distance of sizes from the optimum by the bound of the relaxation, relative to their
/// objective; infinite if that is 0.
fn relaxation_gap(problem: &Problem, sizes: &Sizes) -> f64 {
    let relaxed = dp::Solver::new().relax(problem);
    let bound = problem.objective(&relaxed.counts) + relaxed.gap;
    (bound - sizes.objective).max(0.0) / sizes.objective.abs()
}

/// An interval of consecutive sizes along which the gain is concave.
#[derive(Debug, Clone, PartialEq)]
struct Piece {
    /// The first size, a_p.
    start: u32,
    /// Gain of the first size.
    gain: f64,
    segments: Vec<Segment>,
}

/// An interval of sizes along which the gain is linear.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Segment {
    /// Number of nodes, l_s.
    length: u32,
    /// Gain per node, g_s.
    slope: f64,
}

/// The columns of a piece.
struct PieceColumns {
    start: u32,
    chosen: ColumnId,
    segments: Vec<(u32, ColumnId)>,
}

/// The program with the sizes that its columns stand for.
struct Program {
    model: milp::Model,
    trainers: Vec<Vec<PieceColumns>>,
    /// Whether sizes were left out.
    pegged: bool,
}

impl Program {
    /// Builds the program; over the `open` sizes of each trainer only, if given.
    fn build(problem: &Problem, open: Option<&[Vec<u32>]>) -> Self {
        let pieces: Vec<Vec<Piece>> = problem
            .trainers
            .iter()
            .enumerate()
            .map(|(j, item)| {
                let gain = |n: u32| (n, item.gain(problem.horizon_s, n));
                match open.and_then(|open| open.get(j)) {
                    Some(open) => cut(open.iter().map(|&n| gain(n))),
                    None => cut(sizes(item, problem.nodes).map(gain)),
                }
            })
            .collect();
        // HiGHS works to absolute tolerances of 1e-6: gains are brought to 1e5.
        let largest = pieces
            .iter()
            .flatten()
            .map(|piece| {
                let rise: f64 = piece
                    .segments
                    .iter()
                    .map(|s| s.slope.abs() * f64::from(s.length))
                    .sum();
                piece.gain.abs() + rise
            })
            .fold(0.0, f64::max);
        let unit = if largest > 0.0 { largest / 1e5 } else { 1.0 };
        let mut model = milp::Model::new(Sense::Maximise);
        let trainers = add_columns(&mut model, &pieces, unit);
        c1_one_piece(&mut model, &trainers);
        c2_within_the_piece(&mut model, &trainers);
        c3_pool(&mut model, &trainers, problem.nodes);
        Self {
            model,
            trainers,
            pegged: open.is_some(),
        }
    }

    /// Solves it; `known` is an answer known before, with its relative gap.
    fn solve(
        &self,
        problem: &Problem,
        options: &MilpOptions,
        known: Option<(Sizes, f64)>,
    ) -> (Sizes, Solve) {
        let (incumbent, known_gap) = known.unzip();
        // The present sizes are an answer too, so a limit never leaves the solve without one.
        let start = incumbent.clone().unwrap_or_else(|| fallback(problem));
        let solution = milp::solve(
            &self.model,
            &milp::Options {
                tree_nodes: options.tree_nodes,
                time_limit: options.time_limit,
                gap: options.gap,
                warm: Some(self.values(&start.counts)),
                ..milp::Options::default()
            },
        );
        let found = self
            .counts(&solution.values)
            .filter(|_| solution.has_values())
            .map(|counts| problem.sizes(counts));
        let outcome = match solution.outcome {
            milp::Outcome::Optimal if found.is_some() => Outcome::Optimal,
            milp::Outcome::Feasible { gap } if found.is_some() => Outcome::Feasible { gap },
            milp::Outcome::Infeasible => Outcome::Infeasible,
            milp::Outcome::NoIncumbent => Outcome::NoIncumbent,
            _ => Outcome::Failed,
        };
        let shortcut = self.pegged.then_some(PEGGING);
        let better = match (found, incumbent) {
            (Some(found), Some(known)) if known.objective > found.objective => Some(known),
            (Some(found), _) => Some(found),
            (None, known) => known,
        };
        let ended = |sizes: &Sizes, outcome| Solve {
            stopped_by_clock: solution.stopped_by_clock,
            ..solved(sizes, outcome, shortcut)
        };
        let Some(sizes) = better else {
            let sizes = fallback(problem);
            let solve = ended(&sizes, outcome);
            return (sizes, solve);
        };
        // Without a proof by the solver, the bound of the relaxation still yields a gap.
        let outcome = match outcome {
            Outcome::Feasible { gap } if gap.is_finite() => outcome,
            Outcome::Optimal => outcome,
            _ => Outcome::Feasible {
                gap: known_gap.unwrap_or_else(|| relaxation_gap(problem, &sizes)),
            },
        };
        let solve = ended(&sizes, outcome);
        (sizes, solve)
    }

    /// Sizes as values of the columns.
    fn values(&self, counts: &[u32]) -> Vec<f64> {
        let mut values = vec![0.0; self.model.columns()];
        let mut set = |id: ColumnId, value: f64| {
            if let Some(slot) = values.get_mut(id.index()) {
                *slot = value;
            }
        };
        for (pieces, &n) in self.trainers.iter().zip(counts) {
            let end = |piece: &&PieceColumns| {
                let length: u32 = piece.segments.iter().map(|s| s.0).sum();
                piece.start <= n && n <= piece.start + length
            };
            let Some(piece) = pieces.iter().find(end) else {
                continue;
            };
            set(piece.chosen, 1.0);
            let mut left = n - piece.start;
            for &(length, id) in &piece.segments {
                let used = left.min(length);
                set(id, f64::from(used));
                left -= used;
            }
        }
        values
    }

    /// Values of the columns as sizes.
    fn counts(&self, values: &[f64]) -> Option<Vec<u32>> {
        let value = |id: ColumnId| values.get(id.index()).copied();
        self.trainers
            .iter()
            .map(|pieces| {
                let mut n = 0.0;
                for piece in pieces {
                    n += value(piece.chosen)? * f64::from(piece.start);
                    for &(_, id) in &piece.segments {
                        n += value(id)?;
                    }
                }
                // A vertex is integral up to rounding.
                ((n - n.round()).abs() < 1e-3).then_some(n.round() as u32)
            })
            .collect()
    }
}

/// The sizes that a trainer may have, ascending.
fn sizes(item: &Item, nodes: u32) -> impl Iterator<Item = u32> {
    (0..=item.max.min(nodes)).filter(|&n| item.is_size(n))
}

/// Cuts sizes with their gains into pieces: a piece ends where sizes are not consecutive or
/// where the slope rises.
fn cut(points: impl Iterator<Item = (u32, f64)>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut before: Option<(u32, f64)> = None;
    for (n, gain) in points {
        let step = before.filter(|(m, _)| m + 1 == n).map(|(_, g)| gain - g);
        let scale = gain.abs().max(1e-300);
        match (pieces.last_mut(), step) {
            (Some(piece), Some(slope)) => match piece.segments.last_mut() {
                None => piece.segments.push(Segment { length: 1, slope }),
                Some(last) if (slope - last.slope).abs() <= 1e-12 * scale => {
                    // The mean keeps the end of a long segment exact.
                    let length = f64::from(last.length);
                    last.slope = (last.slope * length + slope) / (length + 1.0);
                    last.length += 1;
                }
                Some(last) if slope < last.slope => {
                    piece.segments.push(Segment { length: 1, slope });
                }
                Some(_) => pieces.push(Piece {
                    start: n,
                    gain,
                    segments: Vec::new(),
                }),
            },
            _ => pieces.push(Piece {
                start: n,
                gain,
                segments: Vec::new(),
            }),
        }
        before = Some((n, gain));
    }
    pieces
}

/// The columns z_jp and d_ps with the objective.
fn add_columns(
    model: &mut milp::Model,
    pieces: &[Vec<Piece>],
    unit: f64,
) -> Vec<Vec<PieceColumns>> {
    let mut piece_columns = |piece: &Piece| PieceColumns {
        start: piece.start,
        chosen: model.binary(piece.gain / unit),
        segments: piece
            .segments
            .iter()
            .map(|s| {
                let upper = f64::from(s.length);
                let id = model.column(Kind::Continuous, 0.0, upper, s.slope / unit);
                (s.length, id)
            })
            .collect(),
    };
    pieces
        .iter()
        .map(|pieces| pieces.iter().map(&mut piece_columns).collect())
        .collect()
}

/// C1: the size of each trainer lies in exactly one piece.
fn c1_one_piece(model: &mut milp::Model, trainers: &[Vec<PieceColumns>]) {
    for pieces in trainers {
        model.row(1.0, 1.0, pieces.iter().map(|piece| (piece.chosen, 1.0)));
    }
}

/// C2: segments are used only of the piece that is chosen.
fn c2_within_the_piece(model: &mut milp::Model, trainers: &[Vec<PieceColumns>]) {
    for piece in trainers.iter().flatten() {
        for &(length, id) in &piece.segments {
            let terms = [(id, 1.0), (piece.chosen, -f64::from(length))];
            model.row(f64::NEG_INFINITY, 0.0, terms);
        }
    }
}

/// C3: no more nodes than the pool has.
fn c3_pool(model: &mut milp::Model, trainers: &[Vec<PieceColumns>], nodes: u32) {
    let terms = trainers.iter().flatten().flat_map(|piece| {
        let start = (piece.chosen, f64::from(piece.start));
        let segments = piece.segments.iter().map(|&(_, id)| (id, 1.0));
        std::iter::once(start).filter(|s| s.1 > 0.0).chain(segments)
    });
    model.row(f64::NEG_INFINITY, f64::from(nodes), terms);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_where_the_gain_bends_upwards() {
        let gains = [0.0, 10.0, 18.0, 26.0, 30.0, 50.0, 60.0];
        let pieces = cut((0_u32..).zip(gains));
        let shape: Vec<(u32, Vec<u32>)> = pieces
            .iter()
            .map(|p| (p.start, p.segments.iter().map(|s| s.length).collect()))
            .collect();
        assert_eq!(shape, [(0, vec![1, 2, 1]), (5, vec![1])]);
        let gaps = cut([(0, 0.0), (3, 9.0), (4, 11.0)].into_iter());
        assert_eq!(gaps.len(), 2);
    }

    #[test]
    fn without_an_answer_the_present_sizes_are_kept_as_far_as_they_fit() {
        let item = |current, min| Item {
            current,
            min,
            max: 8,
            value: (0..=8).map(f64::from).collect(),
            rate_now: 0.0,
            up_s: 0.0,
            pilot_s: 0.0,
            far: crate::Far::default(),
            kinds: None,
            down_s: 0.0,
            lost: crate::Lost::default(),
        };
        let problem = Problem {
            nodes: 9,
            horizon_s: 1.0,
            trainers: vec![item(2, 4), item(6, 1), item(4, 1), item(3, 3)],
        };
        assert_eq!(fallback(&problem).counts, [0, 6, 0, 3]);
    }
}
