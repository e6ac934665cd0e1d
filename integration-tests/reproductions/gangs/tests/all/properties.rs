//! What holds for every trace and policy.

use std::collections::BTreeMap;

use proptest::prelude::*;

use lacuna_gangs::{Contention, Error, Segment, Terms, catalogue};

use crate::common::{Case, job};

fn jobs() -> impl Strategy<Value = Vec<(f64, u32, bool, f64)>> {
    let one = (0.0..20_000.0, 1_u32..24, any::<bool>(), 1.0..20_000.0);
    prop::collection::vec(one, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// A GPU has one job at most at each time, each job does its work once, and time adds up.
    #[test]
    fn gpus_are_given_once_and_work_is_counted_once(trace in jobs(), contended: bool, published: bool) {
        let trace: Vec<_> = (0..).zip(&trace).map(|(id, &(at, gpus, deep, ideal))| {
            job(id, at, gpus, if deep { "Deep" } else { "Wide" }, ideal)
        }).collect();
        let case = Case::small(2, 2, &trace);
        for entry in catalogue() {
            let contention = contended.then_some(Contention { machine: 1.0, rack: 1.5 });
            let published = published && entry.is_published;
            let terms = Terms { contention, published, ..entry.terms };
            let mut segments: Vec<Segment> = Vec::new();
            let run = case.run(terms, entry.policy(3).as_mut(), &mut |segment| segments.push(segment));
            // Under the published defect a job may wait for GPUs that it hoards itself.
            if published && matches!(run, Err(Error::Stuck { .. })) {
                continue;
            }
            // Another error is a plan that gives a GPU twice.
            let outcome = run.map_err(|error| TestCaseError::fail(format!("{}: {error}", entry.name)))?;
            prop_assert_eq!(outcome.jobs.len(), trace.len());
            for ended in &outcome.jobs {
                let given = &trace[ended.id as usize];
                // Work in GPU-seconds: held less communication less stalls.
                let work = given.sample_s * given.samples;
                let least = ended.held_gpu_s - ended.communication_gpu_s;
                prop_assert!(least >= work * (1.0 - 1e-9) - 1e-6, "{} {ended:?} {work}", entry.name);
                let stalls = f64::from(ended.restarts) * 24.0 * 24.0;
                prop_assert!(least <= work * (1.0 + 1e-9) + 1e-6 + stalls, "{} {ended:?} {work}", entry.name);
                prop_assert!(ended.end_s >= ended.arrival_s + ended.held_s - 1e-6);
            }
            // Segments of a machine never exceed its GPUs, and sum up to what was held.
            let mut changes: BTreeMap<u32, Vec<(f64, i64)>> = BTreeMap::new();
            let mut held = 0.0;
            for segment in &segments {
                let gpus = i64::from(segment.gpus);
                let of = changes.entry(segment.machine).or_default();
                of.extend([(segment.from_s, gpus), (segment.until_s, -gpus)]);
                held += (segment.until_s - segment.from_s) * gpus as f64;
            }
            prop_assert!((held - outcome.held_gpu_s()).abs() <= 1e-6 * held.max(1.0));
            for of in changes.values_mut() {
                of.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                let mut now = 0;
                for (_, change) in of {
                    now += *change;
                    prop_assert!((0..=8).contains(&now), "{}: {now} GPUs of a machine", entry.name);
                }
            }
        }
    }
}
