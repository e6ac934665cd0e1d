//! The tables of RESULTS.md, and the commands that make them.

use super::entry::{Entry, Listing};

const FAIR: &str = "`fair`, the default: of one owner, what its trainers ask for";
const BESIDE: &str = "`dp` for BFTrainer, `forecast` for all other columns";

/// The tables of Lacuna's own figures, in the order of the page.
pub(crate) const OWN: Listing = Listing {
    program: "lacuna-lab",
    file: "RESULTS.md",
    entries: &ENTRIES,
};

const ENTRIES: [Entry; 15] = [
    Entry {
        name: "forecast",
        title: "What a forecast is worth: shares of the zero-cost bound kept on the recording of Summit",
        commands: &[
            "compare forecast --columns bftrainer,forecast,auto,no-order,lookahead-5m,lookahead-15m,clairvoyant",
        ],
        policy: "`dp` for BFTrainer, `auto`, the default, in its column, `forecast` for all others",
        objective: FAIR,
        seed: "1",
    },
    Entry {
        name: "ingredients",
        title: "Each ingredient of forecasts switched off",
        commands: &[
            "compare forecast --nodes 1024 --columns forecast,no-order,no-groups,no-replace,no-refusal,no-hysteresis",
        ],
        policy: "`forecast`",
        objective: FAIR,
        seed: "1",
    },
    Entry {
        name: "prometheus",
        title: "Half a day of Prometheus, the half before to learn from, with starts charged",
        commands: &[
            "compare forecast --log $LACUNA_DATA/prometheus-2022-03/17_03_2022_idle_nodes.txt.gz --charge-starts --columns bftrainer,forecast,no-order,lookahead-15m,clairvoyant -- --from 1647514797",
        ],
        policy: BESIDE,
        objective: FAIR,
        seed: "1",
    },
    Entry {
        name: "theta",
        title: "Two months of Theta through the scheduler simulator, whose planned starts are heard",
        commands: &[
            "compare forecast --log $LACUNA_DATA/theta-2022/theta_2022.swf.gz --costs 5 --columns bftrainer,forecast,no-order -- --machine-nodes 4392 --until 2022-03-01T00:00:00Z",
        ],
        policy: BESIDE,
        objective: FAIR,
        seed: "1",
    },
    Entry {
        name: "machines",
        title: "Machines that Lacuna was not built on, from their first hour on, beside simple rules and what centres run today",
        commands: &["compare machines --keep .cache/machines.jsonl"],
        policy: "a column each",
        objective: FAIR,
        seed: "1",
    },
    Entry {
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
    Entry {
        name: "decisions",
        title: "How long one decision by forecasts takes",
        commands: &["bench forecast-plan --situations event,storm,start --time-limit 250ms"],
        policy: "`forecast` (dynamic program) and its judge",
        objective: "the value of node sets (`planner::joint`)",
        seed: "100 from 0 on",
    },
    Entry {
        name: "profile",
        title: "Curves measured while a trainer trains: their error, and what measuring costs",
        commands: &["bench profile", "bench profile --share 1"],
        policy: "none: one trainer has all nodes",
        objective: "none: nothing is maximised",
        seed: "3 of them, medians",
    },
    Entry {
        name: "load",
        title: "Bursts and a thousand events a second through all services, each event accounted for",
        commands: &["bench bus"],
        policy: "`auto`, the default",
        objective: "`fair`, the default",
        seed: "1",
    },
    Entry {
        name: "load-lists",
        title: "The same with 20 events to a message",
        commands: &["bench bus --together 20 --seconds 60 --bursts 2"],
        policy: "`auto`, the default",
        objective: "`fair`, the default",
        seed: "1",
    },
    Entry {
        name: "distance",
        title: "Placement that knows where nodes are, beside placement that does not: a day of Summit",
        commands: &["compare distance --until 1613434132"],
        policy: "`auto`, the default, beside the same with `--unaware`",
        objective: "`fair`, the default",
        seed: "1 to 5 of the shuffled names",
    },
    Entry {
        name: "distance-plans",
        title: "How long one decision takes with 10,000 nodes on 600 leaves",
        commands: &[
            "bench forecast-plan --instances 100x10000 --leaf-nodes 17 --solves 30 --time-limit 250ms",
        ],
        policy: "`forecast` (dynamic program) and its judge",
        objective: "the value of node sets (`planner::joint`)",
        seed: "30 from 0 on",
    },
    Entry {
        name: "kinds",
        title: "Trainers that mix CPU and GPU nodes, beside one kind each: eleven days of two parts of Summit",
        commands: &["compare kinds"],
        policy: "`auto`, the default, which forecasts; `dp` in the rows without forecasts",
        objective: FAIR,
        seed: "1 of the shuffled nodes",
    },
    Entry {
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
    Entry {
        name: "goodput",
        title: "Learning per second: goodput and the best batch, beside scaling efficiency with the user's batch",
        commands: &["compare goodput"],
        policy: "`dp`",
        objective: "as each row says",
        seed: "1 to 3 of the orders of submission",
    },
];
