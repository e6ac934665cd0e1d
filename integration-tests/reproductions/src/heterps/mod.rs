//! `heterps`: which layers on which kind of node, exactly and by search.
//!
//! `family` has networks and kinds, `evaluate` counts the placements that a scheduler tries. The
//! schedulers are in `rules`, `search`, `parzen` and `learn`, whose network is `recurrent`.
//! `pipeline` plays a placement in virtual time. `study` runs them all, `results` has what was found,
//! `table` shows it.

mod args;
mod evaluate;
mod family;
mod learn;
mod parzen;
mod pipeline;
mod recurrent;
mod results;
mod rules;
mod search;
mod study;
mod table;

pub(crate) use args::{HeterpsArgs, run};
