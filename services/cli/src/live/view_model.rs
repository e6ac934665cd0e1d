//! The view model of the live view, and its drawing as lines of text. Plain functions of data.

use console::{measure_text_width, truncate_str};

use lacuna_model::{Span, Stall, Timestamp};
use lacuna_trainer::measure;
use lacuna_wire::msg::Totals;

use crate::output::{iso_short, latency, short};
use crate::view::bar;

/// One trainer in the view.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LiveTrainer {
    /// Its name.
    pub(crate) name: String,
    /// Its present number of nodes.
    pub(crate) nodes: u32,
    /// The most nodes that it can use.
    pub(crate) max_nodes: u32,
    /// Share of its work done, if its work is finite.
    pub(crate) share: Option<f64>,
    /// Present rate, samples/s.
    pub(crate) rate: f64,
    /// Seconds of cluster time to its end.
    pub(crate) remaining_s: Option<f64>,
    /// Its state in one word.
    pub(crate) state: &'static str,
}

/// The data of one drawing of the view.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ViewModel {
    /// The title of the view.
    pub(crate) title: String,
    /// Wall-clock seconds since the start.
    pub(crate) wall_s: f64,
    /// Wall-clock seconds after which the view ends by itself.
    pub(crate) wall_total_s: Option<f64>,
    /// Control's totals.
    pub(crate) totals: Totals,
    /// The limits on the use of nodes, if there are any.
    pub(crate) limits: Option<String>,
    /// Recent events per wall-clock second.
    pub(crate) events_per_s: f64,
    /// Events since the start of the view.
    pub(crate) events: u64,
    /// Median and 99th percentile of the time from a plan's newest input to the plan, seconds.
    pub(crate) plan_latency: Option<(f64, f64)>,
    /// Plans since the start of the view.
    pub(crate) plans: u64,
    /// Pool size over time, oldest first.
    pub(crate) pool_history: Vec<u32>,
    /// Leased nodes over time, oldest first.
    pub(crate) leased_history: Vec<u32>,
    /// Admitted trainers.
    pub(crate) trainers: Vec<LiveTrainer>,
    /// The newest messages, oldest first.
    pub(crate) messages: Vec<String>,
}

/// The use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Palette {
    /// Plain text.
    Plain,
    /// ANSI colours.
    Ansi,
}

#[derive(Clone, Copy)]
enum Tone {
    Bold,
    Dim,
    Blue,
    Orange,
}

