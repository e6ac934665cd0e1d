//! Controls of the operator over the use of nodes.
//!
//! [`change`] checks changes and applies them to [`Controls`](lacuna_model::Controls). [`Rules`]
//! evaluate controls at a moment of the wall clock, given as an argument: excluded nodes, and the
//! limit in force. Their result, [`Wanted`], goes to the controller
//! ([`crate::controller::Input::Controls`]), which withholds nodes.

mod change;
mod pattern;
mod rules;
mod window;

pub use change::{ControlsError, change};
pub use pattern::{Pattern, PatternError};
pub use rules::{Rules, Wanted};
