//! The one answer to "how fast does this trainer run on that node set", and on what it rests.
//!
//! The specification of a trainer is what its owner submitted, and never changes. All that is known
//! beside it stands in [`TrainerRecord::measured`]: what was measured of the trainer, what holds from
//! its relatives, and what decisions go by meanwhile ([`InForce`]). [`Rates`] reads both.
//!
//! # Precedence
//!
//! In each row the first that is known holds. Starts are measured of every program, all else only with
//! `profile = true`.
//!
//! | what | 1 | 2 | 3 | 4 |
//! |---|---|---|---|---|
//! | a loader's rate | what it brings its trainer | submitted | | |
//! | the rate of a size on near nodes | measured there, of itself | of a relative | measured farther apart, without what that tier costs | replayed, then a line through these; submitted while none is known |
//! | the rate of a kind of nodes | as above, of sets of this kind alone | submitted | | |
//! | the rate of two kinds together | submitted, times what each alone has in force over what was submitted of it | | | |
//! | the share that is left at a tier | measured rates of the tier | submitted | replayed, over links of its owner's trainers | all of it |
//! | the crowd on uplinks | counted where nodes are given | | | |
//! | learning a second | timed on this kind | timed on another kind, times the rate here over the rate there | the rate | |
//! | growing and shrinking | measured of itself | a start, if changes start the program again | of a relative | submitted |
//! | a start | submitted, if the owner states a curve and a start | measured, of itself or of a trainer of the same program: the newest | submitted, else that of growing | |
//!
//! A curve or a cost in force is replaced when it is off by more than a few percent, since every
//! replacement makes a new plan. Of a trainer with rates by kind, distance costs what it costs the
//! kind whose curve stands for the trainer where kinds are not told apart.

mod costs;
mod links;
mod observed;
mod rates;
mod relatives;
mod shape;
mod stats;

pub use costs::{Pauses, is_off};
pub use observed::{Observed, Site};
pub use rates::{Rate, Rates, on_kind};
pub use relatives::OfRelatives;
pub use shape::{Mix, NO_NODES, Shape};

#[cfg(doc)]
use lacuna_model::{InForce, TrainerRecord};
