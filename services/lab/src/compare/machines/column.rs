//! What is compared on each machine.

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    /// Its name, for `--columns` and in JSON.
    pub(super) name: &'static str,
    /// Its heading.
    pub(super) title: &'static str,
    /// Its arguments of `lacuna replay`.
    pub(super) arguments: &'static [&'static str],
    /// The practice beside the policy whose figures it has, if they are not the policy's.
    pub(super) beside: Option<&'static str>,
}

/// The simple rules.
pub(super) const SIMPLE: [&str; 2] = ["dp", "equal-share"];
/// The default policy on a machine of which nothing is known.
pub(super) const COLD: &str = "cold";
/// The default policy with what other machines have taught.
pub(super) const PRIOR: &str = "prior";
/// The default policy that has learnt from the history of the log.
pub(super) const LEARNT: &str = "learnt";

/// `dp`, with the practices beside it.
const DP: &[&str] = &["--policy", "dp", "--beside", "requeue,torchrun-elastic"];

/// All columns, in the order in which they are shown.
pub(super) const COLUMNS: [Column; 8] = [
    column("dp", "`dp`", DP),
    column("equal-share", "equal share", &["--policy", "equal-share"]),
    column(COLD, "cold", &["--policy", "auto", "--no-past"]),
    // Which machines are the others depends on the machine.
    column(
        PRIOR,
        "prior",
        &["--policy", "auto", "--no-past", "--prior"],
    ),
    column(LEARNT, "learnt", &["--policy", "auto"]),
    column(
        "ahead",
        "ahead",
        &["--policy", "auto", "--lookahead", "15m"],
    ),
    beside("requeue"),
    beside("torchrun-elastic"),
];

const fn column(
    name: &'static str,
    title: &'static str,
    arguments: &'static [&'static str],
) -> Column {
    Column {
        name,
        title,
        arguments,
        beside: None,
    }
}

/// A practice beside `dp`.
const fn beside(practice: &'static str) -> Column {
    Column {
        beside: Some(practice),
        ..column(practice, practice, DP)
    }
}

/// The names of all columns.
pub(super) fn names() -> Vec<&'static str> {
    COLUMNS.iter().map(|column| column.name).collect()
}
