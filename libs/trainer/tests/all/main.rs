//! The books and the agents, by hand and in a world that loses, repeats and delays.

mod common;

mod book;
mod chaos;
