//! `lacuna audit`: requests to control, who made them, and their outcome.

use clap::Args;

use lacuna_model::{Span, Timestamp};
use lacuna_runtime::clock::wall;
use lacuna_runtime::{Follow, Start};
use lacuna_wire::address;
use lacuna_wire::msg::AuditRecord;

use crate::client::{Client, ConnectArgs, from_bus};
use crate::commands::{ListArgs, Style};
use crate::error::Result;
use crate::output::{self, iso, iso_short, parse_span};
use crate::table::{Side, parsable, render};

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna audit --since 24h
  lacuna audit --user ann --action cancel --refused
  lacuna audit --follow

Every command is listed, accepted or refused: submit, check (a submission with --test-only), cancel,
logs, pause, resume, drain, undrain, only, avoid, max-nodes, window, pilots-stop, pilots-resume.
A USER with ? was not proven: without keys any client may claim any name. Records are kept for a
year. With --follow and --json, each line is one JSON value.")]
pub(crate) struct AuditArgs {
    /// How far to look back
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_span)]
    since: Span,
    /// Only requests of this user
    #[arg(long)]
    user: Option<String>,
    /// Only this action
    #[arg(long)]
    action: Option<String>,
    /// Only refused requests
    #[arg(long)]
    refused: bool,
    /// Keep printing new records as they come
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl AuditArgs {
    fn wants(&self, record: &AuditRecord, from: Timestamp) -> bool {
        record.at >= from
            && self.user.as_ref().is_none_or(|user| *user == record.user)
            && self.action.as_ref().is_none_or(|a| *a == record.action)
            && (!self.refused || record.outcome == "refused")
    }
}

const COLUMNS: [(&str, Side); 6] = [
    ("TIME", Side::Left),
    ("USER", Side::Left),
    ("ACTION", Side::Left),
    ("OUTCOME", Side::Left),
    ("TARGET", Side::Left),
    ("DETAIL", Side::Left),
];

/// The text in one line: a record may hold text of any user.
fn plain(text: &str) -> String {
    output::plain(text).replace(['\n', '\t'], "\u{fffd}")
}

fn cells(record: &AuditRecord) -> Vec<String> {
    let dash = |text: String| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text
        }
    };
    let unproven = if record.proven { "" } else { "?" };
    let outcome = if record.code.is_empty() {
        record.outcome.clone()
    } else {
        format!("{} {}", record.outcome, record.code)
    };
    vec![
        iso_short(record.at),
        plain(&format!("{}{unproven}", record.user)),
        plain(&record.action),
        plain(&outcome),
        dash(plain(&record.target.join(" "))),
        dash(plain(&record.detail)),
    ]
}

fn value(record: &AuditRecord) -> serde_json::Value {
    serde_json::json!({
        "at": iso(record.at),
        "user": record.user,
        "proven": record.proven,
        "action": record.action,
        "target": record.target,
        "outcome": record.outcome,
        "code": (!record.code.is_empty()).then_some(&record.code),
        "detail": record.detail,
    })
}

/// Runs `audit`.
///
/// # Errors
/// NATS does not answer.
pub(crate) async fn run(args: AuditArgs) -> Result<()> {
    let client = Client::connect(&args.connect).await?;
    let from = wall() - args.since;
    // Control alone keeps records; a record from another service does not count.
    let subject = address::audit(client.cluster(), "control");
    let newest = client.bus().last(&subject).await;
    let newest = newest.map_err(|e| from_bus(&e))?;
    let newest = newest.map_or(0, |found| found.sequence);
    let mut records: Vec<AuditRecord> = Vec::new();
    let mut follow: Option<Follow<AuditRecord>> = None;
    if newest > 0 || args.follow {
        let opened = client.bus().follow_direct(&subject, Start::All).await;
        let mut opened = opened.map_err(|e| from_bus(&e))?;
        let mut upto = 0;
        while upto < newest {
            let next = opened.next().await.map_err(|e| from_bus(&e))?;
            upto = next.sequence;
            if args.wants(&next.message, from) {
                records.push(next.message);
            }
            if next.pending == 0 {
                break;
            }
        }
        follow = Some(opened);
    }
    let style = args.list.style();
    if args.follow {
        for record in &records {
            line(&args, record)?;
        }
        let stop = crate::up::stop_token();
        while let Some(follow) = &mut follow {
            tokio::select! {
                () = stop.cancelled() => break,
                next = follow.next() => {
                    let record = next.map_err(|e| from_bus(&e))?.message;
                    if args.wants(&record, from) {
                        line(&args, &record)?;
                    }
                }
            }
        }
        return Ok(());
    }
    if args.list.json() {
        let records: Vec<serde_json::Value> = records.iter().map(value).collect();
        return output::print_json(&serde_json::json!({ "records": records }));
    }
    let rows: Vec<Vec<String>> = records.iter().map(cells).collect();
    output::print(&match style {
        Style::Table => render(&COLUMNS, &rows),
        Style::Parsable => parsable(&COLUMNS, &rows),
    })
}

/// Prints one record in follow mode.
fn line(args: &AuditArgs, record: &AuditRecord) -> Result<()> {
    if args.list.json() {
        return output::print(&value(record).to_string());
    }
    output::print(&match args.list.style() {
        Style::Table => cells(record).join("  "),
        Style::Parsable => {
            let cells: Vec<String> = cells(record)
                .iter()
                .map(|cell| cell.replace('|', "/"))
                .collect();
            cells.join("|")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_without_control_characters() {
        let odd = "x\n2026-01-01T00:00:00Z  op  pause\u{1b}[2J\u{9b}1m\r\u{202e}\u{2028}";
        let record = AuditRecord {
            at: Timestamp::from_unix(0),
            user: odd.to_owned(),
            proven: true,
            action: "pause".to_owned(),
            target: vec![odd.to_owned()],
            outcome: "refused".to_owned(),
            code: "L0020".to_owned(),
            detail: odd.to_owned(),
        };
        let cells = cells(&record);
        assert!(!cells.concat().chars().any(char::is_control), "{cells:?}");
        assert!(!cells.concat().contains(['\u{202e}', '\u{2028}']));
        assert_eq!(render(&COLUMNS, &[cells]).lines().count(), 2);
    }
}
