//! `lacuna report`: what has been gained since control first started, and what batch jobs waited.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use lacuna_model::{Harm, Phase, TrainerRecord};
use lacuna_trainer::measure::{Worked, idle_share_used};
use lacuna_wire::msg::{Kept, Reply, Request, Totals};

use crate::client::{Client, ConnectArgs, unexpected};
use crate::commands::trainers::pages;
use crate::error::Result;
use crate::output::{self, JsonArg, iso, iso_short};
use crate::table::{Side, key_values, render};

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna report
  lacuna report --json | jq .harm

The sums begin with the first event or submission, and restarts keep them. HARM is how long the main
scheduler waited for nodes that Lacuna had, by how it asked for them; LATE took more than 0.5 s.
NODE-HOURS by owner are those of all trainers, archived ones too. What pilots would have brought
before they ran: lacuna observe report. Over days and weeks: Prometheus.")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The trainers of one owner.
#[derive(Debug, Default, PartialEq)]
struct Owner {
    trainers: u32,
    done: u32,
    node_s: f64,
    samples: f64,
}

/// Runs `report`.
///
/// # Errors
/// NATS or control does not answer.
pub(crate) async fn run(args: ReportArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let totals = match client.ask(Request::Totals).await? {
        Reply::Totals(totals) => totals,
        other => return Err(unexpected(other)),
    };
    let (_, mut records) = pages(&client, Kept::Books).await?;
    let (_, archived) = pages(&client, Kept::Archive).await?;
    client.close().await;
    records.extend(archived);
    let owners = by_owner(&records, &totals);
    if args.json.json {
        return output::print_json(&value(&totals, &owners));
    }
    output::print(&text(&totals, &owners))
}

fn by_owner(records: &[TrainerRecord], totals: &Totals) -> BTreeMap<String, Owner> {
    let mut owners: BTreeMap<String, Owner> = BTreeMap::new();
    for record in records {
        let name = record.spec.owner.clone();
        let owner = owners
            .entry(name.unwrap_or_else(|| "-".to_owned()))
            .or_default();
        owner.trainers += 1;
        owner.done += u32::from(record.phase == Phase::Done);
        owner.node_s += Worked::of(record, Some(totals.now)).node_s;
        owner.samples += record.samples();
    }
    owners
}

fn harm_of_all(totals: &Totals) -> Harm {
    let mut all = Harm::default();
    totals.harm.values().for_each(|harm| all.add(harm));
    all
}

fn mean(harm: &Harm) -> Option<f64> {
    (harm.given_back > 0).then(|| harm.seconds / harm.given_back as f64)
}

fn value(totals: &Totals, owners: &BTreeMap<String, Owner>) -> Value {
    let harm = |harm: &Harm| {
        json!({
            "given_back": harm.given_back,
            "late": harm.late,
            "seconds": harm.seconds,
            "mean_s": mean(harm),
            "longest_s": harm.longest_s,
            "last_late": harm.last_late.map(iso),
        })
    };
    let causes = totals.harm.iter();
    let causes: BTreeMap<&String, Value> = causes.map(|(cause, of)| (cause, harm(of))).collect();
    let of_owner = |(name, of): (&String, &Owner)| {
        json!({
            "owner": name,
            "trainers": of.trainers,
            "done": of.done,
            "node_s": of.node_s,
            "samples": of.samples,
        })
    };
    json!({
        "since": iso(totals.since),
        "until": iso(totals.now),
        "idle_node_s": totals.idle_node_s,
        "harvested_node_s": totals.harvested_node_s,
        "trainers_done": totals.trainers_done,
        "harm": { "all": harm(&harm_of_all(totals)), "causes": causes, "unconfirmed": totals.unconfirmed },
        "owners": owners.iter().map(of_owner).collect::<Vec<_>>(),
    })
}

