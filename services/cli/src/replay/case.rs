//! What is replayed: a trace, trainers and settings that fit each other, with notes for the reader.

use std::path::{Path, PathBuf};

use lacuna_model::{Span, TrainerSpec};
use lacuna_planner::objective::Objective;
use lacuna_runtime::clock::Stopwatch;
use lacuna_sim::pool_stats::PoolOptions;
use lacuna_sim::{
    Decision, GanttWindow, History, Hooks, PoolTrace, Replayed, Settings, SimError, Summary, replay,
};
use lacuna_trainer_file::TrainerList;

use super::builtin;
use super::failed::failed;
use super::model::ModelArg;
use super::problem::ProblemRecorder;
use super::request::Request;
use crate::error::{CliError, Result};
use crate::log::{Bar, HoleSource, LogSummary};

/// A replay that can begin.
pub(super) struct Case<'a> {
    request: &'a Request,
    /// The trace.
    pub(super) trace: &'a dyn PoolTrace,
    /// The trainers.
    pub(super) trainers: Vec<TrainerSpec>,
    /// All settings.
    pub(super) settings: Settings,
    /// The summary of the log, with all notes.
    pub(super) log: LogSummary,
}

impl<'a> Case<'a> {
    /// The trainers of the list, or the built-in ones, on this trace.
    ///
    /// # Errors
    /// The model, the costs of distance, an objective or the part that is drawn does not fit.
    pub(super) fn new(
        request: &'a Request,
        list: Option<TrainerList>,
        log: LogSummary,
        trace: &'a dyn PoolTrace,
    ) -> Result<Self> {
        let mut case = Self {
            request,
            trace,
            trainers: Vec::new(),
            settings: request.settings.clone(),
            log,
        };
        if request.keep_idle > 0 {
            case.log.note(format!(
                "{} idle nodes stay free (--keep-idle): figures of idle nodes are of the others",
                request.keep_idle
            ));
        }
        case.note_model(&request.model)?;
        case.take(list)?;
        request.network.charge(&mut case.trainers)?;
        case.log.notes.extend(request.network.note());
        if request.kinds.is_some() && case.trainers.iter().all(|one| one.kinds.is_any()) {
            let note = "--kinds changes nothing, since no trainer has `kinds`: a trainer states its rates by kind";
            case.log.note(note.to_owned());
        }
        case.check_names(request.objectives.as_deref())?;
        case.note_objective();
        if request.shown.draws() {
            case.settings.gantt = Some(case.gantt()?);
        }
        Ok(case)
    }

    /// Says what the model is, or that it changes nothing.
    fn note_model(&mut self, arg: &ModelArg) -> Result<()> {
        let Some(model) = &self.settings.forecast.model else {
            return Ok(());
        };
        let simulated = self.log.kind == HoleSource::Simulated;
        let note = arg.note(model, self.trace, simulated)?;
        let policy = self.settings.policy;
        self.log.note(if policy.forecasts() {
            note
        } else {
            let name = policy.name();
            format!("--model changes nothing: {name} forecasts no hole")
        });
        Ok(())
    }

    /// Takes the trainers of the list, or the built-in ones.
    fn take(&mut self, list: Option<TrainerList>) -> Result<()> {
        if let Some(list) = list {
            self.trainers = list.trainers;
            self.settings.stages = list.stages;
            return Ok(());
        }
        self.settings.endless = true;
        if !self.request.says_parallel {
            self.settings.max_parallel = builtin::parallel(self.trace.nodes());
        }
        self.log.note(format!(
            "no --trainers: {}, {} at a time",
            builtin::WHAT,
            self.settings.max_parallel
        ));
        self.trainers = builtin::trainers(self.trace.start())?;
        Ok(())
    }

