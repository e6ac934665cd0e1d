//! The arguments of `lacuna-lab results`, and the command itself.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use lacuna_cli::error::{CliError, Result, file_error};
use lacuna_cli::files::replace;
use lacuna_cli::output::{iso, print};
use lacuna_cli::table::{Side, render};
use lacuna_model::Span;
use lacuna_runtime::clock::wall;

use super::entry::{Entry, Listing};
use super::machine;
use super::page::{Origin, Page, Section};
use super::run::{Made, make};

/// Arguments of `results`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  results --list                 the tables, and the duration of each
  results forecast theta         make these two again
  results                        make all again: hours
  results --dry-run theta        only show what would be run
  results --check                compare README.md with the page

Each table is a section of the page, with its command, policy, objective, seed, machine, date and
commit. Sections of other tables stay unchanged. A table is written as soon as it is made, so that
Ctrl-C loses only the one under way. The exit code is 1 if a table could not be made; a table with
a failed row is written, and named.")]
pub struct ResultsArgs {
    /// Only these tables
    #[arg(value_name = "TABLE")]
    tables: Vec<String>,
    /// List the tables, with date and duration of the last run
    #[arg(long, conflicts_with_all = ["dry_run", "check"])]
    list: bool,
    /// Show the commands and run nothing
    #[arg(long, conflicts_with = "check")]
    dry_run: bool,
    /// Compare the tables of README.md, in the folder of the page, with the page; run nothing
    #[arg(long, conflicts_with = "tables")]
    check: bool,
    /// The file of the page [default: that of the sources]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Runs `results` for the tables of a listing.
///
/// # Errors
/// A table is not in the listing or could not be made, the page cannot be read or written, or
/// README.md has other tables.
pub fn run(args: &ResultsArgs, listing: &Listing) -> Result<()> {
    let known = |name: &&String| listing.entries.iter().any(|entry| entry.name == *name);
    if let Some(unknown) = args.tables.iter().find(|name| !known(name)) {
        let known = listing.names().join(", ");
        return Err(CliError::failed(format!("there is no table {unknown}"))
            .remedy(format!("name some of {known}")));
    }
    let named = |entry: &&Entry| args.tables.iter().any(|name| name == entry.name);
    let chosen = listing.entries.iter();
    let chosen = chosen.filter(|entry| args.tables.is_empty() || named(entry));
    let chosen: Vec<&Entry> = chosen.collect();
    if args.dry_run {
        let commands = chosen.iter().flat_map(|entry| listing.typed(entry));
        return print(&commands.collect::<Vec<_>>().join("\n"));
    }
    let file = args.file.as_deref().unwrap_or(Path::new(listing.file));
    let page = read(file)?;
    if args.list {
        return print(&list(&chosen, &page));
    }
    if args.check {
        return check(&page, &file.with_file_name("README.md"));
    }
    make_all(args, file, listing, &chosen)
}

fn read(path: &Path) -> Result<Page> {
    let text = std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
    Ok(Page::parse(&text))
}

/// Writes the page whole or not at all.
fn write(path: &Path, page: &Page) -> Result<()> {
    replace(path, |half| std::fs::write(half, page.text()))
}

fn list(chosen: &[&Entry], page: &Page) -> String {
    let columns = ["TABLE", "DATE", "TOOK", "SHOWS"].map(|name| (name, Side::Left));
    let row = |table: &&Entry| {
        let field = |name| {
            let section = page.section(table.name);
            let said = section.and_then(|section| section.field(name));
            said.unwrap_or("never").to_owned()
        };
        let name = table.name.to_owned();
        vec![name, field("Date"), field("Took"), table.title.to_owned()]
    };
    render(&columns, &chosen.iter().map(row).collect::<Vec<_>>())
}

fn check(page: &Page, readme: &Path) -> Result<()> {
    let text = std::fs::read_to_string(readme).map_err(|e| file_error("read", readme, &e))?;
    let (checked, wrong) = page.check(&text);
    if wrong.is_empty() {
        return print(&format!("{checked} tables compared, none differs"));
    }
    let wrong = wrong.join("; ");
    Err(CliError::failed(format!("{}: {wrong}", readme.display()))
        .remedy("copy the tables of these names from the page"))
}

fn make_all(args: &ResultsArgs, file: &Path, listing: &Listing, chosen: &[&Entry]) -> Result<()> {
    let data = args.data.clone().or_else(|| {
        let variable = std::env::var_os("LACUNA_DATA");
        variable.map(PathBuf::from)
    });
    let data = data.unwrap_or_else(|| PathBuf::from("../shared/data"));
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
    // The commit is read first, since the written page changes the tree.
    let commit = machine::commit(folder.unwrap_or(Path::new(".")));
    let class = machine::class();
    let mut failed = Vec::new();
    for (at, table) in chosen.iter().enumerate() {
        let page = read(file)?;
        let last = page.section(table.name).and_then(|s| s.field("Took"));
        let last = last.and_then(|took| took.parse::<Span>().ok());
        let bar = bar(
            &format!("{} ({} of {})", table.name, at + 1, chosen.len()),
            last,
        );
        let made = make(table, &data, &|seconds| bar.set_position(seconds as u64));
        bar.finish_and_clear();
        let Made {
            text,
            took_s,
            fell_short,
        } = match made {
            Ok(made) => made,
            Err(error) => {
                failed.push(table.name);
                print(&format!("{}: not made: {}", table.name, error.message))?;
                continue;
            }
        };
        let took = Span::from_secs_f64(took_s).to_string();
        let now = iso(wall());
        let origin = Origin {
            machine: class.clone(),
            date: now.split('T').next().unwrap_or_default().to_owned(),
            commit: commit.clone(),
            took: took.clone(),
        };
        // The page is read again, since it may have changed in the meantime.
        let mut page = read(file)?;
        page.put(Section::new(listing, table, &origin, &text));
        write(file, &page)?;
        let short = match fell_short.as_slice() {
            [] => String::new(),
            some => format!("; ended with 1: {}", some.join(", ")),
        };
        print(&format!("{}: made in {took}{short}", table.name))?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    let failed = failed.join(", ");
    Err(CliError::failed(format!("not made: {failed}")))
}

/// A progress bar on a terminal, hidden elsewhere. It shows the expected progress, from the
/// duration of the last run.
fn bar(what: &str, last: Option<Span>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let (bar, template) = match last {
        Some(last) => {
            let bar = ProgressBar::new(last.as_secs_f64() as u64);
            bar.set_message(format!("of about {last}"));
            (bar, "{prefix} {wide_bar} {elapsed} {msg}")
        }
        None => (ProgressBar::new_spinner(), "{prefix} {spinner} {elapsed}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(250));
    bar
}
