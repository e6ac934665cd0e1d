//! Predictors, their calibration and their skill.

mod calibration;
mod hazard;
mod hazard_summit;
mod planned_starts;
mod skill;
mod summit;
mod survival;
