//! The arguments of `lacuna-lab forecast eval`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::log::WholeLogArgs;
use lacuna_cli::output::{JsonArg, iso, parse_time};
use lacuna_cli::replay::{ModelArg, order};
use lacuna_model::{Span, Timestamp};
use lacuna_sim::PoolTrace;
use lacuna_sim::skill::{AfterTraining, SampleTimes, SkillOptions};

use super::predictor::{self, Named};

/// Headings of the help.
const PREDICTORS: &str = "The predictors";
const QUESTIONS: &str = "The questions";
const SHOWS: &str = "The output";

/// Arguments of `forecast eval`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab forecast eval holes.csv.gz --train-until 2021-02-15T00:08:52Z
  lacuna-lab forecast eval sinfo.txt.gz --time-zone Europe/Warsaw --train-until 50%
  lacuna-lab forecast eval theta_2022.swf.gz --machine-nodes 4392 --planned-starts --report skill.html
  lacuna-lab forecast eval holes.csv.gz --predictor hazard --order nodes.txt --freeze --json
  lacuna-lab forecast eval holes.csv.gz --first-nodes 1024 --predictor constant=10m
  lacuna-lab forecast eval holes.csv.gz --from 2021-02-15T00:00:00Z --model model.lacuna

Takes any log that `lacuna holes` takes. At events of the log, each predictor forecasts how long a
sample of the idle nodes will stay idle, from what was known then. The figures are:
  C          Harrell's concordance: how often, of two nodes, the one forecast to stay idle longer
             did so; .5 is chance, 1 is perfect; over all questions, and over nodes that were idle
             at the same event
  skill      one less the ratio of the Brier score to that of the best constant, which is known only
             afterwards; a constant share of nodes that stay idle has skill 0
  by event   the same with equal weight for each event, however many nodes were asked about:
             nodes of one event are mostly taken together
  over constant  the skill over the constant of the time before --train-until: the share of nodes
             that stayed idle then, as far as it was known when that time ended
  off        expected calibration error: the distance of probabilities from the shares that stay
             idle, over tenths of probability; in brackets, mean probability less share
  pinball    mean loss of the quantiles of the remaining length up to an hour, in seconds
  log loss   mean of -ln of the probability of what happened; 0 is perfect, .69 is a coin
  neighbours in the order in which nodes are taken: when the first of two leaves, does the other?
Standard errors take events for independent; events that follow each other closely are not quite.
Persistence (as long again as its age), age (Kaplan-Meier) and a constant are always included for
comparison. A model of `lacuna forecast learn` is scored beside a predictor that starts cold, on all
questions from the start on. A question near the end of the log counts only for the horizons that the log still
covers. The seed is printed with the result.")]
pub(crate) struct EvalArgs {
    /// Time up to which predictors only learn: Unix seconds, ISO-8601, or a share of the log's time
    /// such as 50% [default: they are scored as soon as no predictor is too young]
    #[arg(long, help_heading = PREDICTORS, value_name = "WHEN", value_parser = until)]
    train_until: Option<Until>,
    /// Stop learning at that time, instead of learning on as the service does
    #[arg(long, help_heading = PREDICTORS, requires = "train_until")]
    freeze: bool,
    /// A predictor: hazard, survival (age), persistence, constant=TIME; may be repeated
    /// [default: hazard]
    #[arg(long = "predictor", help_heading = PREDICTORS, value_name = "NAME", value_parser = named)]
    predictors: Vec<Named>,
    #[command(flatten, next_help_heading = PREDICTORS)]
    pub(super) model: ModelArg,
    /// The order in which the scheduler takes nodes: name, learnt, none, or a file with one name a
    /// line, first taken first
    #[arg(long, help_heading = PREDICTORS, value_name = "ORDER", default_value = "learnt")]
    order: String,
    /// Also score the first predictor with the planned starts of the idle nodes: those of the
    /// simulated scheduler, or of --planned
    #[arg(long, help_heading = PREDICTORS)]
    pub(super) planned_starts: bool,
    /// The planned starts of idle nodes, beside a log that names nodes: a CSV file, at,node,start
    #[arg(long, help_heading = PREDICTORS, value_name = "FILE", requires = "planned_starts")]
    pub(super) planned: Option<PathBuf>,
    /// The most events with questions: every k-th event of the log, so that there are no more
    #[arg(long, help_heading = QUESTIONS, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=MOST_EVENTS))]
    events: u32,
    /// Ask at N moments spread over the time instead of at events: quiet times count as much as
    /// busy ones
    #[arg(long, help_heading = QUESTIONS, value_name = "N", conflicts_with = "events", value_parser = clap::value_parser!(u32).range(1..=MOST_EVENTS))]
    times: Option<u32>,
    /// The most idle nodes with a question at one event, drawn at random
    #[arg(long, help_heading = QUESTIONS, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=MOST_HOLES))]
    holes: u32,
    /// Seed of the choice of questions
    #[arg(long, help_heading = QUESTIONS, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten, next_help_heading = SHOWS)]
    pub(super) json: JsonArg,
    /// Write a self-contained HTML page
    #[arg(long, help_heading = SHOWS, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    // The log comes last, since its headings apply to all that follow.
    #[command(flatten)]
    pub(super) log: WholeLogArgs,
}

