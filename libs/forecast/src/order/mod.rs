//! The order in which the main scheduler takes nodes: given (names, a list, weights), or learnt
//! from what it took. A test statistic by event (`evidence`) says whether there is one at all.
//! Without one, holes keep together by release.

mod evidence;
mod names;
mod nodes;
mod taken;

pub use evidence::Evidence;
pub use names::{block_of, natural_cmp};
pub use nodes::{Nodes, OrderBy};
pub(crate) use taken::Taken;
