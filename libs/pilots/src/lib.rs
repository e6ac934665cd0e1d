//! Pilots: one-node batch jobs, each of which brings an agent to an idle node.
//!
//! - [`keeper`]: which node needs a pilot and which pilot is cancelled, as a state machine;
//! - [`limit`]: the time limit of a pilot, from the forecast of its hole;
//! - [`observe`]: observe-only accounting, the harvest and the harm of pilots that are not started.
//!
//! The section `[control.pilots]` of the configuration is [`lacuna_model::pilots`], since control's
//! section has it. The crate starts no process, reads no clock and does not know the bus. `lacuna-scheduler`
//! writes the command lines and reads their output.

pub mod keeper;
pub mod limit;
pub mod observe;
