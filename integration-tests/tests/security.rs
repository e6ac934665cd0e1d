//! Permissions, with a real nats-server and the keys that `lacuna keys` makes.

mod commands;
mod connections;
mod forbidden;
pub(crate) mod keyed_server;
mod owners;
mod replies;
mod secrets;
mod synced;
mod whole;
