//! A cluster on one machine: nats-server and the services as child processes.

mod args;
mod child;
mod child_of;
mod find;
mod log;
mod nats;
mod preflight;
mod runtime_file;
mod stop;
mod supervisor;

pub(crate) use args::{UpArgs, run};
pub(crate) use child::is_full;
pub(crate) use child_of::{ChildOfArgs, run as child_of};
pub(crate) use runtime_file::default_data_dir;
pub(crate) use stop::until_stopped;

pub use find::sibling;
pub use runtime_file::RuntimeFile;
pub use stop::stop_token;
pub use supervisor::{Settings, Supervisor};
