//! The results as one JSON value.

use serde_json::{Map, Value, json};

use super::goals::{Goal, Way};
use super::measure::{Measure, median, spread};
use super::reference::SOURCE;
use super::results::Results;

/// One object: `cases` with their columns, goals and reference figures. A failed column has
/// `failed` and no figures.
#[must_use]
pub(super) fn json(results: &Results) -> Value {
    let cases = 0..results.cases.len();
    let goals: Vec<Goal> = results.all_goals().map(|(_, goal)| goal).collect();
    json!({
        "cases": cases.map(|at| case(results, at)).collect::<Vec<_>>(),
        "goals": goals.len(),
        "goals_met": goals.iter().filter(|goal| goal.is_met()).count(),
        "failed": results.failures().count(),
    })
}

fn case(results: &Results, at: usize) -> Value {
    let columns = results.of_case(at).map(|(column, done)| {
        let mut value = Map::new();
        value.insert("column".to_owned(), json!(column.name));
        if let Some(why) = done.failure() {
            value.insert("failed".to_owned(), json!(why));
        }
        for (name, measure) in Measure::NAMED {
            value.insert(name.to_owned(), json!(median(done, measure)));
        }
        let spread = spread(done, Measure::Share).map(|(least, most)| [least, most]);
        value.insert("spread".to_owned(), json!(spread));
        value.insert("command".to_owned(), json!(done.row.command.join(" ")));
        Value::Object(value)
    });
    let goals = results.goals(at).into_iter().map(|goal| {
        json!({
            "name": goal.name,
            "what": goal.what,
            "ours": goal.ours,
            match goal.way {
                Way::AtLeast => "at_least",
                Way::AtMost => "at_most",
            }: goal.wanted,
            "met": goal.is_met(),
        })
    });
    let reference = results.cases.get(at).and_then(|case| case.reference);
    let reference = reference.map(|reference| {
        json!({
            "source": SOURCE,
            "bftrainer": reference.bftrainer,
            "best_without_lookahead": reference.best,
            "clairvoyant": reference.clairvoyant,
            "goal": reference.goal,
            "goal_15m": reference.goal_15m,
        })
    });
    json!({
        "case": results.cases.get(at).map(|case| case.label.as_str()),
        "cost_scale": results.cases.get(at).map(|case| case.cost),
        "columns": columns.collect::<Vec<_>>(),
        "known": reference,
        "goals": goals.collect::<Vec<_>>(),
        "order": results.order(at),
        "order_in_words": results.order_in_words(at),
        "bounds_differ": results.bounds_differ(at),
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::alike;
    use super::*;
    use crate::reproduce::row::Outcome;

    #[test]
    fn every_column_has_all_figures_or_its_failure() {
        let mut results = alike();
        results.cells[1].outcome = Outcome::Failed("no room".to_owned());
        let value = json(&results);
        assert_eq!(value["failed"], 1);
        let cases = value["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 2);
        for column in cases
            .iter()
            .flat_map(|case| case["columns"].as_array().unwrap())
        {
            assert!(column["command"].as_str().unwrap().starts_with("replay "));
            for (name, _) in Measure::NAMED {
                assert_eq!(
                    column[name].is_null(),
                    !column["failed"].is_null(),
                    "{column}"
                );
            }
        }
        assert_eq!(cases[1]["known"]["goal"], 0.89);
        let goals = cases[1]["goals"].as_array().unwrap();
        let goal = goals.iter().find(|goal| goal["name"] == "goal").unwrap();
        assert_eq!(
            (&goal["met"], &goal["at_least"]),
            (&json!(true), &json!(0.89))
        );
        let churn = goals.iter().find(|goal| goal["name"] == "stops").unwrap();
        assert_eq!(
            (&churn["met"], &churn["at_most"]),
            (&json!(true), &json!(6.0))
        );
    }
}
