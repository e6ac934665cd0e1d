//! The loaders of a trainer: how many it has, what one more would bring, and why it has no more.

use lacuna_model::{Phase, StepCosts, TrainerRecord};
use lacuna_trainer::controller::LOADER_WORTH;
use serde::Serialize;

/// The loaders of a trainer, as `lacuna explain --json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct LoadersView {
    /// Their kind.
    kind: String,
    /// Most nodes that it may have for them.
    most: u32,
    /// The nodes that it has for them.
    nodes: Vec<String>,
    /// What one more would bring, as a share of its rate without loaders; none if not known.
    next: Option<f64>,
    /// Why it has no more.
    why: String,
}

impl LoadersView {
    /// Of a trainer and all its loaders. `plan` is what the plan says of the first without a node.
    /// Nothing for a trainer that may have none.
    pub(crate) fn of(
        record: &TrainerRecord,
        loaders: &[TrainerRecord],
        plan: Option<String>,
    ) -> Option<Self> {
        let may = record.spec.kinds.loaders()?;
        let nodes: Vec<String> = (loaders.iter().flat_map(|loader| &loader.nodes))
            .map(ToString::to_string)
            .collect();
        let costs = record.step_costs.as_deref();
        let gains = costs.map(|costs| costs.loader_gains(may.nodes, may.processes));
        let next = gains.and_then(|gains| gains.get(nodes.len()).copied());
        let trains = record.phase == Phase::Active && !record.nodes.is_empty();
        let failing = loaders.iter().find(|loader| loader.failures > 0);
        let failing = failing.or_else(|| loaders.iter().find(|one| one.phase == Phase::Failed));
        let why = match (costs, next) {
            _ if failing.is_some() => failing.map(fails).unwrap_or_default(),
            _ if !trains => "it does not train now".to_owned(),
            (None, _) => "its steps are not measured yet: first figures come after some 20 steps, \
                          and then every 30 s"
                .to_owned(),
            (Some(costs), _) if costs.remote == 0 && !nodes.is_empty() => {
                "its measured steps have none of them yet".to_owned()
            }
            (Some(costs), _) if !costs.trusted => off(costs),
            _ if nodes.len() >= may.nodes as usize => "it has all that its file allows".to_owned(),
            (Some(_), None) => "its program reads no data through run.steps".to_owned(),
            (Some(_), Some(next)) if next < LOADER_WORTH => format!(
                "less than {:.0} % of its rate is worth no node",
                100.0 * LOADER_WORTH
            ),
            (Some(_), Some(_)) => plan.unwrap_or_else(|| "the next plan decides".to_owned()),
        };
        Some(Self {
            kind: may.kind.to_string(),
            most: may.nodes,
            nodes,
            next,
            why,
        })
    }
}

/// What is wrong with a loader.
fn fails(loader: &TrainerRecord) -> String {
    let id = &loader.spec.id;
    format!("{id} failed: {} (`lacuna logs {id}`)", loader.reason)
}

/// Why a replay says nothing of loaders.
fn off(costs: &StepCosts) -> String {
    format!(
        "what they bring is not known: the replayed step is {:+.1} % off the measured one",
        100.0 * (costs.replayed / costs.measured - 1.0)
    )
}

/// The same as a line.
pub(crate) fn loaders_text(view: &LoadersView) -> String {
    let which = match view.nodes.as_slice() {
        [] => String::new(),
        nodes => format!(" ({})", nodes.join(", ")),
    };
    let (has, most, kind) = (view.nodes.len(), view.most, &view.kind);
    let next = view.next.map_or_else(String::new, |next| {
        format!("; one more would bring {:+.1} %", 100.0 * next)
    });
    format!(
        "it has {has} of at most {most} {kind} nodes as loaders{which}{next}: {}",
        view.why
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lacuna_model::{KindName, KindRates, Loaders, Loading, ScalingCurve, StepWithWorkers};

    use super::*;
    use crate::view::tests::record;

    /// A trainer with one worker of its own; a batch takes a worker 160 ms, and the device 50 ms.
    fn waits(remote: u32) -> TrainerRecord {
        let mut record = record("a", Phase::Active, 1);
        let loaders = Loaders {
            kind: KindName::new("cpu").unwrap(),
            nodes: 4,
            processes: 1,
        };
        let gpu = KindName::new("gpu").unwrap();
        let curve = ScalingCurve::linear(6.25, 1).unwrap();
        let rates = KindRates::new(BTreeMap::from([(gpu, curve)]), Vec::new()).unwrap();
        record.spec.kinds = rates.with_loading(Loading::By(loaders)).unwrap();
        let step = |workers: u32| (0.160 / f64::from(workers.max(1))).max(0.050);
        let costs = lacuna_testkit::reporting("a").step_costs.unwrap();
        record.step_costs = Some(Box::new(StepCosts {
            members: 1,
            workers: 1 + remote,
            remote,
            trusted: true,
            replayed: step(1 + remote),
            measured: step(1 + remote),
            loaders: (0..8)
                .map(|workers| StepWithWorkers {
                    workers,
                    step: step(workers),
                })
                .collect(),
            ..*costs
        }));
        record
    }

    fn said(record: &TrainerRecord, count: u32, plan: Option<&str>) -> String {
        let loaders: Vec<_> = (0..count).map(|_| loader()).collect();
        let view = LoadersView::of(record, &loaders, plan.map(str::to_owned)).unwrap();
        loaders_text(&view)
    }

    fn loader() -> TrainerRecord {
        record("a.loader", Phase::Active, 1)
    }

    #[test]
    fn a_trainer_says_what_one_more_loader_brings_and_why_it_has_none() {
        let busy = "others bring more with those that there are";
        assert_eq!(
            said(&waits(0), 0, Some(busy)),
            "it has 0 of at most 4 cpu nodes as loaders; one more would bring +100.0 %: others bring \
             more with those that there are"
        );
        assert_eq!(
            said(&waits(3), 3, None),
            "it has 3 of at most 4 cpu nodes as loaders (node-000, node-000, node-000); one more \
             would bring +0.0 %: less than 2 % of its rate is worth no node"
        );
        let mut other = waits(0);
        if let Some(costs) = &mut other.step_costs {
            (costs.trusted, costs.replayed) = (false, 0.2);
        }
        let text = said(&other, 0, None);
        assert!(
            text.ends_with("the replayed step is +25.0 % off the measured one"),
            "{text}"
        );
        let text = said(&waits(0), 1, None);
        assert!(text.ends_with("(node-000); one more would bring +100.0 %: its measured steps have none of them yet"), "{text}");
        let mut broken = loader();
        (broken.failures, broken.reason) = (2, "PermissionError".to_owned());
        let view = LoadersView::of(&waits(0), &[broken], None).unwrap();
        assert_eq!(
            view.why,
            "a.loader failed: PermissionError (`lacuna logs a.loader`)"
        );
        other.step_costs = None;
        assert!(said(&other, 0, None).contains("not measured yet"));
        other.nodes.clear();
        assert!(said(&other, 0, None).ends_with("it does not train now"));
        assert_eq!(LoadersView::of(&loader(), &[], None), None);
    }
}
