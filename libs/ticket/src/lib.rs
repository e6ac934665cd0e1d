//! Tickets: what an owner signs, so that pilots may run one program under the owner's account.

mod hex;
mod ticket;

pub use ticket::{LONGEST, Refused, Signed, Ticket, VARIABLE, digest};
