//! Solvers: how many nodes each trainer gets.

pub mod dp;
pub mod equal_share;
pub mod fair;
pub mod milp;
pub mod mixed;
pub mod node_binary;
