//! Statistics of the pool: number and lengths of holes, without any training.
//!
//! [`pool_stats`] walks once over a [`PoolTrace`](crate::PoolTrace). Its memory is a constant and
//! a few numbers for each node. Shares of time and quantiles of the pool's size are exact.
//! Quantiles of lengths are exact below 4,096 s, and within 1/2,048 above.

mod count;
mod lengths;
mod pool_time;
mod table;
mod types;

pub use count::{PoolOptions, pool_stats};
pub use lengths::bin_holes;
pub use table::grouped;
pub use types::{HoleBin, Holes, Idle, PoolColumn, PoolStats, Shorter, SizeBin};
