//! The published figures of BFTrainer, row by row.
//!
//! Source: Liu, Kettimuthu, Papka, Foster, "BFTrainer" (arXiv 2106.12091, 2021) and its authors'
//! public replayer, run with the exact optimum on the first 1,024 nodes of the trace. The model leaves
//! open which of several equal nodes is released; this moves the hours by up to .5 %. So a row agrees
//! when its hours are within 1 % and U is within .01. The shares of cost are shown side by side. Pool
//! statistics were published for the whole recording (14.92 days); where only a part of it is
//! available they are shown and not compared.

use std::path::Path;

use super::figure::{Figure, PaperRow, Tolerance};

const HORIZON: &str = "horizon";
const EQUAL: &str = "equal-share";
const PARALLEL: &str = "in-parallel";
const COSTS: &str = "costs";
const MIXED: &str = "mixed-stream";
const OBJECTIVES: &str = "objectives";
const END: &str = "trainer-end";
const POOL: &str = "pool";

/// The groups of rows with their titles, in the order in which they are shown.
pub(super) const GROUPS: [(&str, &str); 8] = [
    (HORIZON, "Equal trainers, by horizon"),
    (PARALLEL, "Equal trainers, by number in parallel"),
    (COSTS, "Equal trainers, by rescale costs"),
    (EQUAL, "Equal share instead of the optimum"),
    (END, "When a finished trainer leaves"),
    (MIXED, "Seven networks in turn"),
    (OBJECTIVES, "Other objectives on the mixed stream"),
    (
        POOL,
        "The pool of the whole machine (published: 14.92 days, recorded: the first 11.5)",
    ),
];

const HOURS: Figure = Figure {
    name: "hours",
    pointer: "/hours",
    factor: 1.0,
    digits: 2,
    published: None,
    tolerance: Tolerance::Relative(0.01),
};
const EFFICIENCY: Figure = Figure {
    name: "efficiency",
    pointer: "/efficiency",
    factor: 1.0,
    digits: 3,
    published: None,
    tolerance: Tolerance::Absolute(0.01),
};
const RESCALE: Figure = Figure {
    name: "rescale",
    pointer: "/rescale_cost_fraction",
    factor: 1.0,
    digits: 4,
    published: None,
    tolerance: Tolerance::Shown,
};
const PREEMPT: Figure = Figure {
    name: "preempt",
    pointer: "/preempt_cost_fraction",
    ..RESCALE
};

/// The published figures of a row; costs in percent.
#[derive(Clone, Copy, Default)]
struct Published {
    hours: Option<f64>,
    efficiency: Option<f64>,
    costs: Option<(f64, f64)>,
}

const fn whole(hours: f64, efficiency: f64, rescale: f64, preempt: f64) -> Published {
    Published {
        hours: Some(hours),
        efficiency: Some(efficiency),
        costs: Some((rescale, preempt)),
    }
}

const fn only_hours(hours: f64) -> Published {
    Published {
        hours: Some(hours),
        efficiency: None,
        costs: None,
    }
}

impl Published {
    fn figures(self) -> Vec<Figure> {
        let percent = |share: f64| share / 100.0;
        vec![
            Figure {
                published: self.hours,
                ..HOURS
            },
            Figure {
                published: self.efficiency,
                ..EFFICIENCY
            },
            Figure {
                published: self.costs.map(|(rescale, _)| percent(rescale)),
                ..RESCALE
            },
            Figure {
                published: self.costs.map(|(_, preempt)| percent(preempt)),
                ..PREEMPT
            },
        ]
    }
}

/// Makes the rows of one trace.
struct Rows<'a> {
    folder: &'a Path,
    rows: Vec<PaperRow>,
}

impl Rows<'_> {
    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// A replay of the first 1,024 nodes. `more` are further arguments; a repeated argument
    /// replaces the earlier one.
    fn replay(
        &mut self,
        group: &'static str,
        label: &str,
        trainers: &str,
        more: &str,
        figures: Vec<Figure>,
    ) {
        let mut arguments = vec![
            ("--trainers", self.file(trainers)),
            ("--first-nodes", "1024".to_owned()),
            ("--policy", "dp".to_owned()),
            ("--nodes", "random".to_owned()),
            ("--horizon", "120s".to_owned()),
            ("--max-parallel", "10".to_owned()),
            ("--leave-out-idle-above", "none".to_owned()),
        ];
        let mut switches = Vec::new();
        let mut words = more.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let Some(value) = words.next_if(|next| !next.starts_with("--")) else {
                switches.push(word.to_owned());
                continue;
            };
            match arguments.iter_mut().find(|(name, _)| *name == word) {
                Some((_, old)) => value.clone_into(old),
                None => switches.extend([word.to_owned(), value.to_owned()]),
            }
        }
        let mut command = vec!["replay".to_owned(), self.file("holes.csv.gz")];
        let named = arguments.into_iter().flat_map(|(n, v)| [n.to_owned(), v]);
        command.extend(named);
        command.extend(switches);
        // The row with the published settings represents its group under `--quick`.
        let quick = command.iter().any(|word| word == "120s")
            && !self.rows.iter().any(|row| row.group == group && row.quick);
        self.rows.push(PaperRow {
            group,
            label: label.to_owned(),
            command,
            seeded: true,
            figures,
            quick,
        });
    }

    fn equal(&mut self, group: &'static str, label: &str, more: &str, it: Published) {
        self.replay(group, label, "hpo-1000.jsonl.gz", more, it.figures());
    }

    fn mixed(&mut self, group: &'static str, label: &str, more: &str, it: Published) {
        let list = "mixed-1001-throughput.jsonl.gz";
        self.replay(group, label, list, more, it.figures());
    }
}

