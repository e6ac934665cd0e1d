//! The measured cases of stalls that were injected into real training (PyTorch 1.13, gloo).

use lacuna_model::Cause;
use lacuna_stalls::Steps;
use serde_json::Value;

use crate::world::World;

fn lab() -> Result<Value, lacuna_skip::Missing> {
    let path = lacuna_skip::data("seeds/stash_lab.json")?;
    Ok(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// The injected stalls of a case, by its name.
fn world(case: &Value) -> Option<World> {
    const MS: f64 = 1e6;
    let name = case["name"].as_str().unwrap();
    let members = case["n"].as_u64().unwrap() as usize;
    // Of these the pattern is not known.
    if name.contains("bursts") {
        return None;
    }
    let after = |word: &str| {
        let text = name.split(word).nth(1)?;
        text.trim()
            .split([' ', '(', '+'])
            .next()?
            .parse::<f64>()
            .ok()
    };
    let ring = 2.0 * (members - 1) as f64 / members as f64;
    // Fitted to three cases at 2 members: nothing, slow link, straggler and slow link. At 4 members
    // to nothing alone: they and their loaders share two cores.
    let ready = [45.0, 49.0, 53.0, 57.0, 60.0].map(|t| (t * MS) as u64);
    let (base, tail) = if members == 2 { (4.0, 5.5) } else { (5.2, 8.5) };
    let slow = name.contains("slow");
    let service = if slow { 12.4 * ring } else { base };
    let mut world = World::even(members, 145, &ready);
    world.services = vec![(service * MS) as u64; 5];
    world.hand = (1.5 * MS) as u64;
    world.after = vec![(tail * MS) as u64; members];
    for (times, word) in [(&mut world.prep, "prep"), (&mut world.fetch, "fetch")] {
        let each = after(word).unwrap_or(0.0) * MS;
        times
            .iter_mut()
            .flatten()
            .for_each(|time| *time = each as u64);
    }
    if name.contains("straggler") {
        world.slowness[members - 1] = 1.0 + after("straggler").unwrap_or(40.0) / 60.0;
    }
    Some(world)
}

#[test]
fn measured_steps_and_true_costs_are_those_of_the_model() {
    let lab = lacuna_skip::or_skip!(lab());
    for (key, cases, worst) in [("members 2", 11, 0.05), ("members 4", 7, 0.10)] {
        let mut seen = 0;
        for case in lab[key].as_array().unwrap() {
            let Some(world) = world(case) else { continue };
            let step = number(&case["T"]);
            let answer = lacuna_stalls::answer(&Steps::read(&world.run().0).unwrap()).unwrap();
            let near = |found: f64, truth: f64, what: &str| {
                let off = (found - truth).abs() / step;
                assert!(
                    off < worst,
                    "{} {what}: {found}, true {truth}",
                    case["name"]
                );
            };
            near(answer.replayed, step, "step");
            let causes = [
                (Cause::Preparation, "prep"),
                (Cause::Fetch, "fetch"),
                (Cause::Link, "net"),
                (Cause::Straggler, "skew"),
            ];
            for (cause, key) in causes {
                let truth = number(&case["truth"][key]);
                // The truth of a cause that was not injected is not known.
                if truth != 0.0 {
                    near(answer.cost(cause), truth, key);
                }
            }
            seen += 1;
        }
        assert_eq!(seen, cases);
    }
}
