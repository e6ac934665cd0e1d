//! The published table, reproduced on the recording that it was made from.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::{Path, PathBuf};

use lacuna_model::{Policy, Span, Timestamp};
use lacuna_schedlog::{HoleList, first_nodes, read_holes, read_nodes, read_trainers};
use lacuna_sim::{Hooks, Settings, Summary, Trace, replay};

fn data() -> Option<PathBuf> {
    let data = std::env::var_os("LACUNA_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = data.join("summit-2021-02");
    if folder.exists() {
        return Some(folder);
    }
    println!("skipped: the recording is not at hand (set LACUNA_DATA)");
    None
}

struct Case {
    folder: PathBuf,
    holes: HoleList,
    nodes: usize,
    start: i64,
    trainers: &'static str,
}

impl Case {
    fn run(&self, settings: &Settings) -> Summary {
        let order = read_nodes(&self.folder.join("nodes.txt")).unwrap();
        let nodes = first_nodes(self.nodes, Some(&order), &self.holes.records);
        let file = format!("{}.jsonl.gz", self.trainers);
        let trainers = read_trainers(&self.folder.join(file)).unwrap();
        let start = Timestamp::from_unix(self.start);
        let trace = Trace::new(&self.holes.records, Some(&nodes), start, None);
        let mut hooks = Hooks {
            stopwatch: &|| 0.0,
            progress: &mut |_| {},
        };
        replay(&trace, &trainers, settings, None, &mut hooks)
            .unwrap()
            .summary
    }
}

#[test]
fn probe() {
    let Some(folder) = data() else { return };
    let holes = read_holes(&folder.join("holes.csv.gz")).unwrap();
    let mut case = Case {
        folder,
        holes,
        nodes: 1024,
        start: 1_612_988_475,
        trainers: "hpo-1000",
    };
    let base = Settings::default();
    let t = |s| Settings {
        horizon: Span::from_secs(s),
        ..base.clone()
    };
    let rows = vec![
        ("T10 205.0 .820 .1 2.7", t(10)),
        ("T30 203.6 .834 .3 2.7", t(30)),
        ("T120 203.35 .839 .7 2.7", t(120)),
        ("T600 203.5 .836 1.4 2.9", t(600)),
        (
            "compat10 205.0 .820 .1 2.7",
            Settings {
                model: lacuna_sim::Model::Published,
                ..t(10)
            },
        ),
        (
            "compat120 203.5 .836 .7 2.8",
            Settings {
                model: lacuna_sim::Model::Published,
                ..t(120)
            },
        ),
        (
            "equal 212.8 .751 12.6 4.2",
            Settings {
                policy: Policy::EqualShare,
                ..t(120)
            },
        ),
        (
            "5 226.7 .739 1.2 3.8",
            Settings {
                max_parallel: 5,
                ..t(120)
            },
        ),
        (
            "20 184.6 .888 .4 2.1",
            Settings {
                max_parallel: 20,
                ..t(120)
            },
        ),
        (
            "35 180.0 .906 .3 1.8",
            Settings {
                max_parallel: 35,
                ..t(120)
            },
        ),
        (
            "x.5 202.7 .850 .4 1.4",
            Settings {
                cost_scale: 0.5,
                ..t(120)
            },
        ),
        (
            "x2 206.0 .812 1.0 5.6",
            Settings {
                cost_scale: 2.0,
                ..t(120)
            },
        ),
        (
            "x5 217.5 .736 1.6 16.3",
            Settings {
                cost_scale: 5.0,
                ..t(120)
            },
        ),
        (
            "immediate 189.4",
            Settings {
                trainer_end: lacuna_sim::TrainerEnd::Immediate,
                ..t(120)
            },
        ),
    ];
    let show = |name: &str, s: &Summary| {
        println!(
            "{name:32} | {:.2} {:.4} {:.2} {:.2} | neq {:.2} ev {} done {} zc {:?}",
            s.hours,
            s.efficiency,
            s.rescale_cost_fraction * 100.0,
            s.preempt_cost_fraction * 100.0,
            s.equivalent_nodes,
            s.events,
            s.trainers_done,
            s.zero_cost_fraction
        );
    };
    for (name, settings) in &rows {
        show(name, &case.run(settings));
    }
    for (list, name, settings) in [
        ("mixed-1001-throughput", "mixed T10 242.4", t(10)),
        ("mixed-1001-throughput", "mixed T120 246.3", t(120)),
        ("mixed-1001-throughput", "mixed T600 251.0", t(600)),
        ("mixed-1001-speedup", "speedup T120 230.5", t(120)),
        (
            "mixed-1001-throughput",
            "mixed equal 252.3",
            Settings {
                policy: Policy::EqualShare,
                ..t(120)
            },
        ),
        (
            "mixed-1001-speedup",
            "mixed equal 252.3",
            Settings {
                policy: Policy::EqualShare,
                ..t(120)
            },
        ),
    ] {
        case.trainers = list;
        show(name, &case.run(&settings));
    }
    case.trainers = "hpo-1000";
    case.start = 1_613_347_732;
    for (nodes, par, x, want) in [
        (1024, 10, 1.0, ".966"),
        (1024, 10, 5.0, ".856"),
        (1024, 10, 10.0, ".728"),
        (4734, 10, 1.0, ".940"),
        (4734, 10, 5.0, ".772"),
        (4734, 10, 10.0, ".604"),
        (4734, 35, 1.0, ".966"),
        (4734, 35, 5.0, ".852"),
        (4734, 35, 10.0, ".720"),
    ] {
        case.nodes = nodes;
        let s = Settings {
            max_parallel: par,
            cost_scale: x,
            endless: true,
            ..t(120)
        };
        show(&format!("endless {nodes} {par} x{x} {want}"), &case.run(&s));
    }
}