    /// Refuses an objective for an unknown trainer. Without an error the replay would silently
    /// ignore it.
    fn check_names(&self, file: Option<&Path>) -> Result<()> {
        let names = self.trainers.iter().map(|trainer| &trainer.id);
        let Some(name) = self.settings.objectives.unmatched(names).next() else {
            return Ok(());
        };
        let first = self.trainers.first();
        let some = first.map_or("", |trainer| trainer.id.as_str());
        Err(CliError::failed(format!(
            "{}: no trainer is named {name}: expected a name such as {some}, or the beginning of \
             names and *",
            file.unwrap_or(Path::new("")).display()
        )))
    }

    /// Says that a policy ignores the objective, if it does.
    fn note_objective(&mut self) {
        let Settings {
            policy, objective, ..
        } = &self.settings;
        let own = matches!(objective, Objective::AsGiven | Objective::Fair);
        if !policy.maximises() && !own {
            let name = policy.name().replace('-', " ");
            self.log.note(format!(
                "{name} ignores all objectives but fair: only the runs that it is measured by, the \
                 same trainers on dedicated nodes, use it"
            ));
        }
    }

    /// The part that is drawn node by node: the requested one, else the first day.
    fn gantt(&self) -> Result<GanttWindow> {
        let shown = &self.request.shown;
        let (from_s, until_s) = match shown.gantt {
            Some(part) => part.seconds(self.trace.start()).map_err(CliError::failed)?,
            None => (0.0, 86_400.0),
        };
        if from_s >= self.trace.length_s() {
            return Err(CliError::failed(format!(
                "--gantt: it begins after the replay has ended, {:.1} h after its start",
                self.trace.length_s() / 3600.0
            )));
        }
        Ok(GanttWindow {
            from_s,
            until_s,
            nodes: shown.gantt_nodes,
        })
    }

    /// Replays it, and writes the problem of the decision that is asked for.
    ///
    /// # Errors
    /// A setting is invalid, the trace or the model cannot be used, or the problem not be written.
    pub(super) fn replay(&mut self, watch: &Stopwatch, bar: &mut Bar) -> Result<Replayed> {
        let wanted = self.request.save_problem.as_ref();
        let mut recorder = wanted.map(|wanted| ProblemRecorder::new(wanted, &self.trainers));
        let mut save = |decision: &Decision<'_>| {
            if let Some(recorder) = &mut recorder {
                recorder.observe(decision);
            }
        };
        let mut hooks = Hooks {
            stopwatch: &|| watch.seconds(),
            progress: &mut |progress| bar.walking(&progress),
            save: wanted.is_some().then_some(&mut save),
        };
        let history = self.request.shown.draws().then(History::default);
        let replayed = replay(
            self.trace,
            &self.trainers,
            &self.settings,
            history,
            &mut hooks,
        );
        let replayed = replayed.map_err(|error| match error {
            SimError::Model(error) => self.request.model.unfit(&error),
            error => failed(error),
        })?;
        if let Some(recorder) = recorder {
            recorder.write(&self.log.file, &self.settings)?;
        }
        let summary = &replayed.summary;
        self.log.ends(summary.until());
        self.log.notes.extend(self.unreached(summary));
        Ok(replayed)
    }

    /// The milestones that the replay has not reached, as a note.
    fn unreached(&self, summary: &Summary) -> Option<String> {
        let milestones = &self.settings.milestones;
        let beyond = milestones.get(summary.milestones.len()..)?.iter();
        let names: Vec<String> = beyond
            .map(|&at| Span::from_secs_f64(at).to_string())
            .collect();
        (!names.is_empty()).then(|| {
            format!(
                "--milestones {}: left out, the replay ends {} after its start",
                names.join(","),
                summary.until().since(summary.start)
            )
        })
    }

    /// The options for the statistics of the pool.
    pub(super) fn pool_options(&self) -> PoolOptions {
        PoolOptions {
            machine_nodes: self.log.machine_nodes,
            until: None,
            utc_offset_s: self.request.log.utc_offset_s(self.trace.start()),
        }
    }

    /// What is written, and where.
    pub(super) fn written(&self) -> [(&'static str, Option<&PathBuf>); 2] {
        let shown = &self.request.shown;
        [
            ("report", shown.report.as_ref()),
            ("drawing", shown.svg.as_ref()),
        ]
    }
}
