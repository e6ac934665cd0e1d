//! What the operator wants of the use of nodes: changes checked, and what holds at a moment.
//!
//! [`change`] makes new [`Controls`](lacuna_model::Controls) of old ones. [`Rules`] are controls as
//! they can be asked: which nodes are left out, and which limit holds at a moment of the wall
//! clock, given as an argument. What comes of it, [`Wanted`], goes to the controller
//! ([`crate::controller::Input::Controls`]), which withhold nodes.

mod change;
mod pattern;
mod rules;
mod window;

pub use change::{ControlsError, change};
pub use pattern::{Pattern, PatternError};
pub use rules::{Rules, Wanted};
