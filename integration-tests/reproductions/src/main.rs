//! The command `lacuna-reproduce`: repeats what other people have published, on their own traces, and
//! shows it beside Lacuna. `make reproduce` builds and runs it.
//!
//! Nothing of the product needs it, so it is a workspace of its own. It takes rows, tables and the page
//! of results from the crate `lacuna-lab`, and starts the command `lacuna` for replays.

mod args;
mod bftrainer;
mod dally;
mod heterps;
mod parcae;
mod published;
mod stash;

fn main() -> std::process::ExitCode {
    args::main()
}
