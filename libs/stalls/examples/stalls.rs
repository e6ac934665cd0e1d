//! Reads what a trainer reports of its steps (JSON), and says where their time goes.
//!
//! `stalls [--json] [FILE]`: without a file it reads its input. With `--members N`, `--link FACTOR` or
//! `--workers N` it replays one step with that change, and prints seconds. With `--recommend JSON`,
//! an object of `site`, `steps`, `budget` and `margin`, it prints all candidates, the answer first. With
//! `beside`, the report of another number of members, `fixed` of the site is found from both.
//! Exit codes: 64 for wrong arguments, 65 for a report that cannot be replayed.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use serde::Deserialize;

use lacuna_stalls::{Change, Site, Steps, Trace, Work, answer, in_words, recommend};

fn main() -> ExitCode {
    let (code, text) = match Options::read(std::env::args().skip(1)) {
        Err(text) => (64, text),
        Ok(options) => match options.answer() {
            Ok(text) => {
                return match io::stdout().write_all(text.as_bytes()) {
                    Ok(()) => ExitCode::SUCCESS,
                    Err(_) => ExitCode::FAILURE,
                };
            }
            Err(error) => (65, error.to_string()),
        },
    };
    let _ = writeln!(io::stderr(), "stalls: {text}");
    ExitCode::from(code)
}

#[derive(Default)]
struct Options {
    file: Option<String>,
    json: bool,
    members: Option<u32>,
    link: Option<f64>,
    workers: Option<u32>,
    recommend: Option<Asked>,
}

/// What a resource is asked for.
#[derive(Deserialize)]
struct Asked {
    site: Site,
    steps: f64,
    budget: f64,
    margin: f64,
    /// The same batch among other members.
    beside: Option<Trace>,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = Self::default();
        while let Some(name) = arguments.next() {
            let mut number = || arguments.next().ok_or(format!("{name} needs a value"));
            let wrong = |error: &dyn std::fmt::Display| format!("{name}: {error}");
            match name.as_str() {
                "--json" => found.json = true,
                "--members" => found.members = Some(number()?.parse().map_err(|e| wrong(&e))?),
                "--link" => found.link = Some(number()?.parse().map_err(|e| wrong(&e))?),
                "--workers" => found.workers = Some(number()?.parse().map_err(|e| wrong(&e))?),
                "--recommend" => {
                    let asked = serde_json::from_str(&number()?);
                    found.recommend = Some(asked.map_err(|e| wrong(&e))?);
                }
                _ if name.starts_with('-') || found.file.is_some() => {
                    return Err(format!("{name} is not known"));
                }
                _ => found.file = Some(name),
            }
        }
        Ok(found)
    }

    fn answer(&self) -> Result<String, Box<dyn std::error::Error>> {
        let text = if let Some(path) = &self.file {
            std::fs::read_to_string(path)?
        } else {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            text
        };
        let trace: Trace = serde_json::from_str(&text)?;
        let steps = Steps::read(&trace)?;
        if let Some(asked) = &self.recommend {
            let work = Work {
                steps: asked.steps,
                budget: asked.budget,
                margin: asked.margin,
            };
            let mut site = asked.site.clone();
            if let Some(beside) = &asked.beside {
                let other = Steps::read(beside)?;
                let share = f64::from(steps.members()) / f64::from(other.members());
                site.fixed = steps.fixed_part(&other, share)?;
            }
            let all = recommend(&steps, &site, &work)?;
            return Ok(serde_json::to_string(&all)? + "\n");
        }
        if self.members.is_some() || self.link.is_some() || self.workers.is_some() {
            let mut change = Change::none().link(self.link.unwrap_or(1.0))?;
            if let Some(members) = self.members {
                change = change.members(members)?;
            }
            if let Some(workers) = self.workers {
                change = change.workers(workers)?;
            }
            return Ok(format!("{}\n", steps.replay(&change)?));
        }
        let found = answer(&steps)?;
        Ok(if self.json {
            serde_json::to_string(&found)? + "\n"
        } else {
            in_words(&found)
        })
    }
}
