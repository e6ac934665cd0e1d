//! The order in which the main scheduler takes nodes: given (names, a list, weights), or learnt
//! from the nodes that were taken. A test statistic (`evidence`) decides whether there is an order.
//! Without one, holes are grouped by release.

mod evidence;
mod names;
mod nodes;
mod taken;

pub use evidence::Evidence;
pub use names::{block_of, natural_cmp};
pub use nodes::{Nodes, OrderBy};
pub(crate) use taken::Taken;
