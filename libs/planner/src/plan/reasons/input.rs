//! Input and output of the report on a decision by forecasts.

use lacuna_model::{ForecastReport, HoleVerdict, NodeId, Pool, TrainerRecord, TrainerVerdict};

use crate::placement::Settings;
use crate::plan::translate::Translated;
use crate::plan::verdict::TooFew;
use crate::{Candidate, Decision};

/// A decision by forecasts with the case that it decides.
#[derive(Clone, Copy)]
pub(in crate::plan) struct ReportInput<'a> {
    pub(in crate::plan) case: &'a Translated,
    pub(in crate::plan) candidates: &'a [Candidate],
    pub(in crate::plan) pool: &'a Pool,
    pub(in crate::plan) trainers: &'a [TrainerRecord],
    pub(in crate::plan) decision: &'a Decision,
    /// Settings of the decision, with the look ahead that it used.
    pub(in crate::plan) settings: &'a Settings,
    /// Why a trainer cannot run on the nodes of the pool, if it cannot.
    pub(in crate::plan) too_few: TooFew<'a>,
}

/// The verdicts on trainers and holes of the case, and the report with their numbers.
#[derive(Debug, Clone)]
pub(in crate::plan) struct ForecastVerdicts {
    pub(in crate::plan) trainers: Vec<TrainerVerdict>,
    pub(in crate::plan) holes: Vec<(NodeId, HoleVerdict)>,
    pub(in crate::plan) report: ForecastReport,
}
