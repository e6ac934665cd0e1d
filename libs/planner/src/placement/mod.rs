//! Placement: which nodes each trainer gets, and with forecasts how many.
//!
//! A departure stalls *all* nodes of the trainer that it hits. So the choice of nodes matters more
//! than their number. Nodes that leave together belong to one trainer; nodes that leave soon belong
//! to trainers with a cheap restart. Nodes come here in the order in which they are expected to
//! leave, the most endangered first. The future comes as equally likely [`Scenarios`], each with
//! the departure of every node.
//!
//! **The value of a node set** S to trainer j, over the horizon H, with `n = |S|`, the rate
//! `O_j(n)`, the stall of a departure `R_j`, the leave time `L_is` of node i in scenario s, and
//! `t_s = min over S of L_is`, the moment of the first hit:
//!
//! ```text
//! V_j(S) = mean over s of [ O_j(n) min(t_s, H) - R_j O_j(n) [t_s < H]
//!                           + k sum over i in S of (min(L_is, H) - min(t_s, H)) ]
//! ```
//!
//! Up to the first hit the trainer works at its rate, and the hit stalls it once. After the hit it
//! restarts anyway and may take any nodes, so its remaining nodes are as good as free. They are worth
//! no more than it makes of them, though, so k is at most `O_j(n) / n`. Else a trainer far beyond its
//! best size would be the cheapest place for nodes that leave soon, and they might stay. Columns have
//! no such limit ([`Settings::limited`]), since their program is linear in nodes.
//!
//! A free node-second has the *shadow price* k (`shadow_price` in reports). A first decision for the
//! same request at the highest price yields k: its value per node-second, all costs taken off. The
//! price has no memory, since a remembered price would have to survive restarts. Looking only up to
//! the first hit makes whole machines plannable: the sum splits into three tables by block, the
//! same for all trainers.
//!
//! **Flexible and pinned trainers.** A trainer that was just hit restarts anyway. A trainer without
//! nodes, or with fewer than it can run on, has nothing to lose. Both are *flexible*: they may take
//! any node set without a further switching cost. All others are *pinned*: the new set contains the
//! old one or is contained in it (no migration). Growing costs `up_s` and shrinking `down_s` at the
//! present rate. Where agents come as pilots of the trainer's owner, further nodes add nothing for
//! the `pilot_s` seconds of a pilot's start; they wait at a start and after a hit too. A change must
//! gain `hysteresis` times its cost, since every event reconsiders the plan, and a small gain now
//! may be none in a minute.
//!
//! **Kinds.** Where nodes are of several kinds, `O_j` is a rate over counts of each, and the nodes of
//! each kind are a line of their own. Pinned trainers move no node within a kind.
//!
//! **Shared uplinks.** Where an uplink carries few crossing trainers at full speed, `O_j(n)` of a
//! crossing trainer falls with their number ([`crate::Switches::crowds`]). The value of a node set
//! then depends on those of others. Whole answers are judged by it, those over several owners too, each
//! also with fewer crossing trainers (`lighter`).
//!
//! **Method.** [`blocks`] finds node sets by dynamic programming over the order. [`columns`] is the
//! same problem as a mixed-integer program with a bound. [`forecast`] makes the request from a pool
//! with forecasts. [`choose`] picks nodes for known sizes, without forecasts.
//!
//! Sources: arXiv 2106.12091 for the trainers and their costs; the rest is Lacuna's own.
//!
//! Expected lengths would not do in place of scenarios: V counts one stall for all nodes that leave
//! in one event, so it needs their departures together. One algorithm serves all states of
//! information: no look-ahead, some, or clairvoyance, which is one scenario, the true one.

pub(crate) mod attainable;
pub mod blocks;
pub mod choose;
pub mod columns;
mod departure_order;
mod departures;
pub mod forecast;
mod near;
mod request;
mod scenarios;
mod sets;
mod settings;
mod value;

pub use departure_order::{DepartureOrder, ListedNodes};
pub use departures::{Curves, DepartureModel, WeighedEnd};
pub(crate) use near::{Bounds, LeafByLeaf, below, lighter, nearest, places, uncross};
pub use request::{Assignment, Proposal, Request};
pub use scenarios::{Leave, Scenarios};
pub(crate) use sets::Sets;
pub use settings::Settings;
pub(crate) use settings::UNKNOWN_S;
pub(crate) use value::{FirstHits, Means, afterwards, judge, net_value, net_value_among};
pub use value::{Member, set_value, value_among};
