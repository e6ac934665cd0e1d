//! Speeds beside those of ASTRA-sim with its analytical network.

use lacuna_gangs::{
    Calibration, Collective, Fabric, Layout, Library, Profiles, Shape, ShapeRule, Speeds, TraceJob,
};
use lacuna_skip::{data, or_skip};

use crate::common::{Case, FOLDER, job};

/// Largest relative error of a speed.
const TOLERANCE: f64 = 0.002;

#[test]
fn speeds_are_those_of_astra_sim() {
    let layers = or_skip!(data(FOLDER));
    let folder = layers.parent().unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (layers, scales) = (read("layers.csv"), read("compute_scale.csv"));
    let library = Library::read(("layers.csv", &layers), ("compute_scale.csv", &scales)).unwrap();
    let golden = read("slowdowns.csv");
    let rows: Vec<Vec<&str>> = golden
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    let trace: Vec<TraceJob> = rows.iter().map(|row| job(0, 0.0, 1, row[0], 1.0)).collect();
    let (profiles, jobs) = Profiles::new(&library, Calibration::Authors, &trace).unwrap();
    let fabric = Fabric::read("fabrics.json", &read("fabrics.json"), "paper").unwrap();
    let layout = Layout::new(2, 8, 2, 4).unwrap();
    let speeds = Speeds::new(
        fabric,
        (Collective::Naive, ShapeRule::Coded),
        layout,
        profiles,
    );
    let mut worst = 0.0_f64;
    for (row, job) in rows.iter().zip(&jobs) {
        let found = speeds.iteration(job, row[1].parse::<Shape>().unwrap());
        let compute_us: f64 = row[2].parse().unwrap();
        let speed: f64 = row[4].parse().unwrap();
        assert!(
            (found.compute_ns as f64 / 1000.0 - compute_us).abs() < 0.002,
            "{row:?} {found:?}"
        );
        let error = (found.speed() / speed - 1.0).abs();
        assert!(
            error < TOLERANCE,
            "{row:?}: {} instead of {speed}",
            found.speed()
        );
        worst = worst.max(error);
        // The formula of the reference, with six digits.
        let formula: f64 = row[5].parse().unwrap();
        assert!((found.speed() - formula).abs() < 1e-6, "{row:?} {found:?}");
    }
    assert_eq!(rows.len(), 312);
    assert!(
        worst > 0.0005,
        "the largest error is {worst}: is the golden table still ASTRA-sim's?"
    );
}

#[test]
fn a_measured_speed_goes_before_a_computed_one() {
    let trace = [job(1, 0.0, 8, "Deep", 10.0)];
    let case = Case::small(1, 2, &trace);
    let computed = case.speeds.consolidated(&case.jobs[0], 8);
    let measured = Case::small(1, 2, &trace).speeds;
    let measured = measured
        .measured("m.csv", "model,shape,speed\nDeep,FC4.SL2,0.25\n")
        .unwrap();
    assert_eq!(measured.consolidated(&case.jobs[0], 8), 0.25);
    assert_ne!(computed, 0.25);
    let refused = |text: &str| {
        let speeds = Case::small(1, 2, &trace).speeds;
        speeds.measured("m.csv", text).unwrap_err().to_string()
    };
    let error = refused("model,shape,speed\nDeep,FC4,1.5\n");
    assert!(error.contains("the speed of Deep on FC4 is 1.5"), "{error}");
    let error = refused("model,shape,speed\nDeep,4,0.5\n");
    assert!(error.contains("is no shape"), "{error}");
}

#[test]
fn hierarchical_collectives_send_less_outside() {
    let layers = or_skip!(data(FOLDER));
    let folder = layers.parent().unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (layers, scales) = (read("layers.csv"), read("compute_scale.csv"));
    let library = Library::read(("layers.csv", &layers), ("compute_scale.csv", &scales)).unwrap();
    let speed = |collective| {
        let trace = [TraceJob {
            batch: 64.0,
            sample_s: 0.004,
            ..job(1, 0.0, 16, "VGG", 1.0)
        }];
        let (profiles, jobs) = Profiles::new(&library, Calibration::Batch, &trace).unwrap();
        let fabric = Fabric::read("fabrics.json", &read("fabrics.json"), "hdr").unwrap();
        let layout = Layout::new(2, 8, 2, 4).unwrap();
        let speeds = Speeds::new(fabric, (collective, ShapeRule::True), layout, profiles);
        let shape = "FC4.SL2.P2".parse::<Shape>().unwrap();
        let iteration = speeds.iteration(&jobs[0], shape);
        // One batch is computed.
        assert!(
            (iteration.compute_ns as f64 / 0.256e9 - 1.0).abs() < 1e-6,
            "{iteration:?}"
        );
        iteration.speed()
    };
    let (naive, hierarchical) = (speed(Collective::Naive), speed(Collective::Hierarchical));
    assert!(hierarchical > naive, "{hierarchical} {naive}");
}

#[test]
fn unknown_models_and_fabrics_are_named() {
    let library = Library::read(
        (
            "layers",
            "model,forward_ns,input_grad_ns,weight_grad_ns,gradient_bytes,update_ns\nA,1,1,1,1,0\n",
        ),
        ("scales", "model,authors_scale\nA,1\n"),
    )
    .unwrap();
    let error =
        Profiles::new(&library, Calibration::Authors, &[job(1, 0.0, 1, "B", 1.0)]).unwrap_err();
    assert!(
        error.to_string().contains("model \"B\": the file has A"),
        "{error}"
    );
    let scales = ("scales", "model,authors_scale\nA,-1\n");
    let error = Library::read(("layers", "model\n"), scales)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the scale of A is -1"), "{error}");
}
