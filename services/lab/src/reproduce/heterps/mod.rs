//! `lacuna-lab reproduce heterps`: which layers on which kind of node, exactly and by search.
//!
//! `family` has networks and kinds, `evaluate` counts the placements that a scheduler tries. The
//! schedulers are in `rules`, `search`, `parzen` and `learn`, whose network is `recurrent`.
//! `study` runs them all, `results` compares them, `table` and `json` show it.

mod args;
mod evaluate;
mod family;
mod json;
mod learn;
mod parzen;
mod recurrent;
mod results;
mod rules;
mod search;
mod study;
mod table;

pub(crate) use args::{HeterpsArgs, run};
