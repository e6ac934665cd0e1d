//! The core of the service on the trace of Summit: the scores of its forecasts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use lacuna_forecast::{Choice, HORIZONS_S, OrderBy};
use lacuna_forecast_service::{Forecaster, ModelEvent, Models, PredictorSettings, Role};
use lacuna_model::{EventKind, NodeEvent, NodeId, Timestamp};
use lacuna_testkit::{Missing, data, or_skip};

/// The time from which the scores count; earlier events are learnt.
const FROM: Timestamp = Timestamp::from_unix(1_613_347_732);

/// The changes of each moment: nodes that leave, nodes that come.
type Moments = BTreeMap<Timestamp, (Vec<NodeId>, Vec<NodeId>)>;

fn moments() -> Result<Moments, Missing> {
    let path = data("summit-2021-02/holes.csv.gz")?;
    let mut moments = Moments::new();
    for hole in lacuna_trace::read_holes(&path).unwrap().records {
        let from = moments.entry(hole.from).or_default();
        from.1.push(hole.node.clone());
        if !hole.censored {
            moments.entry(hole.until).or_default().0.push(hole.node);
        }
    }
    Ok(moments)
}

#[test]
fn on_summit_the_hazard_is_rarely_adrift_and_has_skill() {
    let moments = or_skip!(moments());
    let wanted = PredictorSettings::of(Choice::hazard(OrderBy::Learnt)).beside(Choice::survival());
    let mut forecaster = Forecaster::new(Models::new(wanted));
    let mut seq = 0;
    let mut model_events = Vec::new();
    let (mut looks, mut adrift, mut behind) = (0.0, 0.0, 0.0);
    let mut sums = [(0.0, 0.0, 0.0); HORIZONS_S.len()];
    let mut concordance = 0.0;
    for (&at, (closed, opened)) in &moments {
        let ends = closed
            .iter()
            .map(|node| EventKind::NodeBusy { node: node.clone() });
        let starts = opened
            .iter()
            .map(|node| EventKind::NodeIdle { node: node.clone() });
        for kind in ends.chain(starts) {
            seq += 1;
            forecaster.event(&NodeEvent { seq, at, kind }, "");
        }
        forecaster.set_lock_step(false);
        if let Some(task) = forecaster.fit_task() {
            forecaster.install(Some(task.run()));
        }
        forecaster.pool(at);
        for item in forecaster.take_events() {
            println!("{:>7.0} s: {item:?}", at.since(FROM).as_secs_f64());
            model_events.push((at, item));
        }
        if at < FROM {
            continue;
        }
        let models = forecaster.models();
        looks += 1.0;
        adrift += f64::from(u8::from(models.adrift().is_some()));
        behind += f64::from(u8::from(models.active() == Role::Rival));
        let scores = models.calibration().scores();
        for (sum, score) in sums.iter_mut().zip(scores) {
            sum.0 += score.skill().unwrap();
            sum.1 += score.in_the_large().unwrap();
            sum.2 += score.in_the_large().unwrap().abs();
        }
        concordance += models.calibration().concordance().unwrap();
    }
    for (sum, horizon) in sums.iter().zip(HORIZONS_S) {
        println!(
            "{horizon:>5} s: skill {:+.3}, bias {:+.3}, absolute {:.3}, means of {looks} looks at six hours each",
            sum.0 / looks,
            sum.1 / looks,
            sum.2 / looks
        );
    }
    println!(
        "concordance {:.3}; adrift {:.3} of the time, the rival on active {:.3}; {:?}",
        concordance / looks,
        adrift / looks,
        behind / looks,
        forecaster.models().report()
    );
    assert!(looks > 5000.0);
    let fell_back = model_events
        .iter()
        .any(|(_, item)| *item == ModelEvent::FellBack);
    println!("fell back: {fell_back}");
    let [_, (five, ..), ..] = sums;
    assert!(five / looks > 0.05, "{}", five / looks);
    assert!(concordance / looks > 0.7, "{}", concordance / looks);
    assert!(adrift / looks < 0.2, "{}", adrift / looks);
}
