//! Who may do what, with a real nats-server and the keys that `lacuna keys` makes.

pub(crate) mod bed;
mod commands;
mod connections;
mod forbidden;
mod replies;
mod secrets;
mod synced;
mod whole;