/// Limits on the questions: each is kept in memory until it is answered.
const MOST_EVENTS: i64 = 100_000;
const MOST_HOLES: i64 = 10_000;
const MOST_QUESTIONS: u64 = 10_000_000;

/// A moment of the log: absolute, or by the share of the log's time before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Until {
    At(Timestamp),
    Share(f64),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return parse_time(text)
                .map(Self::At)
                .map_err(|what| format!("{what}, or a share of the log's time such as 50%"));
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(Self::Share(percent / 100.0)),
            _ => Err(format!(
                "{text} is no share: expected more than 0% and less than 100%"
            )),
        }
    }
}

impl Until {
    fn moment(self, recording: &dyn PoolTrace) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Share(share) => {
                recording.start() + Span::from_secs_f64(recording.length_s() * share)
            }
        }
    }
}

fn until(text: &str) -> std::result::Result<Until, String> {
    text.parse()
}

fn named(text: &str) -> std::result::Result<Named, String> {
    text.parse()
}

impl EvalArgs {
    /// The options of the evaluation that do not depend on the log.
    ///
    /// # Errors
    /// A list of nodes or the model cannot be read, or there would be too many questions.
    pub(super) fn options(&self) -> Result<SkillOptions> {
        let moments = self.times.unwrap_or(self.events);
        if u64::from(moments) * u64::from(self.holes) > MOST_QUESTIONS {
            return Err(CliError::failed(format!(
                "{} idle nodes at {moments} moments are more than {MOST_QUESTIONS} questions",
                self.holes
            ))
            .remedy("give a smaller --events, --times or --holes"));
        }
        let order = order(&self.order)?;
        Ok(SkillOptions {
            predictors: predictor::all(&self.predictors, &order),
            model: self.model.read()?,
            train_until: None,
            planned_starts: self.planned_starts,
            after: if self.freeze {
                AfterTraining::Freeze
            } else {
                AfterTraining::Learn
            },
            moments: self
                .times
                .map_or(SampleTimes::Events(self.events), SampleTimes::Times),
            holes: self.holes as usize,
            order,
            seed: self.seed,
        })
    }

    /// The end of learning. There must be time to learn before it, and time to score after it.
    ///
    /// # Errors
    /// The moment does not lie within the log.
    pub(super) fn train_until(
        &self,
        log: &Path,
        recording: &dyn PoolTrace,
    ) -> Result<Option<Timestamp>> {
        let Some(until) = self.train_until else {
            return Ok(None);
        };
        let at = until.moment(recording);
        let (start, end) = (recording.start(), recording.end());
        if at > start && at < end {
            return Ok(Some(at));
        }
        let what = if at <= start {
            "leaves nothing to learn from"
        } else {
            "leaves nothing to be scored on"
        };
        Err(CliError::failed(format!(
            "--train-until {} {what}: {} is from {} to {}",
            iso(at),
            log.display(),
            iso(start),
            iso(end)
        ))
        .remedy("give a moment between, or a share such as 50%"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_ends_at_a_moment_or_after_a_share() {
        assert_eq!(
            "1613347732".parse(),
            Ok(Until::At(Timestamp::from_unix(1_613_347_732)))
        );
        assert_eq!(
            "2021-02-15T00:08:52Z".parse(),
            Ok(Until::At(Timestamp::from_unix(1_613_347_732)))
        );
        assert_eq!("50%".parse(), Ok(Until::Share(0.5)));
        for bad in ["0%", "100%", "-5%", "half%", "tomorrow"] {
            let error = bad.parse::<Until>().unwrap_err();
            assert!(error.contains('%'), "{bad}: {error}");
        }
    }
}
