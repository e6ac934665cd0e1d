//! The statistics as labels and values, for a terminal and for a page.

use std::fmt::Write;

use lacuna_model::Span;

use super::types::PoolStats;

/// A count with commas between thousands, rounded to a whole number.
#[must_use]
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if value <= -0.5 {
        format!("-{out}")
    } else {
        out
    }
}

/// A mean number of nodes, with three decimals below 1.
fn mean(nodes: f64) -> String {
    match nodes {
        few if few < 1.0 => format!("{few:.3}"),
        nodes => format!("{nodes:.1}"),
    }
}

impl PoolStats {
    /// Idle nodes as labels and values: without outages, by quarter of the time, and with outages
    /// if there are any.
    #[must_use]
    pub fn headline(&self) -> Vec<(&'static str, String)> {
        let rest = &self.without_outages;
        let with = |nodes: f64, share: f64, p50: u32| {
            let share = share * 100.0;
            format!("{} on average ({share:.2} %), median {p50}", mean(nodes))
        };
        let quarters = rest
            .quarters
            .map(|q| q.map_or_else(|| "-".to_owned(), mean));
        let by_quarter = ("by quarter", quarters.join(", "));
        let of = format!("of {} nodes ", grouped(f64::from(self.nodes)));
        if !self.has_outages() {
            let all = with(self.equivalent_nodes, self.share, self.idle.p50);
            return vec![("idle", of + &all), by_quarter];
        }
        let quiet = with(rest.equivalent_nodes, rest.share, rest.p50);
        let left_out = format!(
            "; {:.1} h ({:.0} %) with more than {} idle are taken for outages",
            rest.hours_left_out,
            rest.hours_left_out / self.hours * 100.0,
            grouped(f64::from(rest.above))
        );
        vec![
            ("idle", of + &quiet + &left_out),
            by_quarter,
            (
                "with outages",
                with(self.equivalent_nodes, self.share, self.idle.p50),
            ),
        ]
    }

    /// Whether some of the time, and not all of it, counts as an outage.
    #[must_use]
    pub fn has_outages(&self) -> bool {
        let rest = &self.without_outages;
        self.tells_outages()
            && rest.hours_left_out > 0.0
            && rest.quarters.iter().any(Option::is_some)
    }

    /// All figures as labels and values, in reading order.
    #[must_use]
    pub fn figures(&self) -> Vec<(String, String)> {
        let seconds = |s: f64| format!("{} ({})", grouped(s), Span::from_secs(s.round() as i64));
        let holes = &self.holes;
        let idle = &self.idle;
        let row = |label: &str, value: String| (label.to_owned(), value);
        let under = |label: &str, under: super::Shorter| {
            let (count, time) = (under.count * 100.0, under.node_time * 100.0);
            row(
                label,
                format!("{count:.1} % of the holes, {time:.1} % of their node-time"),
            )
        };
        let headline = self.headline().into_iter();
        let mut figures: Vec<_> = headline.map(|(label, value)| row(label, value)).collect();
        figures.extend([
            row(
                "recorded",
                if self.hours < 1.0 {
                    Span::from_ms((self.hours * 3_600_000.0).round() as i64).to_string()
                } else {
                    format!("{:.2} days ({:.1} h)", self.hours / 24.0, self.hours)
                },
            ),
            row(
                "nodes",
                format!(
                    "{}, of which {} had a hole",
                    grouped(f64::from(self.nodes)),
                    grouped(f64::from(self.nodes_with_holes))
                ),
            ),
            row(
                "idle nodes p10/50/90",
                format!("{}/{}/{}", idle.p10, idle.p50, idle.p90),
            ),
            row("idle nodes min, max", format!("{}, {}", idle.min, idle.max)),
            row(
                "holes",
                format!(
                    "{}, cut at the start {}, at the end {}",
                    grouped(holes.count as f64),
                    grouped(holes.cut_at_start as f64),
                    grouped(holes.cut_at_end as f64)
                ),
            ),
            row("node-hours in holes", grouped(holes.node_hours)),
            row("hole, mean s", seconds(holes.mean_s)),
            row("hole, median s", seconds(holes.p50_s)),
            row(
                "hole, p10/90/99 s",
                format!(
                    "{}/{}/{}",
                    grouped(holes.p10_s),
                    grouped(holes.p90_s),
                    grouped(holes.p99_s)
                ),
            ),
            row(
                "hole, min, max s",
                format!("{}, {}", grouped(holes.min_s), grouped(holes.max_s)),
            ),
            under("holes under 10 min", holes.under_10_min),
            under("holes under 1 h", holes.under_1_h),
            row(
                "nodes join",
                format!(
                    "{:.1} times an hour, {:.1} at a time",
                    self.joins_per_hour, self.nodes_per_join
                ),
            ),
            row(
                "nodes leave",
                format!(
                    "{:.1} times an hour, {:.1} at a time",
                    self.leaves_per_hour, self.nodes_per_leave
                ),
            ),
        ]);
        figures
    }

    /// Whether there is a number of idle nodes above which time counts as an outage.
    #[must_use]
    pub fn tells_outages(&self) -> bool {
        self.without_outages.above < self.nodes
    }

    /// All figures as aligned lines for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let figures = self.figures();
        let labels = figures.iter().map(|(label, _)| label.chars().count());
        let width = labels.max().unwrap_or(0);
        figures
            .iter()
            .fold(String::new(), |mut out, (label, value)| {
                let _ = writeln!(out, "{label:<width$}  {value}");
                out
            })
    }
}
