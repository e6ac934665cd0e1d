//! `lacuna report`: what has been gained since control first started or since a day, and what batch jobs
//! waited.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use lacuna_model::{Harm, OwnerUse, Span, Timestamp};
use lacuna_trainer::measure::idle_share_used;
use lacuna_wire::msg::{Reply, Request, Totals};

use crate::client::{Client, ConnectArgs, unexpected};
use crate::error::{CliError, Result};
use crate::output::{self, JsonArg, iso, iso_short, parse_span, parse_time};
use crate::table::{Side, key_values, render};

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna report
  lacuna report --since 90d
  lacuna report --since 2026-10-01 --json | jq .harm

The sums begin with the first event or submission, and restarts keep them; control keeps them of the
beginning of each day (UTC) too. HARM is how long the main scheduler waited for nodes that Lacuna had,
by how it asked for them; LATE took more than 0.5 s, and LONGEST is that since the first event.
NODE-HOURS by owner are those of all trainers, archived ones too. What pilots would have brought
before they ran: lacuna observe report. Hours and curves: Prometheus.")]
pub(crate) struct ReportArgs {
    /// The first day of the report: a date, a time, or a length of time before now
    /// [default: the first event or submission]
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The wanted beginning, as typed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Since {
    Before(Span),
    At(Timestamp),
}

fn since(text: &str) -> std::result::Result<Since, String> {
    let of_date = |date: jiff::civil::Date| date.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let date = text
        .parse()
        .ok()
        .and_then(of_date)
        .filter(|_| !text.contains('T'));
    if let Some(date) = date {
        let ms = date.timestamp().as_millisecond();
        return Ok(Since::At(Timestamp::from_unix_ms(ms)));
    }
    let span = parse_span(text).map(Since::Before);
    span.or_else(|_| parse_time(text).map(Since::At))
        .map_err(|_| {
            format!("{text:?}: expected a date (2026-10-01), a time, or a length such as 90d")
        })
}

/// Runs `report`.
///
/// # Errors
/// NATS or control does not answer, or the day is not kept.
pub(crate) async fn run(args: ReportArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let mut totals = ask(&client, Request::Totals).await?;
    let at = args.since.map(|since| match since {
        Since::Before(length) => totals.now - length,
        Since::At(at) => at,
    });
    if let Some(at) = at.filter(|at| *at > totals.since) {
        let earlier = ask(&client, Request::TotalsAt { at }).await?;
        totals = after(totals, &earlier, at)?;
    }
    client.close().await;
    if args.json.json {
        return output::print_json(&value(&totals));
    }
    output::print(&text(&totals))
}

async fn ask(client: &Client, request: Request) -> Result<Totals> {
    match client.ask(request).await? {
        Reply::Totals(totals) => Ok(totals),
        other => Err(unexpected(other)),
    }
}

/// The totals after those of the day of `at`.
///
/// # Errors
/// Control has kept a later day only, or the day has not come yet.
fn after(now: Totals, earlier: &Totals, at: Timestamp) -> Result<Totals> {
    if at > now.now {
        let error = format!("--since: {} has not come yet", iso_short(at));
        let remedy = format!("control's time is {}", iso_short(now.now));
        return Err(CliError::failed(error).remedy(remedy));
    }
    let day = |at: Timestamp| iso_short(at).chars().take(10).collect::<String>();
    let (from, wanted) = (earlier.now, day(at));
    if day(from) != wanted {
        let error = format!("--since: the totals at the beginning of {wanted} are not kept");
        let remedy = format!(
            "the next ones are of {}: give --since {}, or leave it out for all since {}",
            day(from),
            day(from),
            day(now.since)
        );
        return Err(CliError::failed(error).remedy(remedy));
    }
    let harm = now.harm.into_iter().filter_map(|(cause, all)| {
        let before = earlier.harm.get(&cause).copied().unwrap_or_default();
        let harm = all.after(&before, from);
        (harm.given_back > 0).then_some((cause, harm))
    });
    let owners = now.owners.into_iter().filter_map(|(owner, all)| {
        let before = earlier.owners.get(&owner).copied().unwrap_or_default();
        let had = OwnerUse {
            trainers: all.trainers.saturating_sub(before.trainers),
            done: all.done.saturating_sub(before.done),
            node_s: (all.node_s - before.node_s).max(0.0),
            samples: (all.samples - before.samples).max(0.0),
        };
        (had.trainers > 0 || had.done > 0 || had.node_s > 0.0).then_some((owner, had))
    });
    Ok(Totals {
        since: from,
        idle_node_s: (now.idle_node_s - earlier.idle_node_s).max(0.0),
        harvested_node_s: (now.harvested_node_s - earlier.harvested_node_s).max(0.0),
        trainers_done: now.trainers_done.saturating_sub(earlier.trainers_done),
        unconfirmed: now.unconfirmed.saturating_sub(earlier.unconfirmed),
        harm: harm.collect(),
        owners: owners.collect(),
        ..now
    })
}

/// The name of an owner, or a dash.
fn named(owner: &str) -> &str {
    if owner.is_empty() { "-" } else { owner }
}

fn harm_of_all(totals: &Totals) -> Harm {
    let mut all = Harm::default();
    totals.harm.values().for_each(|harm| all.add(harm));
    all
}

fn mean(harm: &Harm) -> Option<f64> {
    (harm.given_back > 0).then(|| harm.seconds / harm.given_back as f64)
}

fn value(totals: &Totals) -> Value {
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
    let of_owner = |(name, of): (&String, &OwnerUse)| {
        json!({
            "owner": named(name),
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
        "owners": totals.owners.iter().map(of_owner).collect::<Vec<_>>(),
    })
}

fn text(totals: &Totals) -> String {
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
    if !totals.owners.is_empty() {
        let columns = [
            ("OWNER", Side::Left),
            ("TRAINERS", Side::Right),
            ("DONE", Side::Right),
            ("NODE-HOURS", Side::Right),
        ];
        let rows = totals.owners.iter().map(|(name, of)| {
            vec![
                named(name).to_owned(),
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
    use super::*;

    fn of(node_s: f64, trainers: u64) -> OwnerUse {
        OwnerUse {
            trainers,
            node_s,
            ..OwnerUse::default()
        }
    }

    fn totals(day: i64, hours: f64, waits: &[i64], owners: &[(&str, OwnerUse)]) -> Totals {
        let mut harm = Harm::default();
        for ms in waits {
            harm.give_back(Span::from_ms(*ms), Timestamp::from_unix(86_400 * day));
        }
        let owners = owners.iter().map(|(name, had)| ((*name).to_owned(), *had));
        Totals {
            since: Timestamp::from_unix(0),
            now: Timestamp::from_unix(86_400 * day + 60),
            idle_node_s: 7200.0 * hours,
            harvested_node_s: 3600.0 * hours,
            harm: [("taken".to_owned(), harm)].into(),
            owners: owners.collect(),
            ..Totals::default()
        }
    }

    #[test]
    fn harm_has_all_causes_and_owners_all_their_trainers() {
        let mut totals = totals(
            3,
            2.0,
            &[20, 900],
            &[("ada", of(7200.0, 2)), ("", of(0.0, 1))],
        );
        totals
            .harm
            .insert("wanted".to_owned(), totals.harm["taken"]);
        let text = text(&totals);
        for said in [
            "2.00 node-hours, 50.0 % of the idle ones",
            "4 nodes given back, 0.46 s on average, 0.90 s at most, 2 late",
            "1970-01-04T00:00:00Z",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let value = value(&totals);
        assert_eq!(value["harm"]["all"]["late"], 2);
        assert_eq!(value["owners"][0]["owner"], "-");
        assert_eq!(value["owners"][1]["node_s"], 7200.0);
    }

    #[test]
    fn a_report_since_a_day_has_what_came_after_its_beginning() {
        let earlier = totals(1, 2.0, &[900], &[("ada", of(3600.0, 1))]);
        let now = totals(
            3,
            5.0,
            &[900, 20],
            &[("ada", of(3600.0, 1)), ("bob", of(60.0, 1))],
        );
        let at = Timestamp::from_unix(86_400 + 40_000);
        let found = after(now.clone(), &earlier, at).unwrap();
        assert_eq!((found.since, found.now), (earlier.now, now.now));
        assert_eq!(found.harvested_node_s, 3.0 * 3600.0);
        let harm = found.harm["taken"];
        assert_eq!((harm.given_back, harm.late), (1, 0));
        // Ada's trainer has had nothing since.
        assert_eq!(found.owners.keys().collect::<Vec<_>>(), ["bob"]);
        // Later on the same day, too.
        let future = now.now + Span::from_secs(1);
        let error = after(now.clone(), &now, future).unwrap_err();
        assert!(error.message.contains("has not come yet"), "{error:?}");
        let error = after(now, &earlier, Timestamp::from_unix(40_000)).unwrap_err();
        assert!(
            error.message.contains("1970-01-01 are not kept"),
            "{error:?}"
        );
        let remedy = error.remedy.unwrap();
        assert!(remedy.contains("--since 1970-01-02"), "{remedy}");
    }

    #[test]
    fn a_day_is_typed_as_a_date_a_time_or_a_length() {
        let day = Since::At(Timestamp::from_unix(86_400));
        assert_eq!(since("1970-01-02"), Ok(day));
        assert_eq!(since("1970-01-02T00:00:00Z"), Ok(day));
        assert_eq!(
            since("90d"),
            Ok(Since::Before(Span::from_secs(90 * 86_400)))
        );
        assert!(since("autumn").unwrap_err().contains("90d"));
    }
}
