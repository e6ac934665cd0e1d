//! `bftrainer`: the published evaluation of BFTrainer, row by row.
//!
//! `published` is the table of published figures. Each of its rows is one run of `lacuna`, so that a
//! row can be repeated by hand and rows use all cores. `figure` compares, `table` shows the results
//! beside the published figures.

mod args;
mod figure;
mod published;
mod table;

pub(crate) use args::{BftrainerArgs, run};
