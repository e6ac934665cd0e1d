//! A specification from what is written.

use lacuna_model::{Launch, RescaleCost, Span, SpecError, Staged, TrainerId, TrainerSpec, Work};
use lacuna_rates::Rates;

use crate::curves::Curves;
use crate::error::Fault;
use crate::launch::line;
use crate::read::{Purpose, Reader};
use crate::remedy::form;
use crate::words::Moment;
use crate::written::{Rescale, Written};

impl Reader<'_> {
    /// The trainer, and what a replay follows beside it.
    pub(crate) fn trainer(
        &mut self,
        mut written: Written,
    ) -> Result<(TrainerSpec, Option<Staged>), Fault> {
        // A list in the older spelling has simulated trainers, and compares samples.
        let is_older = written.renew()?;
        if is_older {
            let simulated = || "simulated".to_owned();
            written.launcher.get_or_insert_with(simulated);
        }
        let id = name(&written)?;
        let missing = |key: &'static str| move || Fault::new(key, "missing", form(key));
        let min_nodes = written.min_nodes.ok_or_else(missing("min_nodes"))?;
        let max_nodes = written.max_nodes.ok_or_else(missing("max_nodes"))?;
        written.launcher.as_ref().ok_or_else(missing("launcher"))?;
        self.refuse_foreign(&written)?;
        for (key, text) in [("owner", &written.owner), ("family", &written.family)] {
            text.as_ref().map_or(Ok(()), |text| line(key, text))?;
        }
        let Curves {
            throughput,
            objective,
            kinds,
            staged,
        } = self.curves(&written, max_nodes, is_older)?;
        let spec = TrainerSpec {
            id,
            owner: written.owner.clone(),
            weight: written.weight,
            deadline: written.deadline.map(|Moment(deadline)| deadline),
            priority: written.priority.unwrap_or_default(),
            submit: written.not_before.map_or_else(Default::default, |m| m.0),
            min_nodes,
            max_nodes,
            distance: written.distance.clone().unwrap_or_default(),
            kinds,
            throughput,
            objective,
            rescale: rescale(&written)?,
            work: work(&written)?,
            launch: self.launch(&written)?,
        };
        spec.check().map_err(|error| {
            Fault::new(key_of(&error, &written), error, "correct the named numbers")
        })?;
        let mut spec = match &written.maximise {
            Some(text) if !matches!(text.as_str(), "speedup" | "throughput") => {
                crate::curves::expressed(spec, text)?
            }
            _ => spec,
        };
        if self.purpose == Purpose::Replay && spec.launch != Launch::Simulated {
            spec.rescale.start_s = Some(Rates::from(&spec).start_s());
            spec.launch = Launch::Simulated;
        }
        Ok((spec, staged))
    }

    /// Refuses what has no meaning for this purpose.
    fn refuse_foreign(&self, written: &Written) -> Result<(), Fault> {
        if self.purpose == Purpose::Replay && written.is_measured() && written.kinds.is_none() {
            let problem = "missing: a replay follows curves, and can measure none";
            return Err(Fault::new("scaling", problem, form("scaling")));
        }
        let scaling = written.scaling.as_ref();
        let of_replays = [
            ("stages".to_owned(), written.stages.is_some()),
            (
                "goodput".to_owned(),
                scaling.is_some_and(|s| s.goodput.is_some()),
            ),
            (
                "batch".to_owned(),
                scaling.is_some_and(|s| s.batch.is_some()),
            ),
        ];
        let given = of_replays.into_iter().find(|(_, is_given)| *is_given);
        match given {
            Some((key, _)) if self.purpose == Purpose::Submit => {
                let key = scaling
                    .filter(|_| key != "stages")
                    .map_or(key.clone(), |s| s.key(&key));
                let remedy = "leave it out: a program reports what its steps teach while it trains";
                Err(Fault::new(key, "is what only a replay follows", remedy))
            }
            _ => Ok(()),
        }
    }
}

