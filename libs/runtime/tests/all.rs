//! The bus and the leader, with a nats-server and with the simulated one.

mod bus;
mod leader;
mod simulated;
mod streams;
