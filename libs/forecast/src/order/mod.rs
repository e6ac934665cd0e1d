//! The order in which the main scheduler takes nodes: given, or learnt from what it took.

mod evidence;
mod names;
mod nodes;
mod taken;

pub use evidence::Evidence;
pub use names::{block_of, natural_cmp};
pub use nodes::{Nodes, OrderBy};
pub(crate) use taken::Taken;
