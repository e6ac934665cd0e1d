//! The allocation over patterns of nodes, as a mixed-integer programme with column generation.
//!
//! What a trainer gains depends on which nodes it holds together, since a departure stalls all
//! of its nodes: no sum over nodes. So whole node sets are the columns. Nodes are put into
//! classes: runs, in the order in which the scheduler takes nodes, that leave together in all
//! scenarios. A pattern says how many nodes of each class a trainer takes or gives back.
//!
//! **Sets.** Trainers j. Classes k. For each j its patterns P_j: keep what it has; shrink to n,
//! giving back from the front of the order; grow by n from a run of adjacent classes; and, if
//! it may take any node set (it was hit by a departure, or has no nodes), any n from such a
//! run. [`Runs`] enumerates them.
//!
//! **Constants.** `cap_k` free nodes of class k. `a_jpk` nodes of class k that pattern p of j
//! takes more than j holds now; negative where it gives back. `v_jp` its value, whatever makes
//! it up; in [`Runs`], with the scenarios s, the nodes `n_s(t)` alive at t, the rate P_j, the
//! horizon H and the moments t at which at least one of its nodes leaves,
//!
//! `v = mean over s of [ integral over H of P_j(n_s(t)) dt - R sum over t of P_j(n_s(t-)) ] - c`
//!
//! with R the seconds that a departure stalls and c the charge of the change made now.
//!
//! **Variables.** `x_jp` in {0, 1}: j gets pattern p.
//!
//! **Maximise** `sum_jp v_jp x_jp` subject to
//!
//! - C1 (one pattern): `sum_p x_jp = 1` for each j;
//! - C2 (classes): `sum_jp a_jpk x_jp <= cap_k` for each k.
//!
//! "Keep" takes nothing, so keeping for all is always an answer, and the floor.
//!
//! **Column generation.** Few columns of the many matter. The relaxation over those at hand
//! gives u_j, the price of C1, and `w_k >= 0`, the price of a node of class k. A pattern with
//! `v_jp - sum_k w_k a_jpk > u_j` would raise its optimum; the best of each trainer are added
//! until there are none. At any prices w >= 0
//!
//! `L(w) = sum_k w_k cap_k + sum_j max_p (v_jp - sum_k w_k a_jpk)`
//!
//! is a bound on the whole programme (Lagrange), over all patterns and not only those at hand,
//! as long as the pricing finds the true maximum; so the bound holds wherever the generation
//! stops, and does not depend on the solver's arithmetic. Prices are taken between those of the
//! relaxation and those of the best bound so far, which keeps them from jumping about (Wentges
//! 1997); the relaxation's own are used as soon as the mixture finds nothing new.
//!
//! **Then** HiGHS solves the programme over the columns at hand, started from the best answer
//! known: the last plan's, or one rounded from the relaxation, improved trainer by trainer and
//! pair by pair. The gap that is reported is the one to the bound over all patterns that are
//! priced. [`Runs`] prices runs that begin with a whole class or quarters of it and end with any
//! count; an answer may use runs over what others leave of a class, too, so it can even be worth
//! more than the bound.

mod answer;
mod cells;
mod column;
mod decide;
mod family;
mod incumbent;
mod instance;
mod master;
mod place;
mod solve;
mod takers;

pub use answer::{Answer, Error, Options, Seconds, Source};
pub use column::{Column, Patterns};
pub use decide::decide;
pub use instance::{Instance, Shape, Situation, instance};
pub use solve::solve;
