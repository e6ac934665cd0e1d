//! `lacuna observe report`: the harvest that pilots would have had, and the delays of batch jobs.
//! Also `lacuna pilots`, which stops and resumes real pilots.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use lacuna_model::{Span, Timestamp};
use lacuna_runtime::clock::wall;
use lacuna_wire::address;
use lacuna_wire::msg::{ObservedHour, PilotsRequest, Reply};

use crate::client::{Client, ConnectArgs, from_bus, unexpected};
use crate::commands::ticket::{self, TicketArgs};
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg, iso, iso_short, parse_span};
use crate::table::{Side, key_values, render};

/// Milliseconds of a day and of an hour.
const DAY_MS: i64 = 86_400_000;
const HOUR: Span = Span::from_secs(3600);

/// The reports on observation.
#[derive(Debug, Subcommand)]
pub(crate) enum ObserveCommand {
    /// Report what would have been harvested, and the harm that it risked
    Report(ReportArgs),
}

/// Arguments of `observe report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna observe report --since 24h
  lacuna observe report --since 30d --json

Control counts this while control.pilots.mode is observe, the default: it starts no pilot and
evaluates plans. HARVEST is node-hours in which pilots would have trained, after the time that
each would have taken to start (control.pilots.assumed.start). RESTARTS is the cost of changes of
trainers' nodes, by the costs that the trainers state. WANTED is nodes that batch jobs took while
plans would have used them. DELAY assumes that a batch job waits once for all nodes that it takes
at a moment (control.pilots.assumed.delay).")]
pub(crate) struct ReportArgs {
    /// Length of the report, back from the newest observed hour
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_span)]
    since: Span,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The actions on pilots.
#[derive(Debug, Subcommand)]
pub(crate) enum PilotsCommand {
    /// Cancel all pilots and submit no more, until `lacuna pilots resume`
    #[command(after_help = "Example:\n  lacuna pilots stop")]
    Stop(PilotsArgs),
    /// Submit pilots again as configured
    #[command(after_help = "Example:\n  lacuna pilots resume")]
    Resume(PilotsArgs),
    /// Sign for pilots that run a trainer's program under your account
    Ticket(TicketArgs),
}

/// Arguments of `pilots`.
#[derive(Debug, Args)]
pub(crate) struct PilotsArgs {
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs `observe`.
///
/// # Errors
/// NATS does not answer, or nothing was observed.
pub(crate) async fn run(command: ObserveCommand) -> Result<()> {
    let ObserveCommand::Report(args) = command;
    let client = Client::connect(&args.connect).await?;
    let bucket = client
        .bus()
        .bucket(address::observed_bucket(client.cluster()));
    let entries = bucket.list().await.map_err(|e| from_bus(&e))?;
    client.close().await;
    let mut hours: Vec<ObservedHour> = entries.into_iter().map(|e| e.value).collect();
    hours.sort_by_key(|hour| hour.start);
    let Some(newest) = hours.last().map(|hour| hour.start) else {
        return Err(CliError::failed("nothing has been observed").remedy(
            "control observes if the section [control.pilots] exists and its mode is \
             observe",
        ));
    };
    // In a trace, the newest hour is not the present one.
    let until = (newest + HOUR).min(wall().max(newest));
    hours.retain(|hour| hour.start + HOUR > until - args.since);
    if args.json.json {
        return output::print_json(&value(&hours));
    }
    output::print(&text(&hours))
}

/// Runs `pilots`.
///
/// # Errors
/// Control does not answer.
pub(crate) async fn pilots(command: PilotsCommand) -> Result<()> {
    let (request, args, said) = match command {
        PilotsCommand::Stop(args) => (PilotsRequest::Stop, args, "pilots are being cancelled"),
        PilotsCommand::Resume(args) => (PilotsRequest::Resume, args, "as configured"),
        PilotsCommand::Ticket(args) => return ticket::run(&args),
    };
    let client = Client::connect(&args.connect).await?;
    let subject = address::pilots_of(client.cluster(), client.bus().user());
    let limit = Duration::from_secs(10);
    let reply: Reply = client
        .bus()
        .request(&subject, &request, limit)
        .await
        .map_err(|e| {
            CliError::new("L0002", Exit::Unavailable, e.to_string()).remedy(
                "control answers if it runs and its configuration has the section \
                 [control.pilots]",
            )
        })?;
    client.close().await;
    match reply {
        Reply::Accepted { .. } if args.json.json => output::print_json(&json!({ "done": said })),
        Reply::Accepted { .. } => output::print(said),
        other => Err(unexpected(other)),
    }
}

/// The sum of all hours.
fn sum<'h>(hours: impl IntoIterator<Item = &'h ObservedHour>) -> ObservedHour {
    let mut all = ObservedHour::default();
    for (place, hour) in hours.into_iter().enumerate() {
        if place == 0 {
            all.start = hour.start;
        }
        all.watched_s += hour.watched_s;
        all.idle_node_s += hour.idle_node_s;
        all.planned_node_s += hour.planned_node_s;
        all.harvested_node_s += hour.harvested_node_s;
        all.restart_node_s += hour.restart_node_s;
        all.restarts = all.restarts.saturating_add(hour.restarts);
        all.holes = all.holes.saturating_add(hour.holes);
        all.pilots = all.pilots.saturating_add(hour.pilots);
        all.wanted = all.wanted.saturating_add(hour.wanted);
        all.moments = all.moments.saturating_add(hour.moments);
        all.delay_s += hour.delay_s;
        all.most_idle = all.most_idle.max(hour.most_idle);
        all.most_planned = all.most_planned.max(hour.most_planned);
    }
    all
}

