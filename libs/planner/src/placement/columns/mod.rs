//! Placement by columns: the same problem as a mixed-integer program with column generation. It gives a
//! bound, by which [`crate::judge`] judges decisions.
//!
//! The problem and the value of a node set are those of [`crate::placement`]. A departure stalls
//! all nodes of a trainer, so its gain depends on the whole set and is no sum over nodes. So whole
//! node sets are the columns. [`decide`] goes all the way from a request to owners; [`solve`] takes
//! any [`Pricing`].
//!
//! **Sets.** Trainers j. Equivalence classes k of free nodes; nodes of flexible trainers count as
//! free. A class holds neighbours in the order that leave together in all scenarios.
//!
//! For each j its patterns P_j. One pattern keeps the present set (a flexible trainer: no nodes). A
//! pinned trainer shrinks to n, giving back from the front of the order, or grows by an interval of
//! adjacent free nodes. A flexible trainer takes any interval, or the nodes that a departure has
//! left to it. An interval has at least one node of each of some adjacent classes; others may have
//! the rest of them.
//!
//! **Constants.** `cap_k` free nodes of class k. `a_jpk` nodes of class k that pattern p of j
//! takes; negative where it gives back. `v_jp` its value: V of [`crate::placement`] less the
//! switching cost, `O (A - R B) + k (C - n A)` with the rate O on the n nodes held then, A the mean
//! time until the first hit, B the probability of one, C the mean node-seconds of the nodes, R the
//! stall of a hit and k the shadow price. A and B depend on the first and last class alone. One
//! table serves all flexible trainers; each pinned trainer that might grow has its own.
//!
//! **Variables.** `x_jp` in {0, 1}: j gets pattern p.
//!
//! **Maximise** `sum_jp v_jp x_jp` subject to
//!
//! - C1 (one pattern): `sum_p x_jp = 1` for each j;
//! - C2 (classes): `sum_jp a_jpk x_jp <= cap_k` for each k;
//! - C3 (uplinks): where the trainers that cross a leaf are limited, `sum_jp c_jpl x_jp <= free_l`
//!   for each leaf l. `c_jpl` is 1 if j newly crosses l by p, and -1 if it does not any more. These
//!   are further classes, with a price for the pricing of crossing intervals.
//!
//! Crossing trainers that share an uplink slow each other down, so a value depends on other patterns.
//! The program charges nothing for that, so its bound holds. Nor does it know
//! [`Settings::limited`](crate::placement::Settings::limited), which lowers values alone.
//!
//! "Keep" takes no nodes, so keeping for all is always an answer, and the floor. Equal flexible
//! trainers have the same patterns. They form a group g with one row `sum_p x_gp = |g|` and whole
//! numbers `x_gp`, which removes the symmetry between them.
//!
//! **Column generation.** Few of the columns matter. The search begins with one price of a node for
//! each second of its expected stay, at which demand about equals supply. The relaxation over the
//! present columns then gives u_j, the price of C1, and `w_k >= 0`, the price of a node of class k.
//!
//! A pattern with `v_jp - sum_k w_k a_jpk > u_j` would raise its optimum; the best of each trainer
//! are added until there are none. For given end classes and size the best interval takes one node
//! of each class between, and further nodes where value less price is largest. So one pass prices
//! all intervals of the same ends, and it looks only at sizes at which a curve bends. At any prices
//! w >= 0
//!
//! `L(w) = sum_k w_k cap_k + sum_j max_p (v_jp - sum_k w_k a_jpk)`
//!
//! is a bound on the whole program (Lagrange), over all patterns and not only the present ones, as
//! long as pricing finds the true maximum. So the bound holds wherever the generation stops, and
//! does not depend on the solver's arithmetic. Prices lie between those of the relaxation and those
//! of the best bound, which damps their jumps (Wentges 1997). The relaxation's own prices are used
//! as soon as the mixture finds no new column.
//!
//! **Then** HiGHS solves the program over the present columns. It starts from a rounded relaxation,
//! improved trainer by trainer and pair by pair. Counts by class become nodes, and the plan is valued by
//! these very nodes.
//!
//! **Scope of the bound.** It covers patterns as above. A plan by blocks may hold other sets, since its
//! pinned trainers grow into scattered nodes, and its value may be higher than the bound.

mod answer;
mod bidder;
mod classes;
mod clock;
mod column;
mod decide;
mod generator;
mod incumbent;
mod instance;
mod master;
mod place;
mod program;
mod solve;
mod uplinks;
mod work;

pub use answer::{Answer, Error, Options, Source};
pub use column::{Column, Pricing};
pub use decide::{decide, ends};
pub use instance::{Instance, Shape, Situation, instance};
pub use solve::solve;