fn text(totals: &Totals, owners: &BTreeMap<String, Owner>) -> String {
    let hours = |seconds: f64| {
        let digits = if seconds < 36_000.0 { 2 } else { 0 };
        format!("{:.digits$}", seconds / 3600.0)
    };
    let length = |seconds: f64| format!("{seconds:.2} s");
    let (lasted, all) = (totals.now.since(totals.since), harm_of_all(totals));
    let used = idle_share_used(totals.harvested_node_s, totals.idle_node_s);
    let harvested = match used {
        Some(used) => format!(
            "{} node-hours, {:.1} % of the idle ones",
            hours(totals.harvested_node_s),
            100.0 * used
        ),
        None => "no node was idle".to_owned(),
    };
    let waited = match mean(&all) {
        Some(mean) => format!(
            "{} nodes given back, {} on average, {} at most, {} late",
            all.given_back,
            length(mean),
            length(all.longest_s),
            all.late
        ),
        None => "no wait of the main scheduler was measured".to_owned(),
    };
    let mut facts = vec![
        ("since", format!("{} ({lasted})", iso_short(totals.since))),
        ("harvested", harvested),
        ("trainers done", totals.trainers_done.to_string()),
        ("harm", waited),
    ];
    if totals.unconfirmed > 0 {
        let missed = format!("{} releases, whose waits are not known", totals.unconfirmed);
        facts.push(("not confirmed", missed));
    }
    if let Some(at) = all.last_late {
        facts.push(("last late", iso_short(at)));
    }
    let mut out = key_values(&facts);
    if !totals.harm.is_empty() {
        let columns = [
            ("HARM", Side::Left),
            ("NODES", Side::Right),
            ("MEAN", Side::Right),
            ("LONGEST", Side::Right),
            ("LATE", Side::Right),
        ];
        let rows = totals.harm.iter().map(|(cause, of)| {
            vec![
                cause.clone(),
                of.given_back.to_string(),
                length(mean(of).unwrap_or_default()),
                length(of.longest_s),
                of.late.to_string(),
            ]
        });
        out.push('\n');
        out.push_str(&render(&columns, &rows.collect::<Vec<_>>()));
    }
    if !owners.is_empty() {
        let columns = [
            ("OWNER", Side::Left),
            ("TRAINERS", Side::Right),
            ("DONE", Side::Right),
            ("NODE-HOURS", Side::Right),
        ];
        let rows = owners.iter().map(|(name, of)| {
            vec![
                name.clone(),
                of.trainers.to_string(),
                of.done.to_string(),
                hours(of.node_s),
            ]
        });
        out.push('\n');
        out.push_str(&render(&columns, &rows.collect::<Vec<_>>()));
    }
    out
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Span, Timestamp};
    use lacuna_testkit::{record, spec};

    use super::*;

    #[test]
    fn harm_has_all_causes_and_owners_all_their_trainers() {
        let mut harm = Harm::default();
        harm.give_back(Span::from_ms(20), Timestamp::from_unix(10));
        harm.give_back(Span::from_ms(900), Timestamp::from_unix(20));
        let totals = Totals {
            since: Timestamp::from_unix(0),
            now: Timestamp::from_unix(7200),
            idle_node_s: 14_400.0,
            harvested_node_s: 7200.0,
            harm: [("taken".to_owned(), harm), ("wanted".to_owned(), harm)].into(),
            ..Totals::default()
        };
        let of = |name: &str, owner: &str, node_s: f64| {
            let mut record = record(spec(name, 4), 1, &[]);
            record.spec.owner = Some(owner.to_owned());
            record.held.node_s = node_s;
            record
        };
        let records = [
            of("a", "ada", 3600.0),
            of("b", "bob", 0.0),
            of("c", "ada", 7200.0),
        ];
        let owners = by_owner(&records, &totals);
        assert_eq!(owners["ada"].node_s, 10_800.0);
        let text = text(&totals, &owners);
        for said in [
            "2.00 node-hours, 50.0 % of the idle ones",
            "4 nodes given back, 0.46 s on average, 0.90 s at most, 2 late",
            "1970-01-01T00:00:20Z",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let value = value(&totals, &owners);
        assert_eq!(value["harm"]["all"]["late"], 2);
        assert_eq!(value["owners"][0]["owner"], "ada");
    }
}
