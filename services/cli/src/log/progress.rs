//! The progress bar of a command.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use lacuna_model::Span;

/// A progress bar on a terminal; hidden elsewhere.
pub struct Bar {
    bar: ProgressBar,
    reading: bool,
}

impl Bar {
    /// A bar that is shown if standard error is a terminal and `hidden` is false.
    #[must_use]
    pub fn new(hidden: bool) -> Self {
        let bar = if hidden || !std::io::stderr().is_terminal() {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
        } else {
            ProgressBar::new_spinner()
        };
        bar.enable_steady_tick(Duration::from_millis(250));
        Self {
            bar,
            reading: false,
        }
    }

    /// Shows the number of records read from a log.
    pub(crate) fn reading(&mut self, log: &Path, records: u64) {
        self.counting("reading", log, records);
    }

    /// Shows the number of records written to a log.
    pub fn writing(&mut self, log: &Path, records: u64) {
        self.counting("writing", log, records);
    }

    /// Shows how much of a time Slurm has been asked for, and the rows of its answers.
    pub(crate) fn asking(&mut self, done: Span, all: Span, rows: u64) {
        self.within(&lacuna_sim::Progress {
            stage: "asking sacct",
            done_s: done.as_secs_f64(),
            total_s: all.as_secs_f64(),
            events: rows,
            trainers_done: 0,
        });
        self.bar.set_message(format!("{rows} jobs"));
    }

    fn counting(&mut self, doing: &str, log: &Path, records: u64) {
        if !self.reading {
            self.reading = true;
            let name = log.file_name().unwrap_or(log.as_os_str());
            self.bar
                .set_prefix(format!("{doing} {}", name.to_string_lossy()));
            style(&self.bar, "{prefix} {spinner} {msg}");
        }
        self.bar.set_message(format!("{records} records"));
    }

    /// Shows the progress of a replay over the trace.
    pub fn walking(&mut self, progress: &lacuna_sim::Progress) {
        self.within(progress);
        self.bar.set_message(format!(
            "{} events, {} trainers done",
            progress.events, progress.trainers_done
        ));
    }

    /// Shows the progress of predictors over the trace.
    pub fn forecasting(&mut self, progress: &lacuna_sim::Progress) {
        self.within(progress);
        self.bar.set_message(format!("{} events", progress.events));
    }

    fn within(&mut self, progress: &lacuna_sim::Progress) {
        if self.reading || self.bar.length().is_none() {
            self.reading = false;
            style(&self.bar, "{prefix:16} {wide_bar} {percent:>3} %  {msg}");
        }
        self.bar.set_prefix(progress.stage);
        self.bar.set_length(progress.total_s as u64);
        self.bar.set_position(progress.done_s as u64);
    }

    /// Removes the bar.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}
