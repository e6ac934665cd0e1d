//! Local accounts of owners: the account of a name, what is given to it, and how a process becomes
//! its own.

mod account;

pub use account::{Account, NoAccount};
