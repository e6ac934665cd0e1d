//! Input that makes no sense is refused with its place and a remedy.

use lacuna_goodput::{
    BatchRule, Bounds, Error, GoodputCurve, Layout, Noise, Observation, StepFormula, best, fit,
};

const GOOD: [f64; 7] = [0.1, 0.01, 0.5, 0.1, 0.1, 0.01, 1.2];

#[test]
fn noise_is_finite_and_none_is_worth_nothing() {
    for (v, q) in [
        (f64::NAN, 1.0),
        (1.0, f64::NAN),
        (-1.0, 1.0),
        (1.0, f64::INFINITY),
    ] {
        let text = Noise::new(v, q).unwrap_err().to_string();
        assert!(text.contains("leave steps out"), "{text}");
    }
    let nothing = Noise::new(0.0, 0.0).unwrap();
    assert_eq!(nothing.gain(8.0).unwrap(), 1.0);
    assert_eq!(nothing.efficiency(8.0).unwrap(), 0.125);
    assert!(Noise::of_scale(f64::NAN).is_err() && Noise::of_scale(-1.0).is_err());
    let noise = Noise::new(1.0, 0.0).unwrap();
    assert_eq!(
        noise.efficiency(64.0).unwrap(),
        1.0,
        "without a signal noise is all"
    );
    for scale in [0.5, f64::NAN, f64::INFINITY] {
        assert!(noise.gain(scale).is_err());
    }
    assert!(noise.doubted(f64::NAN).is_err());
    // However large the error, something is left of the noise scale.
    for (error, left) in [(0.25, 8.0), (4.0, 2.0)] {
        let doubted = Noise::of_scale(10.0).unwrap().doubted(error).unwrap();
        assert!((doubted.scale() - left).abs() < 1e-12, "{error}");
    }
}

#[test]
fn models_have_finite_times() {
    assert!(StepFormula::new(GOOD).is_ok());
    for i in 0..7 {
        for value in [f64::NAN, f64::INFINITY, -1.0, 11.0] {
            let mut other = GOOD;
            other[i] = value;
            let refused = StepFormula::new(other).is_err();
            assert_eq!(refused, i == 6 || value != 11.0, "{i} {value}");
        }
    }
    assert!(StepFormula::new([0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]).is_err());
    assert!(Layout::new(0, 1, 1, 0).is_err() && Layout::new(2, 1, 1, 0).is_err());
    assert!(Layout::new(1, 1, 0, 0).is_err());
}

#[test]
fn bounds_do_not_contradict() {
    let text = Bounds::new(128, 64, (1, 2), false).unwrap_err().to_string();
    assert_eq!(
        text,
        "the user's batch is 128 and the largest batch is 64: expected the user's batch <= the largest batch"
    );
    assert!(Bounds::new(1, 1, (3, 2), false).is_err());
    assert!(Bounds::new(0, 1, (1, 2), false).is_err() && Bounds::new(1, 1, (0, 2), false).is_err());
    let model = StepFormula::new(GOOD).unwrap();
    let noise = Noise::of_scale(1.0).unwrap();
    let bounds = Bounds::new(16, 32, (8, 16), false).unwrap();
    assert!(best(&model, noise, &bounds, 1, 4).is_ok());
    assert_eq!(
        best(&model, noise, &bounds, 1, 5).unwrap_err(),
        Error::NoBatch {
            replicas: 5,
            max: 32,
            min_local: 8
        }
    );
    // A batch that does not fit the memory of one replica, without accumulation.
    let large = Bounds::new(64, 64, (1, 16), false).unwrap();
    assert!(best(&model, noise, &large, 1, 1).is_err());
    assert!(best(&model, noise, &large, 1, 4).is_ok());
    // As many samples as no multiple of three has: shares differ by one.
    let odd = Bounds::new(128, 128, (1, 64), false).unwrap();
    assert_eq!(best(&model, noise, &odd, 1, 3).unwrap().batch, 128.0);
    for sizes in [(0, 4), (5, 4)] {
        assert!(GoodputCurve::new(&model, noise, &bounds, BatchRule::Best, sizes, 1).is_err());
    }
    assert!(GoodputCurve::new(&model, noise, &bounds, BatchRule::Best, (1, 4), 0).is_err());
    // Sizes without a batch are worth nothing.
    let table = GoodputCurve::new(&model, noise, &bounds, BatchRule::Best, (1, 6), 1).unwrap();
    assert_eq!(
        (table.entries()[5].goodput, table.entries()[5].choice),
        (0.0, None)
    );
}

#[test]
fn measured_steps_are_checked_by_place() {
    let good = Observation {
        nodes: 1,
        replicas: 1,
        local: 8,
        pass_s: 0.1,
        step_s: 0.1,
    };
    assert_eq!(fit(&[]).unwrap_err(), Error::NoObservation);
    for bad in [
        Observation {
            step_s: f64::NAN,
            ..good
        },
        Observation {
            pass_s: 0.0,
            ..good
        },
        Observation {
            pass_s: 1e9,
            ..good
        },
        Observation { local: 0, ..good },
        Observation {
            replicas: 0,
            ..good
        },
        Observation { nodes: 2, ..good },
    ] {
        let text = fit(&[good, bad]).unwrap_err().to_string();
        assert!(text.starts_with("measured step 1: "), "{text}");
    }
    // What was not seen is assumed, optimistically: half of the pass does not depend on samples.
    let one = fit(&[good]).unwrap();
    let [alpha_c, _, alpha_n, _, alpha_r, _, gamma] = one.model.parameters();
    assert!((alpha_c - 0.05).abs() < 1e-9 && (1.0..=10.0).contains(&gamma));
    assert!(
        alpha_n >= alpha_r && alpha_n < 1e-6 && one.worst_error < 1e-3,
        "{one:?}"
    );
}
