//! Everything on one machine: a nats-server and the services as child processes.

mod args;
mod child;
mod child_of;
mod family;
mod find;
mod log;
mod nats;
mod recording;
mod runtime_file;
mod stop;

pub(crate) use args::{UpArgs, run};
pub(crate) use child_of::{ChildOfArgs, run as child_of};
pub(crate) use runtime_file::default_data_dir;

pub use family::{Family, Settings, get};
pub use find::sibling;
pub use runtime_file::RuntimeFile;
pub use stop::stop_token;
