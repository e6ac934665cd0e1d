//! The loop as a whole: real services, a real nats-server, recorded or made holes.

mod chaos;
mod cluster;
mod equality;
mod monitor;
mod profiling;
mod program;
mod readme;
mod torch;
