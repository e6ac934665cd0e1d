//! The core of the service, its store, and the service as a process.

mod choice;
mod forecaster;
mod live;
mod machine;
mod models;
mod process;
mod service;
mod store;
mod summit;