/// The hours of each day (UTC), added up, by the day's first moment.
fn days(hours: &[ObservedHour]) -> Vec<ObservedHour> {
    let mut days: BTreeMap<i64, Vec<&ObservedHour>> = BTreeMap::new();
    for hour in hours {
        let day = hour.start.unix_ms().div_euclid(DAY_MS);
        days.entry(day).or_default().push(hour);
    }
    days.into_iter()
        .map(|(day, hours)| ObservedHour {
            start: Timestamp::from_unix_ms(day.saturating_mul(DAY_MS)),
            ..sum(hours)
        })
        .collect()
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn value(hours: &[ObservedHour]) -> Value {
    let one = |h: &ObservedHour| {
        json!({
            "start": iso(h.start),
            "watched_s": h.watched_s,
            "idle_node_s": h.idle_node_s,
            "planned_node_s": h.planned_node_s,
            "harvested_node_s": h.harvested_node_s,
            "restart_node_s": h.restart_node_s,
            "restarts": h.restarts,
            "harvested_share": share(h.harvested_node_s, h.idle_node_s),
            "holes": h.holes,
            "pilots": h.pilots,
            "wanted_nodes": h.wanted,
            "wanted_moments": h.moments,
            "assumed_delay_s": h.delay_s,
            "most_idle": h.most_idle,
            "most_planned": h.most_planned,
        })
    };
    json!({
        "total": one(&sum(hours)),
        "days": days(hours).iter().map(one).collect::<Vec<_>>(),
        "hours": hours.iter().map(one).collect::<Vec<_>>(),
    })
}

fn text(hours: &[ObservedHour]) -> String {
    let all = sum(hours);
    let node_hours = |seconds: f64| format!("{:.1}", seconds / 3600.0);
    let percent = |part, whole| match share(part, whole) {
        Some(share) => format!("{:.1} %", share * 100.0),
        None => "-".to_owned(),
    };
    let from = hours
        .first()
        .map_or_else(String::new, |h| iso_short(h.start));
    let mean = share(all.delay_s, all.moments as f64).unwrap_or(0.0);
    let mut out = key_values(&[
        ("observed since", from),
        ("observed", Span::from_secs_f64(all.watched_s).to_string()),
        ("idle node-hours", node_hours(all.idle_node_s)),
        (
            "would have trained",
            format!(
                "{} node-hours ({} of the idle ones)",
                node_hours(all.harvested_node_s),
                percent(all.harvested_node_s, all.idle_node_s)
            ),
        ),
        (
            "lost to restarts",
            format!(
                "{} node-hours at {} changes",
                node_hours(all.restart_node_s),
                all.restarts
            ),
        ),
        ("pilots", all.pilots.to_string()),
        (
            "wanted meanwhile",
            format!("{} nodes at {} moments", all.wanted, all.moments),
        ),
        (
            "delay risked",
            format!(
                "{} in all, {mean:.1} s a moment (assumed)",
                Span::from_secs_f64(all.delay_s)
            ),
        ),
    ]);
    let columns = [
        ("DAY", Side::Left),
        ("OBSERVED", Side::Right),
        ("IDLE", Side::Right),
        ("PLANNED", Side::Right),
        ("HARVEST", Side::Right),
        ("RESTARTS", Side::Right),
        ("SHARE", Side::Right),
        ("PILOTS", Side::Right),
        ("WANTED", Side::Right),
        ("MOMENTS", Side::Right),
        ("DELAY", Side::Right),
        ("MOST", Side::Right),
    ];
    let rows: Vec<Vec<String>> = days(hours)
        .iter()
        .map(|day| {
            vec![
                iso_short(day.start).chars().take(10).collect(),
                Span::from_secs_f64(day.watched_s).to_string(),
                node_hours(day.idle_node_s),
                node_hours(day.planned_node_s),
                node_hours(day.harvested_node_s),
                node_hours(day.restart_node_s),
                percent(day.harvested_node_s, day.idle_node_s),
                day.pilots.to_string(),
                day.wanted.to_string(),
                day.moments.to_string(),
                Span::from_secs_f64(day.delay_s).to_string(),
                day.most_planned.to_string(),
            ]
        })
        .collect();
    out.push('\n');
    out.push_str(&render(&columns, &rows));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(start: i64, harvested: f64, wanted: u64) -> ObservedHour {
        ObservedHour {
            start: Timestamp::from_unix(start),
            watched_s: 3600.0,
            idle_node_s: 36_000.0,
            planned_node_s: harvested + 100.0,
            harvested_node_s: harvested,
            restart_node_s: 3600.0,
            restarts: 2,
            holes: 3,
            pilots: 2,
            wanted,
            moments: wanted.min(1),
            delay_s: wanted.min(1) as f64,
            most_idle: 10,
            most_planned: 5,
        }
    }

    #[test]
    fn hours_add_up_to_days_and_to_a_total() {
        let hours = [
            hour(0, 18_000.0, 4),
            hour(82_800, 9000.0, 0),
            hour(86_400, 0.0, 0),
        ];
        let days = days(&hours);
        assert_eq!(days.len(), 2);
        assert_eq!(days[0].harvested_node_s, 27_000.0);
        assert_eq!((days[0].wanted, days[0].moments), (4, 1));
        let text = text(&hours);
        assert!(
            text.contains("7.5 node-hours (25.0 % of the idle ones)"),
            "{text}"
        );
        assert!(text.contains("4 nodes at 1 moments"), "{text}");
        assert!(text.contains("3.0 node-hours at 6 changes"), "{text}");
        let row = text.lines().find(|l| l.starts_with("1970-01-01")).unwrap();
        assert!(row.contains("37.5 %"), "{row}");
        assert_eq!(value(&hours)["total"]["wanted_nodes"], 4);
    }
}
