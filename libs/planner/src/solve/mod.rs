//! Solvers: how many nodes each trainer gets.
//!
//! **One more policy** needs:
//!
//! | file | what the policy needs there |
//! |---|---|
//! | `libs/model/src/plan.rs` | the variant, its place in `Policy::ALL`, its name in kebab-case; the compiler asks for `forecasts` and `maximises` |
//! | `solve/<policy>.rs`, `solve/mod.rs`, `lib.rs` | `solve`, from a [`crate::Problem`] to [`crate::Sizes`]; `equal_share.rs` is the shortest |
//! | `decider.rs` | its call in `Decider::solve`, for which the compiler asks, and its line in the table on top |
//! | `services/cli/src/replay/args.rs` | its words in the help, for which the compiler asks |
//! | each file of `grep -rl equal-share deploy`, `CHANGELOG.md`, the picture in `ARCHITECTURE.md` | its words for people; a test demands the one in `deploy/lacuna.toml` |
//!
//! The planner service takes it from `planner.policy` and the replay from `--policy`: neither has a
//! list of its own. A hole is one node, so a policy over sizes chooses no holes: [`crate::choose`]
//! places the sizes. The trainers of a `Problem` stand in the order of admission. Under the objective
//! `fair` a solve sees the trainers of one owner at a time. A policy by forecasts begins in
//! [`crate::placement::forecast`] instead.
//!
//! Tests over `Policy::ALL` take a policy over sizes by themselves; one by forecasts needs its own in
//! `tests/all/forecast.rs`.

pub mod dp;
pub mod equal_share;
pub mod fair;
pub mod milp;
pub mod mixed;
