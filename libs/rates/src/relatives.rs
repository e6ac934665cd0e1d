//! Measurements of a trainer's relatives, the trainers of its owner and family. They hold for it
//! until it has its own.

use std::collections::BTreeMap;

use lacuna_model::{
    KindName, Launch, Measured, MeasuredPause, MeasuredRate, MeasuredStart, Program, Tier,
    Timestamp, TrainerId, TrainerRecord,
};

use crate::links::links;

/// Whether measurements of one hold for the other: they name the same family, or declare the same
/// program, started alike.
fn same_family(one: &Launch, other: &Launch) -> bool {
    let declared = |launch: &Launch| match launch {
        Launch::Simulated => None,
        Launch::Command(Program {
            family: Some(name), ..
        }) => Some((Some(name.clone()), None)),
        Launch::Command(Program {
            program,
            args,
            env,
            directory,
            elastic,
            ..
        }) => Some((
            None,
            Some((
                program.clone(),
                args.clone(),
                env.clone(),
                directory.clone(),
                *elastic,
            )),
        )),
    };
    let one = declared(one);
    one.is_some() && one == declared(other)
}

/// Whether starts of one take as long as those of the other: both run the same program, or the same
/// script under an interpreter, under the same launcher. Further arguments seldom matter to that.
fn same_program(one: &Launch, other: &Launch) -> bool {
    let started = |launch: &Launch| match launch {
        Launch::Simulated => None,
        Launch::Command(Program {
            program,
            args,
            elastic,
            ..
        }) => Some((program.clone(), args.first().cloned(), *elastic)),
    };
    let one = started(one);
    one.is_some() && one == started(other)
}

/// A node count, and how far apart the nodes are.
pub(crate) type Place = (u32, Tier);

/// Measurements of a trainer's relatives: the trainers of its owner and family.
#[derive(Debug, Default)]
pub struct OfRelatives {
    /// The newest rate at each place.
    pub(crate) rates: BTreeMap<(Option<KindName>, Place), MeasuredRate>,
    pub(crate) up: Option<MeasuredPause>,
    pub(crate) down: Option<MeasuredPause>,
    /// The newest start of the same program, in any family.
    pub(crate) start: Option<MeasuredStart>,
    /// By tier from 1 on: the newest link that a trainer of its owner shows.
    links: Vec<Option<(Timestamp, f64)>>,
}

impl OfRelatives {
    /// Of a trainer, among all. Measurements by another owner's programs may be false.
    #[must_use]
    pub fn of<'a>(record: &TrainerRecord, all: impl Iterator<Item = &'a TrainerRecord>) -> Self {
        let mut found = Self::default();
        let own = record.owner();
        for other in all.filter(|other| other.spec.id != record.spec.id) {
            let Some(measured) = other.measured.as_deref().filter(|_| other.owner() == own) else {
                continue;
            };
            found.add_links(measured);
            if same_program(&record.spec.launch, &other.spec.launch) {
                found.add_start(&other.spec.id, measured);
            }
            if same_family(&record.spec.launch, &other.spec.launch) {
                found.add(&other.spec.id, measured);
            }
        }
        found
    }

    /// The links by tier from 1 on.
    pub(crate) fn links(&self) -> Vec<Option<f64>> {
        let links = self.links.iter();
        links.map(|link| link.map(|(_, slower)| slower)).collect()
    }

    fn add_links(&mut self, measured: &Measured) {
        let links = links(measured);
        if self.links.len() < links.len() {
            self.links.resize(links.len(), None);
        }
        let at = measured.replay.as_deref().map(|replay| replay.at);
        for (known, link) in self.links.iter_mut().zip(links) {
            let link = at.zip(link);
            if link.map(|(at, _)| at) > known.map(|(at, _)| at) {
                *known = link;
            }
        }
    }

    fn add_start(&mut self, id: &TrainerId, measured: &Measured) {
        let own = measured.start.as_ref().filter(|start| start.from.is_none());
        let known = self.start.as_ref().map(|start| start.pause.at);
        if let Some(start) = own.filter(|start| known.is_none_or(|at| at < start.pause.at)) {
            self.start = Some(MeasuredStart {
                pause: start.pause,
                from: Some(id.clone()),
            });
        }
    }

    fn add(&mut self, id: &TrainerId, measured: &Measured) {
        let all = measured.by_kind().flat_map(|(kind, of)| {
            let rates = of.at_all_tiers();
            rates.map(move |(tier, rate)| (kind, tier, rate))
        });
        for (kind, tier, rate) in all.filter(|(_, _, rate)| rate.from.is_none()) {
            let place = (kind.cloned(), (rate.nodes, tier));
            let rate = MeasuredRate {
                from: Some(id.clone()),
                ..rate.clone()
            };
            match self.rates.get_mut(&place) {
                Some(known) if rate.at <= known.at => {}
                Some(known) => *known = rate,
                None => {
                    self.rates.insert(place, rate);
                }
            }
        }
        for (newest, cost) in [(&mut self.up, measured.up), (&mut self.down, measured.down)] {
            if cost.map(|cost| cost.at) > newest.map(|newest| newest.at) {
                *newest = cost;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_named_or_declare_the_same_program() {
        let launch = |seed: &str, family: Option<&str>| {
            Launch::Command(Program {
                program: "train".to_owned(),
                args: vec!["--seed".to_owned(), seed.to_owned()],
                checkpoint_dir: Some(format!("/scratch/{seed}")),
                profile: true,
                family: family.map(str::to_owned),
                elastic: lacuna_model::Elastic::REGROUP,
                ..Program::default()
            })
        };
        assert!(same_family(&launch("1", None), &launch("1", None)));
        assert!(!same_family(&launch("1", None), &launch("2", None)));
        assert!(same_family(
            &launch("1", Some("cnn")),
            &launch("2", Some("cnn"))
        ));
        assert!(!same_family(&launch("1", Some("cnn")), &launch("1", None)));
        assert!(!same_family(&Launch::Simulated, &Launch::Simulated));
    }
}
