//! The core of the service, its store, and the service on a bus.

mod bus;
mod choice;
mod forecaster;
mod live;
mod machine;
mod models;
mod service;
mod store;
mod summit;
