//! The joint allocation as a mixed-integer programme over patterns, with column generation.
//!
//! The problem is that of [`crate::joint`], and so is the value of a node set: what a trainer
//! gains depends on which nodes it holds together, since a departure stalls all of them; no sum
//! over nodes. So whole node sets are the columns. [`decide`] goes all the way from a request to
//! owners; [`solve`] takes any [`Patterns`].
//!
//! **Sets.** Trainers j. Classes k of free nodes (those of loose trainers are free): neighbours in
//! the order that leave together in all scenarios, or, where those are too many, that lose least
//! by being thought to. For each j its patterns P_j: keep what it has (a loose trainer: nothing);
//! if bound, shrink to n, giving back from the front of the order, or grow by a run of adjacent
//! free nodes; if loose, any run, or what a departure has left to it. A run is at least one node
//! of each of some adjacent classes, since others may have the rest of them.
//!
//! **Constants.** `cap_k` free nodes of class k. `a_jpk` nodes of class k that pattern p of j
//! takes; negative where it gives back. `v_jp` its value: V of [`crate::joint`] less the charge
//! for the change, `O (A - R B) + k (C - n A)` with the rate O on the n nodes held then, A the
//! mean time until the first hit, B the probability of one, C the mean node-seconds of the nodes,
//! R the stall of a hit and k the salvage. A and B depend on the first and last class alone: one
//! table serves all loose trainers, and each bound one that might grow has its own.
//!
//! **Variables.** `x_jp` in {0, 1}: j gets pattern p.
//!
//! **Maximise** `sum_jp v_jp x_jp` subject to
//!
//! - C1 (one pattern): `sum_p x_jp = 1` for each j;
//! - C2 (classes): `sum_jp a_jpk x_jp <= cap_k` for each k.
//!
//! "Keep" takes nothing, so keeping for all is always an answer, and the floor. Loose trainers that
//! are alike have the same patterns; they are a group g with one row `sum_p x_gp = |g|` and whole
//! numbers `x_gp`, which says the same and leaves no question of who of them has which.
//!
//! **Column generation.** Few columns of the many matter. To begin with, one price of a node for
//! each second that it is expected to stay is sought at which about as many are wanted as there
//! are. Then the relaxation over the columns at hand gives u_j, the price of C1, and `w_k >= 0`,
//! the price of a node of class k. A pattern with `v_jp - sum_k w_k a_jpk > u_j` would raise its
//! optimum; the best of each trainer are added until there are none. For given end classes and
//! size the best run takes one node of each class between and the others where one is worth most
//! less its price, so all runs of the same ends are priced in one pass, which looks at no sizes
//! but those at which a curve bends. At any prices w >= 0
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
//! known: a plan that was given, such as that of the dynamic programme, or one rounded from the
//! relaxation, improved trainer by trainer and pair by pair. Counts by class become nodes, and
//! the plan is judged by the very nodes; the best plan that was given stands where it is better.
//!
//! **What the bound is on.** Patterns as above, where classes hold like nodes alone
//! ([`Answer::lost_s`] is 0). A given plan may hold other sets (bound trainers of the dynamic
//! programme grow into whatever is left over), and so be worth more. Classes of unlike nodes are
//! taken to leave with their first node: values are too low, and the bound with them.
//!
//! `auto` does not ask for it: `RESULTS.md` has what it brings, and for how much time.

mod answer;
mod cells;
mod clock;
mod column;
mod decide;
mod family;
mod incumbent;
mod instance;
mod master;
mod place;
mod programme;
mod solve;
mod takers;

pub use answer::{Answer, Error, Options, Seconds, Source};
pub use column::{Column, Patterns};
pub use decide::decide;
pub use instance::{Instance, Shape, Situation, instance};
pub use solve::solve;
