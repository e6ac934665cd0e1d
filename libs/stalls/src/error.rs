//! Why there is no answer.

use thiserror::Error;

/// Why traced steps cannot be replayed, or not with a change.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The report is of another version.
    #[error(
        "the times of steps have version {found}, this program reads {known}: use the same release of the lacuna package"
    )]
    Version {
        /// Of the report.
        found: u32,
        /// The one that is read here.
        known: u32,
    },
    /// Members sent no times.
    #[error(
        "members {ranks:?} sent no times, so a slow one looks like a slow link: give each member samples in every step (a larger batch), and LACUNA_STALLS=off to none of them"
    )]
    Silent {
        /// Their ranks.
        ranks: Vec<u32>,
    },
    /// Lists have different lengths, or are missing.
    #[error("the times of member {rank} do not fit together: {what}")]
    Shape {
        /// The member.
        rank: u32,
        /// What is wrong.
        what: String,
    },
    /// Reports of members do not belong together.
    #[error(
        "the readings are not of one run: their {what} differ; give the files of one run, each once"
    )]
    Apart {
        /// What differs.
        what: &'static str,
    },
    /// A step adds up the gradients of several batches.
    #[error(
        "a step of this program adds up the gradients of {passes} batches, and the replay knows steps of one: for the readings let each batch have its step"
    )]
    Accumulates {
        /// Batches of a step.
        passes: u32,
    },
    /// Several members, none of whose sums was seen.
    #[error(
        "{members} members train, but no sum of their gradients was seen, so a slow link and a slow member cannot be told: DistributedDataParallel is timed, without a hook that is built into PyTorch"
    )]
    NoSums {
        /// How many they are.
        members: u32,
    },
    /// A site that offers nothing.
    #[error("the site offers no node: each kind needs counts in nodes and workers")]
    NoOffer,
    /// There are no members.
    #[error("the report has the times of no member")]
    Empty,
    /// Few steps can be used.
    #[error(
        "{usable} of {steps} timed steps can be used, and {needed} are needed: let the program train for longer; the first steps are not timed, and steps with times that are no numbers, negative, or far from the usual ones are left out"
    )]
    TooFew {
        /// Steps that can be used.
        usable: usize,
        /// Steps of the report.
        steps: usize,
        /// Steps that are needed.
        needed: usize,
    },
    /// A member alone has no link.
    #[error(
        "a member that trains alone sends nothing: let two nodes train, then the link is known"
    )]
    LinkUnknown,
    /// A number that is larger than any trainer has.
    #[error("{what} is {value}, more than {most}")]
    Limit {
        /// The number.
        what: &'static str,
        /// Its value.
        value: u32,
        /// The most that is taken.
        most: u32,
    },
    /// A change makes no sense.
    #[error("{what} must be {expected}, not {value}")]
    Change {
        /// The number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The accepted values.
        expected: &'static str,
    },
}
