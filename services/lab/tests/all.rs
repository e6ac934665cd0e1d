//! The commands of the lab.

mod compare;
mod forecast;
mod generate;
mod replay;
mod solve;
