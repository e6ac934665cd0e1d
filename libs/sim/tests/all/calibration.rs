//! Whether forecasts come true: by hand on one node, and on the recording.

use lacuna_forecast::Choice;
use lacuna_model::{HoleRecord, Timestamp};
use lacuna_sim::Trace;
use lacuna_sim::calibration::{CalibrationOptions, calibrate};

use crate::common::{Summit, hole};

/// One node that is idle for 100 s in each 101 s: at a moment within a hole it is open a minute
/// later if the hole is younger than 40 s.
#[test]
fn a_constant_is_scored_as_by_hand() {
    let records: Vec<HoleRecord> = (0..2000)
        .map(|at| hole(0, at * 101, at * 101 + 100))
        .collect();
    let trace = Trace::new(&records, None, Timestamp::from_unix(0), None);
    let options = CalibrationOptions {
        predictors: vec![("constant".to_owned(), Choice::Constant { length_s: 120.0 })],
        moments: 4000,
        ..CalibrationOptions::default()
    };
    let calibrated = calibrate(&trace, &options).unwrap();
    println!("seed {}", options.seed);
    // Now and then a moment falls between two holes.
    assert!(
        (3900..4000).contains(&calibrated.holes),
        "{}",
        calibrated.holes
    );
    let minute = &calibrated.predictors[0].horizons[0];
    assert_eq!(minute.bins.len(), 1);
    assert_eq!(minute.bins[0].predicted, 1.0);
    assert!((minute.bins[0].observed - 0.4).abs() < 0.03, "{minute:?}");
    // Each forecast of open is wrong by one where the hole had closed.
    assert!((minute.brier - (1.0 - minute.bins[0].observed)).abs() < 1e-12);
    let five = &calibrated.predictors[0].horizons[1];
    assert_eq!((five.open, five.brier, five.skill()), (0, 0.0, None));
    // Only what was asked of the last hole, which the end cuts, can be without an answer.
    let open_end = calibrated.holes - five.answered;
    assert!(
        open_end < 10 && minute.answered >= five.answered,
        "{open_end}"
    );
}

#[test]
fn forecasts_of_the_recorded_pool_are_better_than_the_base_rate() {
    let Some(summit) = Summit::at_hand() else {
        return;
    };
    let trace = summit.whole();
    let options = CalibrationOptions::default();
    let calibrated = calibrate(&trace, &options).unwrap();
    println!(
        "seed {}, {} holes at {} moments",
        options.seed, calibrated.holes, calibrated.moments
    );
    for predictor in &calibrated.predictors {
        for score in &predictor.horizons {
            println!(
                "{} {} s: Brier {:.4}, base rate {:.4}, skill {:+.3}, {} of {} open",
                predictor.label,
                score.horizon_s,
                score.brier,
                score.brier_of_base_rate,
                score.skill().unwrap(),
                score.open,
                score.answered
            );
        }
    }
    let survival = &calibrated.predictors[0];
    assert!(calibrated.moments > 900, "{}", calibrated.moments);
    for score in &survival.horizons {
        assert!(score.skill().unwrap() > 0.0, "{score:?}");
        assert!(score.answered > 20_000, "{score:?}");
    }
    // A constant of two minutes says that no hole is open after five.
    let constant = &calibrated.predictors[1].horizons[1];
    assert_eq!(constant.bins.len(), 1);
    assert_eq!(constant.bins[0].predicted, 0.0);
    assert_eq!(calibrate(&trace, &options).unwrap(), calibrated);
}
