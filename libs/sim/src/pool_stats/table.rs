//! The statistics as labels and values, for a terminal and for a page.

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
    /// Idle nodes as labels and values: of all the time, and by quarter of it.
    #[must_use]
    pub fn headline(&self) -> [(&'static str, String); 2] {
        let idle = format!(
            "of {} nodes {} on average ({:.2} %), median {}",
            grouped(f64::from(self.nodes)),
            mean(self.equivalent_nodes),
            self.share * 100.0,
            self.idle.p50
        );
        let quarters = self.quarters.map(mean).join(", ");
        [("idle", idle), ("by quarter", quarters)]
    }

    /// The figures after the headline as labels and values, in reading order.
    #[must_use]
    pub fn figures(&self) -> Vec<(&'static str, String)> {
        let seconds = |s: f64| format!("{} ({})", grouped(s), Span::from_secs(s.round() as i64));
        let holes = &self.holes;
        let idle = &self.idle;
        let under = |label: &'static str, under: super::Shorter| {
            let (count, time) = (under.count * 100.0, under.node_time * 100.0);
            (
                label,
                format!("{count:.1} % of the holes, {time:.1} % of their node-time"),
            )
        };
        vec![
            (
                "recorded",
                if self.hours < 1.0 {
                    Span::from_ms((self.hours * 3_600_000.0).round() as i64).to_string()
                } else {
                    format!("{:.2} days ({:.1} h)", self.hours / 24.0, self.hours)
                },
            ),
            (
                "nodes",
                format!(
                    "{}, of which {} had a hole",
                    grouped(f64::from(self.nodes)),
                    grouped(f64::from(self.nodes_with_holes))
                ),
            ),
            (
                "idle nodes p10/50/90",
                format!("{}/{}/{}", idle.p10, idle.p50, idle.p90),
            ),
            ("idle nodes min, max", format!("{}, {}", idle.min, idle.max)),
            (
                "holes",
                format!(
                    "{}, cut at the start {}, at the end {}",
                    grouped(holes.count as f64),
                    grouped(holes.cut_at_start as f64),
                    grouped(holes.cut_at_end as f64)
                ),
            ),
            ("node-hours in holes", grouped(holes.node_hours)),
            ("hole, mean s", seconds(holes.mean_s)),
            ("hole, median s", seconds(holes.p50_s)),
            (
                "hole, p10/90/99 s",
                format!(
                    "{}/{}/{}",
                    grouped(holes.p10_s),
                    grouped(holes.p90_s),
                    grouped(holes.p99_s)
                ),
            ),
            (
                "hole, min, max s",
                format!("{}, {}", grouped(holes.min_s), grouped(holes.max_s)),
            ),
            under("holes under 10 min", holes.under_10_min),
            under("holes under 1 h", holes.under_1_h),
            (
                "nodes join",
                format!(
                    "{:.1} times an hour, {:.1} at a time",
                    self.joins_per_hour, self.nodes_per_join
                ),
            ),
            (
                "nodes leave",
                format!(
                    "{:.1} times an hour, {:.1} at a time",
                    self.leaves_per_hour, self.nodes_per_leave
                ),
            ),
        ]
    }
}
