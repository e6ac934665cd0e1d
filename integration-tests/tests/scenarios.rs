//! The loop as a whole: real services, a real nats-server, recorded or made holes.

mod cluster;
mod equality;
mod profiling;
mod program;
mod readme;
mod torch;