impl Palette {
    fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if self == Self::Plain => return text.to_owned(),
            Tone::Bold => "1",
            Tone::Dim => "2",
            // Colour-blind readers can distinguish blue and orange.
            Tone::Blue => "38;5;75",
            Tone::Orange => "38;5;214",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// A line of blocks, one for each value, relative to `top`.
#[must_use]
pub(crate) fn sparkline(values: &[u32], top: u32, width: usize) -> String {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let from = values.len().saturating_sub(width);
    values
        .iter()
        .skip(from)
        .map(|&v| {
            let level = (f64::from(v) / f64::from(top.max(1)) * 8.0).ceil() as usize;
            BLOCKS.get(level.min(8)).copied().unwrap_or(' ')
        })
        .collect()
}

fn percent(share: f64) -> String {
    if share.is_finite() {
        format!("{:.1}%", share * 100.0)
    } else {
        "-".to_owned()
    }
}

/// The share lost to one cause: samples lost over samples done.
fn lost(cost: f64, stall: &Stall, totals: &Totals) -> String {
    let lost = measure::samples_lost(cost, stall);
    measure::share_lost(lost, totals.samples).map_or_else(|| "-".to_owned(), percent)
}

/// The efficiency, or the reason why it is unknown.
fn efficiency(totals: &Totals, elapsed: Span, palette: Palette) -> String {
    let Some(share) = totals.efficiency.known() else {
        return format!("-  ({})", totals.efficiency.why_not());
    };
    let nodes = measure::equivalent_nodes(totals.idle_node_s, elapsed.as_secs_f64());
    format!(
        "{}  of the work on {nodes:.1} dedicated nodes in the same time",
        palette.paint(Tone::Bold, &percent(share))
    )
}

fn rows(model: &ViewModel, width: usize, palette: Palette) -> Vec<String> {
    let t = &model.totals;
    let label = |name: &str| palette.paint(Tone::Dim, &format!("{name:<12}"));
    let elapsed = if t.now > t.since {
        t.now.since(t.since)
    } else {
        Span::ZERO
    };
    let clock = if t.now == Timestamp::default() {
        "waiting for the first event".to_owned()
    } else {
        format!("{} (+{elapsed})", iso_short(t.now))
    };
    let room = width.saturating_sub(measure_text_width(&model.title) + measure_text_width(&clock));
    let head = format!(
        "{}{}{clock}",
        palette.paint(Tone::Bold, &model.title),
        " ".repeat(room.max(2))
    );
    let top = model.pool_history.iter().copied().max().unwrap_or(0);
    let chart = width.saturating_sub(26).min(72);
    let restarts = if t.stalls.restart == Stall::default() {
        String::new()
    } else {
        let lost = lost(t.restart_cost, &t.stalls.restart, t);
        format!(", {lost} to restarts")
    };
    let (p50, p99) = model
        .plan_latency
        .map_or((None, None), |(a, b)| (Some(a), Some(b)));
    let limits = model.limits.as_ref().map_or_else(String::new, |limits| {
        palette.paint(Tone::Orange, &format!("limited     {limits}"))
    });
    vec![
        head,
        limits,
        format!(
            "{}{:<11}  {}",
            label("pool"),
            format!("{} nodes", t.pool_nodes),
            palette.paint(Tone::Orange, &sparkline(&model.pool_history, top, chart))
        ),
        format!(
            "{}{:<11}  {}",
            label("leased"),
            format!("{} nodes", t.leased_nodes),
            palette.paint(Tone::Blue, &sparkline(&model.leased_history, top, chart))
        ),
        format!(
            "{}{:.1} of {:.1} idle node-hours ({})",
            label("harvested"),
            t.harvested_node_s / 3600.0,
            t.idle_node_s / 3600.0,
            measure::idle_share_used(t.harvested_node_s, t.idle_node_s)
                .map_or_else(|| "-".to_owned(), percent),
        ),
        format!("{}{}", label("efficiency"), efficiency(t, elapsed, palette)),
        format!(
            "{}{} samples; lost: {} to {} rescales, {} to {} preemptions{restarts}",
            label("work"),
            short(t.samples),
            lost(t.rescale_cost, &t.stalls.rescale, t),
            t.rescales,
            lost(t.preempt_cost, &t.stalls.preempt, t),
            t.preemptions,
        ),
        format!(
            "{}{:.1}/s, {} in all; plan {}: p50 {}, p99 {} after its input",
            label("events"),
            model.events_per_s,
            model.events,
            model.plans,
            latency(p50),
            latency(p99),
        ),
        format!(
            "{}{} active, {} queued, {} done",
            label("trainers"),
            t.active,
            t.queued,
            t.trainers_done
        ),
        String::new(),
    ]
}

fn trainer_line(t: &LiveTrainer, name_width: usize, bar_width: usize, palette: Palette) -> String {
    let left = t.remaining_s.map_or_else(
        || t.state.to_owned(),
        |s| format!("{} left", Span::from_secs(s as i64)),
    );
    let share = t.share.unwrap_or(0.0);
    let done = t.share.map_or_else(|| "-".to_owned(), percent);
    let drawn = palette.paint(Tone::Blue, &bar(share, bar_width));
    format!(
        "{:<name_width$}  {:>4}/{:<4} {drawn} {done:>6}  {:>6}/s  {left}",
        t.name,
        t.nodes,
        t.max_nodes,
        short(t.rate),
    )
}

/// The view in at most `height` lines of at most `width` columns.
#[must_use]
pub(crate) fn render(
    model: &ViewModel,
    width: usize,
    height: usize,
    palette: Palette,
) -> Vec<String> {
    let mut lines = rows(model, width, palette);
    let tail = if model.wall_total_s.is_some() { 2 } else { 0 };
    let messages = model.messages.len().min(3);
    let room = height.saturating_sub(lines.len() + tail + messages + usize::from(messages > 0) + 1);
    let name_width = model
        .trainers
        .iter()
        .map(|t| t.name.len())
        .max()
        .unwrap_or(0)
        .max(7);
    let bar_width = width.saturating_sub(name_width + 45).clamp(8, 50);
    let shown = if model.trainers.len() > room {
        room.saturating_sub(1)
    } else {
        model.trainers.len()
    };
    if !model.trainers.is_empty() && room > 0 {
        let heading = format!(
            "{:<name_width$}  {:>4}/{:<4} {:<bar_width$} {:>6}  {:>8}",
            "TRAINER", "NODE", "MAX", "PROGRESS", "DONE", "RATE"
        );
        lines.push(palette.paint(Tone::Dim, &heading));
    }
    for t in model.trainers.iter().take(shown) {
        lines.push(trainer_line(t, name_width, bar_width, palette));
    }
    if model.trainers.len() > shown && room > 0 {
        lines.push(format!("... and {} more", model.trainers.len() - shown));
    }
    if messages > 0 {
        lines.push(String::new());
        let from = model.messages.len() - messages;
        for line in model.messages.iter().skip(from) {
            lines.push(palette.paint(Tone::Dim, line));
        }
    }
    if let Some(total) = model.wall_total_s {
        let width = width.saturating_sub(24).clamp(8, 60);
        lines.push(String::new());
        lines.push(format!(
            "{} {:>4.0} s of {total:.0} s",
            palette.paint(Tone::Dim, &bar(model.wall_s / total, width)),
            model.wall_s,
        ));
    }
    lines.truncate(height);
    for line in &mut lines {
        if measure_text_width(line) > width {
            *line = truncate_str(line, width, "").into_owned();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use lacuna_model::Efficiency;

    use super::*;

    fn view_model() -> ViewModel {
        let trainer = |i: u32| LiveTrainer {
            name: format!("hpo-{i:04}"),
            nodes: i % 9,
            max_nodes: 64,
            share: Some(f64::from(i) / 12.0),
            rate: f64::from(i % 9) * 2_500.0,
            remaining_s: (!i.is_multiple_of(9)).then_some(f64::from(i) * 100.0),
            state: "waiting",
        };
        ViewModel {
            title: "lacuna demo: a recorded machine at 600x".into(),
            wall_s: 42.0,
            wall_total_s: Some(120.0),
            totals: Totals {
                since: Timestamp::from_unix(1_612_988_475),
                now: Timestamp::from_unix(1_612_988_475 + 25_200),
                idle_node_s: 2_100_000.0,
                harvested_node_s: 2_058_000.0,
                samples: 4.2e9,
                rescale_cost: 2.9e7,
                preempt_cost: 1.1e8,
                preemptions: 31,
                rescales: 212,
                trainers_done: 35,
                pool_nodes: 83,
                leased_nodes: 81,
                queued: 955,
                active: 10,
                efficiency: Efficiency::Known(0.8342),
                ..Totals::default()
            },
            limits: None,
            events_per_s: 12.34,
            events: 5_210,
            plan_latency: Some((0.0042, 0.0131)),
            plans: 511,
            pool_history: vec![10, 20, 40, 83, 70, 83],
            leased_history: vec![0, 20, 38, 80, 70, 81],
            trainers: (0..10).map(trainer).collect(),
            messages: vec!["hpo-0034 is done".into(), "hpo-0035 lost a01n07".into()],
        }
    }

    #[test]
    fn the_live_view_at_two_sizes() {
        insta::assert_snapshot!(render(&view_model(), 100, 40, Palette::Plain).join("\n"));
        insta::assert_snapshot!(
            "narrow",
            render(&view_model(), 60, 18, Palette::Plain).join("\n")
        );
        insta::assert_snapshot!(
            "empty",
            render(&ViewModel::default(), 80, 24, Palette::Plain).join("\n")
        );
    }

    #[test]
    fn figures_equal_those_of_the_core() {
        let figures = lacuna_testkit::figures();
        let shown = |totals| {
            let model = ViewModel {
                totals,
                ..ViewModel::default()
            };
            render(&model, 100, 40, Palette::Plain).join("\n")
        };
        let text = shown(figures.totals.clone());
        let percents = [figures.efficiency, figures.idle_share_used].map(percent);
        assert_eq!(percents, ["80.0%", "90.0%"]);
        for line in [
            "harvested   2.5 of 2.8 idle node-hours (90.0%)",
            "efficiency  80.0%  of the work on 10.0 dedicated nodes in the same time",
            "lost: 1.0% to 4 rescales, 2.0% to 3 preemptions, 0.5% to restarts",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(figures.equivalent_nodes, 10.0);
        assert_eq!(figures.lost.map(|(_, _, share)| share), [0.01, 0.02, 0.005]);
        let text = shown(Totals {
            efficiency: Efficiency::CurveAssumed,
            ..figures.totals
        });
        let line = "efficiency  -  (a trainer's scaling curve is assumed and not yet measured)";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn the_view_stays_within_its_bounds() {
        for (width, height) in [(20, 5), (40, 10), (80, 24), (200, 60), (1, 1)] {
            for palette in [Palette::Plain, Palette::Ansi] {
                let lines = render(&view_model(), width, height, palette);
                assert!(
                    lines.len() <= height,
                    "{width}x{height}: {} lines",
                    lines.len()
                );
                for line in lines {
                    assert!(measure_text_width(&line) <= width, "{width}: {line:?}");
                }
            }
        }
    }

    #[test]
    fn sparklines_are_relative_to_the_top() {
        assert_eq!(sparkline(&[0, 1, 4, 8], 8, 10), " ▁▄█");
        assert_eq!(sparkline(&[1, 2, 3], 3, 2), "▆█");
        assert_eq!(sparkline(&[], 0, 5), "");
    }
}