/// All rows, in the order in which they are shown.
pub(super) fn rows(folder: &Path) -> Vec<PaperRow> {
    let mut rows = Rows {
        folder,
        rows: Vec::new(),
    };
    equal_trainers(&mut rows);
    policies(&mut rows);
    mixed_stream(&mut rows);
    pool(&mut rows);
    rows.rows
}

fn equal_trainers(rows: &mut Rows<'_>) {
    for (seconds, it) in [
        (10, whole(205.0, 0.820, 0.1, 2.7)),
        (30, whole(203.6, 0.834, 0.3, 2.7)),
        (60, whole(203.7, 0.832, 0.5, 2.7)),
        (120, whole(203.35, 0.839, 0.7, 2.7)),
        (300, whole(203.5, 0.836, 1.0, 2.8)),
        (600, whole(203.5, 0.836, 1.4, 2.9)),
    ] {
        let more = format!("--horizon {seconds}s");
        rows.equal(HORIZON, &format!("T = {seconds} s"), &more, it);
    }
    for (count, it) in [
        (5, whole(226.7, 0.739, 1.2, 3.8)),
        (10, whole(203.35, 0.839, 0.7, 2.7)),
        (20, whole(184.6, 0.888, 0.4, 2.1)),
        (35, whole(180.0, 0.906, 0.3, 1.8)),
    ] {
        let label = format!("{count} in parallel");
        let more = format!("--max-parallel {count}");
        rows.equal(PARALLEL, &label, &more, it);
    }
    for (scale, it) in [
        (0.5, whole(202.7, 0.850, 0.4, 1.4)),
        (1.0, whole(203.35, 0.839, 0.7, 2.7)),
        (2.0, whole(206.0, 0.812, 1.0, 5.6)),
        (5.0, whole(217.5, 0.736, 1.6, 16.3)),
    ] {
        let label = format!("costs x {scale}");
        let more = cost_scale(scale);
        rows.equal(COSTS, &label, &more, it);
    }
}

/// The factor on costs as an argument. The default 1 has none, so that equal rows have equal
/// commands and run once.
fn cost_scale(scale: f64) -> String {
    if scale == 1.0 {
        String::new()
    } else {
        format!("--cost-scale {scale}")
    }
}

fn policies(rows: &mut Rows<'_>) {
    let published = whole(212.8, 0.751, 12.6, 4.2);
    rows.equal(EQUAL, "as meant", "--policy equal-share", published);
    let next = whole(203.35, 0.839, 0.7, 2.7);
    rows.equal(END, "at the next event", "", next);
    let at_once = "--trainer-end immediate";
    rows.equal(END, "at once", at_once, only_hours(189.4));
}

fn mixed_stream(rows: &mut Rows<'_>) {
    for (seconds, hours) in [(10, 242.4), (120, 246.3), (600, 251.0)] {
        let label = format!("throughput, T = {seconds} s");
        let more = format!("--horizon {seconds}s");
        rows.mixed(MIXED, &label, &more, only_hours(hours));
    }
    let speedup = only_hours(230.5);
    let list = "mixed-1001-speedup.jsonl.gz";
    rows.replay(MIXED, "speed-up, T = 120 s", list, "", speedup.figures());
    let share = "--policy equal-share";
    rows.mixed(MIXED, "equal share", share, only_hours(252.3));
    for (label, objective, it) in [
        ("scaling efficiency", "scaling-efficiency", speedup),
        ("throughput", "throughput", only_hours(246.3)),
    ] {
        let more = format!("--objective {objective}");
        rows.mixed(OBJECTIVES, label, &more, it);
    }
}

/// Statistics of the whole machine. They were published for a longer recording than the available
/// one, so they are shown and not compared.
fn pool(rows: &mut Rows<'_>) {
    let mut command = vec!["holes".to_owned(), rows.file("holes.csv.gz")];
    command.extend(["--leave-out-idle-above", "none"].map(str::to_owned));
    for (label, pointer, published, digits) in [
        ("equivalent nodes", "/equivalent_nodes", 391.4, 1),
        ("share of the machine", "/share", 0.0827, 4),
        ("idle nodes, 10 %", "/idle/p10", 4.0, 0),
        ("idle nodes, median", "/idle/p50", 81.0, 0),
        ("idle nodes, 90 %", "/idle/p90", 1161.0, 0),
        ("idle nodes, most", "/idle/max", 4654.0, 0),
        ("length of a hole, mean (s)", "/holes/mean_s", 1192.0, 0),
        ("length, median (s)", "/holes/p50_s", 475.0, 0),
        ("length, 10 % (s)", "/holes/p10_s", 91.0, 0),
        ("length, 90 % (s)", "/holes/p90_s", 3269.0, 0),
        ("length, 99 % (s)", "/holes/p99_s", 9246.0, 0),
        (
            "share of holes under 10 min",
            "/holes/under_10_min/count",
            0.56,
            3,
        ),
        (
            "node-time of those",
            "/holes/under_10_min/node_time",
            0.11,
            3,
        ),
        (
            "share of holes under 1 h",
            "/holes/under_1_h/count",
            0.91,
            3,
        ),
        ("node-time of those", "/holes/under_1_h/node_time", 0.56, 3),
        ("times an hour that nodes join", "/joins_per_hour", 41.0, 1),
        (
            "times an hour that nodes leave",
            "/leaves_per_hour",
            31.0,
            1,
        ),
    ] {
        rows.rows.push(PaperRow {
            group: POOL,
            label: label.to_owned(),
            command: command.clone(),
            seeded: false,
            figures: vec![Figure {
                name: "value",
                pointer,
                factor: 1.0,
                digits,
                published: Some(published),
                tolerance: Tolerance::Shown,
            }],
            quick: true,
        });
    }
}
