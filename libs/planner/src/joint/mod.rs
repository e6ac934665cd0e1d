//! The allocation when holes are forecast: which nodes, and so how many.
//!
//! A departure stalls *all* nodes of the trainer that it hits, for few that leave. So it matters
//! less how many nodes a trainer has than which: nodes that leave together belong together, and
//! nodes that leave soon belong to the trainers whose restart is cheap. Nodes come here in the
//! order in which they are expected to leave, the most endangered first, and the future comes as
//! equally likely [`Scenarios`]: for each of them, when each node leaves.
//!
//! **The worth of a node set** S to trainer j, over the horizon H, with `n = |S|`, the rate
//! `O_j(n)`, the stall of a departure `R_j`, the leave time `L_is` of node i in scenario s, and
//! `t_s = min over S of L_is`, the moment of the first hit:
//!
//! ```text
//! V_j(S) = mean over s of [ O_j(n) min(t_s, H) - R_j O_j(n) [t_s < H]
//!                           + k sum over i in S of (min(L_is, H) - min(t_s, H)) ]
//! ```
//!
//! Up to the first hit the trainer works at its rate; the hit stalls it once; and from then on it
//! may take any nodes, since it restarts anyway, so the nodes that are left are as good as free.
//! A free node-second has the *shadow price* k (`salvage` in reports): what a decision for the same
//! request, made at the highest price, makes of a node-second, all costs taken off. It has no
//! memory: a price that remembers earlier decisions would have to survive restarts. Seeing only to
//! the first hit is what makes whole machines plannable: the sum splits into three tables by segment
//! that no trainer enters.
//!
//! **Who may take what.** A trainer that was just hit restarts anyway, and one without nodes (or
//! with fewer than it can run on) has nothing to lose: it is *loose* and may take any node set,
//! for no further charge. All others are *bound*: the new set contains the old one or is
//! contained in it (no migration), growing costs `up_s` and shrinking `down_s` at the present
//! rate, and a change must be worth `hysteresis` times its cost: a plan is reconsidered at every
//! event, and what does not pay clearly now may pay for nothing in a minute.
//!
//! **Method.** `segments` cuts the ordered free nodes into consecutive segments, one for each
//! loose trainer, or leaves nodes out, exactly, by dynamic programming. `growth` then lets
//! bound trainers grow into what is left as long as that pays. Sizes of bound trainers are
//! *guided*: several proposals (change nothing; the sizes that are optimal without a forecast
//! over a short and a longer time, by [`crate::dp`]) are carried out in this way, and the best
//! by V is taken, or everything kept if nothing is better. Refusing a hole is an answer like any
//! other.
//!
//! [`crate::patterns`] is the same problem as a mixed-integer programme with a bound.
//!
//! Sources: arXiv 2106.12091 for the trainers and their costs; the rest is Lacuna's own.
//!
//! Why scenarios and not expected lengths: V counts a stall once for all nodes that leave in one
//! event, so it needs to know which do, not only when each does. One algorithm serves all states of
//! information: no look-ahead, some, or clairvoyance, which is one scenario, the true one.

mod decide;
mod growth;
mod lineup;
mod outlook;
mod scenarios;
mod segments;
mod worth;

pub(crate) use decide::use_all;
pub use decide::{Assignment, Joint, Proposal, Request, Settings};
pub use lineup::{Lineup, Listed};
pub use outlook::{Curves, Outlook, Promise};
pub use scenarios::{Leave, Scenarios};
pub(crate) use worth::Set;
pub use worth::{Member, worth};
