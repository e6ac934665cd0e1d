//! The published tables, and the commands that make them.

use std::path::{Path, PathBuf};

/// The placeholder of the folder of recorded data in a command, as a shell would expand it.
const DATA: &str = "$LACUNA_DATA/";

/// A published table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Table {
    /// The heading of its section.
    pub(super) name: &'static str,
    /// Its content, in a line.
    pub(super) title: &'static str,
    /// Its commands: arguments of this program. Their output is the table.
    pub(super) commands: &'static [&'static str],
    /// The policy.
    pub(super) policy: &'static str,
    /// The objective.
    pub(super) objective: &'static str,
    /// The seeds.
    pub(super) seed: &'static str,
}

const FAIR: &str = "`fair`, the default: of one owner, what its trainers ask for";
const BESIDE: &str = "`dp` for BFTrainer, `forecast` for all other columns";

/// All tables, in the order of the page.
pub(super) const TABLES: [Table; 25] = [
    Table {
        name: "paper",
        title: "Everything that was published of BFTrainer (arXiv 2106.12091), row by row",
        commands: &["reproduce bftrainer"],
        policy: "`dp` with equal nodes drawn at random; another where a row says so",
        objective: "`fair`, the default: of one owner, what its trainers ask for; another where a row says so",
        seed: "1 to 5, medians",
    },
    Table {
        name: "forecast",
        title: "What a forecast is worth: shares of the zero-cost bound kept on the recording of Summit",
        commands: &[
            "reproduce forecast --columns bftrainer,forecast,auto,no-order,lookahead-5m,lookahead-15m,clairvoyant",
        ],
        policy: "`dp` for BFTrainer, `auto`, the default, in its column, `forecast` for all others",
        objective: FAIR,
        seed: "1",
    },
    Table {
        name: "ingredients",
        title: "Each ingredient of forecasts switched off",
        commands: &[
            "reproduce forecast --nodes 1024 --columns forecast,no-order,no-groups,no-repool,no-refusal,no-hysteresis",
        ],
        policy: "`forecast`",
        objective: FAIR,
        seed: "1",
    },
    Table {
        name: "patterns",
        title: "The dynamic program beside the mixed-integer program over patterns, in a whole replay",
        commands: &["reproduce forecast --nodes 1024 --costs 5 --columns forecast,milp-patterns"],
        policy: "`forecast` and `milp-patterns`",
        objective: FAIR,
        seed: "1",
    },
    Table {
        name: "prometheus",
        title: "Half a day of Prometheus, the half before to learn from, with starts charged",
        commands: &[
            "reproduce forecast --log $LACUNA_DATA/prometheus-2022-03/17_03_2022_idle_nodes.txt.gz --charge-starts --columns bftrainer,forecast,no-order,lookahead-15m,clairvoyant -- --from 1647514797",
        ],
        policy: BESIDE,
        objective: FAIR,
        seed: "1",
    },
    Table {
        name: "theta",
        title: "Two months of Theta through the scheduler simulator, whose planned starts are heard",
        commands: &[
            "reproduce forecast --log $LACUNA_DATA/theta-2022/theta_2022.swf.gz --costs 5 --columns bftrainer,forecast,no-order -- --machine-nodes 4392 --until 2022-03-01T00:00:00Z",
        ],
        policy: BESIDE,
        objective: FAIR,
        seed: "1",
    },
    Table {
        name: "machines",
        title: "Machines that Lacuna was not built on, from their first hour on, beside simple rules and what centres run today",
        commands: &["reproduce machines --keep .cache/machines.jsonl"],
        policy: "a column each",
        objective: FAIR,
        seed: "1",
    },
    Table {
        name: "parcae",
        title: "The plans of Parcae for spot instances, beside ours",
        commands: &["reproduce parcae"],
        policy: "`auto`, the default",
        objective: FAIR,
        seed: "1",
    },
    Table {
        name: "skill",
        title: "How good forecasts themselves are",
        commands: &[
            "forecast eval $LACUNA_DATA/summit-2021-02/holes.csv.gz --train-until 1613347732",
            "forecast eval $LACUNA_DATA/prometheus-2022-03/17_03_2022_idle_nodes.txt.gz --train-until 50%",
        ],
        policy: "none: nothing is decided",
        objective: "none: nothing is maximised",
        seed: "the default of the command",
    },
    Table {
        name: "decisions",
        title: "How long one decision by forecasts takes",
        commands: &["bench forecast-plan --situations event,storm,start --time-limit 250ms"],
        policy: "`forecast` (dynamic program) and `milp-patterns`",
        objective: "the value of node sets (`planner::joint`)",
        seed: "100 from 0 on",
    },
    Table {
        name: "profile",
        title: "Curves measured while a trainer trains: their error, and what measuring costs",
        commands: &["bench profile", "bench profile --share 1"],
        policy: "none: one trainer has all nodes",
        objective: "none: nothing is maximised",
        seed: "3 of them, medians",
    },
    Table {
        name: "load",
        title: "Bursts and a thousand events a second through all services, each event accounted for",
        commands: &["bench bus"],
        policy: "`auto`, the default",
        objective: "`fair`, the default",
        seed: "1",
    },
    Table {
        name: "load-lists",
        title: "The same with 20 events to a message",
        commands: &["bench bus --together 20 --seconds 60 --bursts 2"],
        policy: "`auto`, the default",
        objective: "`fair`, the default",
        seed: "1",
    },
    Table {
        name: "gangs",
        title: "Dally, Tiresias and Gandiva on their own traces, reproduced, and ours",
        commands: &["reproduce dally"],
        policy: "a row each",
        objective: "none: each policy has its own rank of jobs",
        seed: "1 to 10, means and deviations",
    },
    Table {
        name: "gangs-honest",
        title: "The same where an iteration computes one batch: communication hardly matters",
        commands: &["reproduce dally --traces batch500 --fabrics hdr,slow --calibrations batch"],
        policy: "a row each",
        objective: "none: each policy has its own rank of jobs",
        seed: "1 to 10, means and deviations",
    },
    Table {
        name: "gangs-restarts",
        title: "Restarts five and twenty times as dear",
        commands: &[
            "reproduce dally --restarts 1,5,20 --policies dally,wait-least,wait-learnt,replan-levels,replan-learnt,replan-path,replan-makespan,malleable,malleable-learnt",
            "reproduce dally --traces batch500 --fabrics hdr --calibrations batch --restarts 1,5,20 --policies dally,wait-least,wait-learnt,replan-levels,replan-learnt,replan-path,replan-makespan,malleable,malleable-learnt",
        ],
        policy: "a row each",
        objective: "none: each policy has its own rank of jobs",
        seed: "1 to 10, means and deviations",
    },
    Table {
        name: "gangs-contention",
        title: "Gangs that share links: one at a time has their full speed",
        commands: &[
            "reproduce dally --traces batch500 --contention none,1/1 --policies dally,dally-no-wait,tiresias,tiresias-fixed,tiresias-all,wait-least,wait-shortest,replan-levels,replan-learnt,replan-path,malleable,malleable-learnt",
            "reproduce dally --traces batch500 --fabrics slow --calibrations batch --contention none,1/1 --policies dally,dally-no-wait,tiresias,tiresias-fixed,tiresias-all,wait-least,wait-shortest,replan-levels,replan-learnt,replan-path,malleable,malleable-learnt",
        ],
        policy: "a row each",
        objective: "none: each policy has its own rank of jobs",
        seed: "1 to 10, means and deviations",
    },
    Table {
        name: "gangs-plans",
        title: "How long one plan for gangs takes",
        commands: &["bench gangs"],
        policy: "a row each",
        objective: "none: each policy has its own rank of jobs",
        seed: "1",
    },
    Table {
        name: "distance",
        title: "Placement that knows where nodes are, beside placement that does not: a day of Summit",
        commands: &["reproduce distance --until 1613434132"],
        policy: "`auto`, the default, with a column for each `--place`",
        objective: "`fair`, the default",
        seed: "1 to 5 of the shuffled names",
    },
    Table {
        name: "distance-plans",
        title: "How long one decision takes with 10,000 nodes on 600 leaves",
        commands: &[
            "bench forecast-plan --instances 100x10000 --leaf-nodes 17 --solves 30 --time-limit 250ms",
        ],
        policy: "`forecast` (dynamic program) and `milp-patterns`",
        objective: "the value of node sets (`planner::joint`)",
        seed: "30 from 0 on",
    },
    Table {
        name: "heterps",
        title: "Layers on kinds of node: the schedulers of HeterPS (arXiv 2111.10635) beside the optimum",
        commands: &["reproduce heterps"],
        policy: "none: nothing is decided about nodes",
        objective: "the least cost with the rate that is asked for",
        seed: "1 to 3, medians",
    },
    Table {
        name: "kinds",
        title: "Trainers that mix CPU and GPU nodes, beside one kind each: eleven days of two parts of Summit",
        commands: &["reproduce kinds"],
        policy: "`auto`, the default, which decides two kinds by counts",
        objective: FAIR,
        seed: "1 of the shuffled nodes",
    },
    Table {
        name: "kinds-decisions",
        title: "How long a decision over two kinds takes, beside one kind",
        commands: &[
            "bench kinds",
            "bench kinds --trainers 35 --cpu 800 --gpu 200",
        ],
        policy: "the program over both counts, and `dp`",
        objective: "made values",
        seed: "100 from 0 on",
    },
    Table {
        name: "goodput",
        title: "Learning per second: goodput and the best batch, beside scaling efficiency with the user's batch",
        commands: &["reproduce goodput"],
        policy: "`dp`",
        objective: "as each row says",
        seed: "1 to 3 of the orders of submission",
    },
    Table {
        name: "stalls",
        title: "Where a step's time goes: one replayed run beside the published method, its instances and prices",
        commands: &["reproduce stash"],
        policy: "none: nothing is planned",
        objective: "none: nothing is maximised",
        seed: "none",
    },
];

impl Table {
    /// The names of all tables.
    pub(super) fn names() -> Vec<&'static str> {
        TABLES.iter().map(|table| table.name).collect()
    }

    /// The commands as they are typed.
    pub(super) fn typed(&self) -> Vec<String> {
        let typed = self.commands.iter().map(|c| format!("lacuna-lab {c}"));
        typed.collect()
    }

    /// A recorded file that the table reads and that is missing in this folder.
    pub(super) fn lacks(&self, data: &Path) -> Option<PathBuf> {
        let words = self.commands.iter().flat_map(|command| command.split(' '));
        let mut files = words.filter_map(|word| word.strip_prefix(DATA));
        files.find_map(|file| Some(data.join(file)).filter(|path| !path.is_file()))
    }

    /// The arguments of a command, with recorded data in this folder.
    pub(super) fn arguments(command: &str, data: &Path) -> Vec<String> {
        let word = |word: &str| match word.strip_prefix(DATA) {
            Some(file) => data.join(file).display().to_string(),
            None => word.to_owned(),
        };
        command.split(' ').map(word).collect()
    }
}