fn name(written: &Written) -> Result<TrainerId, Fault> {
    let name = written.name.as_ref();
    let name = name.ok_or_else(|| Fault::new("name", "missing", form("name")))?;
    let id = TrainerId::new(name)
        .map_err(|error| Fault::new("name", error, "use letters, digits, `_`, `-` and `.`"))?;
    if name.starts_with('-') || name.trim_matches('.').is_empty() {
        let problem = format!("trainer name {name:?} is not usable");
        let remedy = "begin it with a letter: other commands take it for an option or a folder";
        return Err(Fault::new("name", problem, remedy));
    }
    Ok(id)
}

/// The key of what only the whole of a trainer can refuse.
fn key_of(error: &SpecError, written: &Written) -> String {
    let key = match error {
        SpecError::Bounds { max, .. } if *max == 0 || *max > TrainerSpec::MOST_NODES => "max_nodes",
        SpecError::Bounds { .. } => "min_nodes",
        SpecError::CurveTooShort { .. } => "max_nodes",
        SpecError::Number { what, .. } => match (*what, &written.scaling) {
            ("work.samples", _) => "samples",
            ("throughput", Some(scaling)) => return scaling.key("samples_per_s"),
            ("objective", Some(scaling)) => return scaling.key("objective"),
            ("throughput" | "objective", None) => "kinds",
            (what, _) if written.rescale.is_none() && what.starts_with("rescale.") => {
                return what.replace('.', "_");
            }
            (what, _) => what,
        },
        SpecError::Distance { .. } => "distance",
        SpecError::Kinds { .. } => "kinds",
        SpecError::TooLong { .. } | SpecError::Curve { .. } => "trainer",
    };
    key.trim_end_matches("_s").to_owned()
}

/// What changes of nodes cost. Without a word of it, for torchrun the assumption of the published
/// data, for regroup an upper bound of measured costs.
fn rescale(written: &Written) -> Result<RescaleCost, Fault> {
    let (up_s, down_s) = match written.launcher.as_deref() {
        Some("regroup") => (0.5, 0.5),
        _ => (18.0, 12.0),
    };
    let older = [
        ("rescale_up_s", written.rescale_up_s),
        ("rescale_down_s", written.rescale_down_s),
        ("rescale_start_s", written.rescale_start_s),
    ];
    let Some(Rescale { up, down, start }) = &written.rescale else {
        return Ok(RescaleCost {
            up_s: written.rescale_up_s.unwrap_or(up_s),
            down_s: written.rescale_down_s.unwrap_or(down_s),
            start_s: written.rescale_start_s,
        });
    };
    if let Some((key, _)) = older.into_iter().find(|(_, value)| value.is_some()) {
        return Err(Fault::new(
            key,
            "given beside rescale",
            "keep one of the two",
        ));
    }
    let span = |text: &String, key: &str| {
        let span = text.parse::<Span>().map(Span::as_secs_f64);
        span.map_err(|error| Fault::new(key, error, "write it as \"18s\""))
    };
    let start = start.as_ref().map(|text| span(text, "rescale.start"));
    Ok(RescaleCost {
        up_s: span(up, "rescale.up")?,
        down_s: span(down, "rescale.down")?,
        start_s: start.transpose()?,
    })
}

fn work(written: &Written) -> Result<Work, Fault> {
    match (written.samples, written.until.as_deref()) {
        (Some(samples), None) if (0.0..1.0).contains(&samples) => Err(Fault::new(
            "samples",
            "less than one sample is no work",
            "write how many it trains on, or until = \"exit\" without samples",
        )),
        (Some(samples), None) => Ok(Work::Samples(samples)),
        (None, Some("exit")) => Ok(Work::UntilExit),
        (None, Some(until)) => {
            let problem = format!("{until:?} is not known");
            Err(Fault::new("until", problem, "write until = \"exit\""))
        }
        (Some(_), Some(_)) => {
            let problem = "given beside samples";
            Err(Fault::new("until", problem, "keep one of the two"))
        }
        (None, None) => {
            let remedy = "write samples = 1e6, or until = \"exit\"";
            Err(Fault::new("samples", "missing", remedy))
        }
    }
}
