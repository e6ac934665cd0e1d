//! Owners of trainers: what an owner signs, so that pilots may run one program under the owner's
//! account, and the account itself: what is given to it, and how a process becomes its own.

mod account;
mod hex;
mod ticket;

pub use account::{Account, NoAccount};
pub use ticket::{LONGEST, Refused, Signed, Ticket, VARIABLE, digest};
