//! Which layers of a network run on which kind of node, and how many nodes of each kind.
//!
//! A network is a chain of layers. A recommender's embedding tables want memory, its dense layers
//! want arithmetic, so no single kind of node suits all of it. A [`LayerProfile`] has what each layer
//! takes on each kind, with prices, memory, links and limits.
//!
//! - [`place`]: the cheapest placement that meets a rate, with a proven gap; the nearest rate that
//!   can be met, and why, where that rate cannot.
//! - [`fastest`]: the highest rate that the limits allow.
//! - [`provision`], [`Provisioner`]: units, rate and cost of a given choice of kinds, for comparisons.
//! - [`rates`]: the rates over counts of nodes of two kinds, for the planner.
//! - [`worth_of_one_more`]: what one more unit of each kind would save.
//!
//! Source of the problem: HeterPS (arXiv 2111.10635), which learns placements. The cost model in
//! [`LayerProfile`] and its solution are derived independently; see the heads of the modules.

mod error;
mod explain;
mod fastest;
mod labels;
mod limited;
mod model;
mod place;
mod placement;
mod profile;
mod program;
mod provision;
mod rates;
mod raw;
mod sweep;

pub use error::Error;
pub use explain::{UnitGain, worth_of_one_more};
pub use fastest::fastest;
pub use place::{Answer, Obstacle, Options, place, without_limit};
pub use placement::{Bound, LayerStage, Placement};
pub use profile::{Kind, Layer, LayerProfile};
pub use provision::{Provisioner, provision};
pub use rates::{Nodes, rates};
pub use raw::{RawKind, RawLayer, RawProfile};
