//! The results of all runs.

use lacuna_gangs::{Entry, Family, Outcome, Segment};

use super::case::{CalibrationArg, Case};
use super::figures::{Measure, Spread};
use super::reference::{COMPARED, GOALS, Goal, prototype};

/// Means of two simulators agree within this many standard errors.
pub(super) const AGREES: f64 = 2.0;

/// How much longer jobs may take in the mean with dearer restarts: known work, and unknown work.
const WORSE: (f64, f64) = (0.03, 0.2);

/// A policy on a case.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) case: Case,
    pub(super) policy: &'static Entry,
    /// One run for each order of the machines.
    pub(super) runs: Vec<Outcome>,
    /// What gangs had in the first run.
    pub(super) segments: Vec<Segment>,
}

impl Cell {
    pub(super) fn new(
        case: Case,
        policy: &'static Entry,
        runs: Vec<(Outcome, Vec<Segment>)>,
    ) -> Self {
        let (runs, mut kept): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
        kept.truncate(1);
        Self {
            case,
            policy,
            runs,
            segments: kept.pop().unwrap_or_default(),
        }
    }

    /// Mean and deviation of a figure.
    pub(super) fn spread(&self, measure: Measure) -> Spread {
        let values: Vec<f64> = self.runs.iter().map(|run| measure.of(run)).collect();
        Spread::of(&values)
    }
}

/// All cells: of one case after another, each with all policies.
#[derive(Debug, Clone)]
pub(super) struct Results {
    pub(super) cases: Vec<Case>,
    pub(super) cells: Vec<Cell>,
    /// Bounds of the mean completion time of rigid gangs by case, seconds.
    pub(super) bounds_s: Vec<f64>,
    pub(super) seeds: Vec<u64>,
    pub(super) published: bool,
    /// Gangs over several machines take GPUs in the order of search.
    pub(super) as_searched: bool,
    pub(super) lease_s: f64,
}

/// A cell of the prototype beside ours.
#[derive(Debug, Clone)]
pub(super) struct Compared<'a> {
    pub(super) cell: &'a Cell,
    pub(super) measure: Measure,
    pub(super) ours: Spread,
    pub(super) theirs: Spread,
}

impl Compared<'_> {
    /// Whether the means agree.
    pub(super) fn agrees(&self) -> bool {
        self.ours.apart(self.theirs) < AGREES
    }
}

/// A policy of ours with dearer restarts, beside the same with restarts of a second a GPU.
#[derive(Debug, Clone)]
pub(super) struct Dearer<'a> {
    pub(super) cell: &'a Cell,
    /// The share by which jobs take longer in the mean.
    pub(super) worse: f64,
    pub(super) at_most: f64,
}

impl Dearer<'_> {
    pub(super) fn is_met(&self) -> bool {
        self.worse <= self.at_most
    }
}

impl Results {
    /// The cells of a case.
    pub(super) fn of<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.case == *case)
    }

    /// A policy on a case.
    pub(super) fn cell(&self, case: &Case, policy: &str) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.case == *case && cell.policy.name == policy)
    }

    /// Whether a case is in the setting of the prototype and of the authors' corrected runs.
    fn is_reference(&self, case: &Case) -> bool {
        case.is_reference() && !self.published && self.lease_s == 3600.0
    }

    /// The cells of the prototype beside ours.
    pub(super) fn compared(&self) -> Vec<Compared<'_>> {
        let mut all = Vec::new();
        for cell in self
            .cells
            .iter()
            .filter(|cell| self.is_reference(&cell.case))
        {
            let Some(theirs) = prototype(&cell.case.trace, cell.policy.name) else {
                continue;
            };
            all.extend(
                COMPARED
                    .into_iter()
                    .zip(theirs)
                    .map(|(measure, theirs)| Compared {
                        cell,
                        measure,
                        ours: cell.spread(measure),
                        theirs,
                    }),
            );
        }
        all
    }

    /// The goals of what was run, with what was found.
    pub(super) fn goals(&self) -> Vec<(Goal, f64)> {
        let found = |goal: &Goal| {
            let wanted = |case: &&Case| {
                let calibration = match goal.fabric {
                    "paper" => CalibrationArg::Authors,
                    _ => CalibrationArg::Batch,
                };
                let setting = Case {
                    fabric: "paper".to_owned(),
                    calibration: CalibrationArg::Authors,
                    ..(*case).clone()
                };
                case.trace == goal.trace
                    && case.fabric == goal.fabric
                    && case.calibration == calibration
                    && self.is_reference(&setting)
            };
            let case = self.cases.iter().find(wanted)?;
            Some((
                *goal,
                self.cell(case, goal.policy)?.spread(goal.measure).mean,
            ))
        };
        GOALS.iter().filter_map(found).collect()
    }

    /// Our policies with dearer restarts, in the setting of the goals.
    pub(super) fn dearer(&self) -> Vec<Dearer<'_>> {
        let mut all = Vec::new();
        for cell in &self.cells {
            let base = Case {
                restart_s: 1.0,
                ..cell.case.clone()
            };
            let at_most = match cell.policy.family {
                Family::Published => continue,
                Family::Unknown => WORSE.1,
                Family::Known | Family::Malleable => WORSE.0,
            };
            if cell.case.restart_s <= 1.0 || !self.is_reference(&base) {
                continue;
            }
            if let Some(usual) = self.cell(&base, cell.policy.name) {
                let mean = |cell: &Cell| cell.spread(Measure::Mean).mean;
                all.push(Dearer {
                    cell,
                    worse: mean(cell) / mean(usual) - 1.0,
                    at_most,
                });
            }
        }
        all
    }

    /// How many cells of the prototype agree and how many goals are met, in a line.
    pub(super) fn verdict(&self) -> String {
        let (compared, goals) = (self.compared(), self.goals());
        let runs: usize = self.cells.iter().map(|cell| cell.runs.len()).sum();
        let mut words = vec![format!("{runs} runs")];
        if !compared.is_empty() {
            let agree = compared.iter().filter(|cell| cell.agrees()).count();
            words.push(format!(
                "{agree} of {} cells of the prototype within {AGREES} standard errors",
                compared.len()
            ));
        }
        if !goals.is_empty() {
            let met = goals.iter().filter(|goal| is_met(goal)).count();
            words.push(format!("{met} of {} goals met", goals.len()));
        }
        let dearer = self.dearer();
        if !dearer.is_empty() {
            let met = dearer.iter().filter(|one| one.is_met()).count();
            words.push(format!(
                "{met} of {} goals of dearer restarts met",
                dearer.len()
            ));
        }
        words.join("; ")
    }

    /// Whether nine tenths of the prototype's cells agree and all goals are met.
    pub(super) fn is_good(&self) -> bool {
        let compared = self.compared();
        let differ = compared.iter().filter(|cell| !cell.agrees()).count();
        let dear = self.dearer().iter().all(Dearer::is_met);
        differ * 10 <= compared.len() && self.goals().iter().all(is_met) && dear
    }
}

/// Whether a goal is met, to the digit in which goals are given.
pub(super) fn is_met((goal, found): &(Goal, f64)) -> bool {
    let rounded = if goal.most >= 200.0 {
        found.round()
    } else {
        (found * 10.0).round() / 10.0
    };
    rounded <= goal.most
}
