//! The tables of the page of reproductions, and the commands that make them.

use lacuna_lab::results::{Entry, Listing};

/// All tables, in the order of the page.
pub(crate) const PUBLISHED: Listing = Listing {
    program: "lacuna-reproduce",
    file: "integration-tests/reproductions/RESULTS.md",
    entries: &ENTRIES,
};

const ENTRIES: [Entry; 7] = [
    Entry {
        name: "paper",
        title: "Everything that was published of BFTrainer (arXiv 2106.12091), row by row",
        commands: &["bftrainer"],
        policy: "`dp` with equal nodes drawn at random; another where a row says so",
        objective: "`fair`, the default: of one owner, what its trainers ask for; another where a row says so",
        seed: "1 to 5, medians",
    },
    Entry {
        name: "parcae",
        title: "The plans of Parcae for spot instances, beside ours",
        commands: &["parcae"],
        policy: "`auto`, the default",
        objective: "`fair`, the default: of one owner, what its trainers ask for",
        seed: "1",
    },
    Entry {
        name: "gangs",
        title: "Dally, Tiresias and Gandiva on their own traces, reproduced, and one of ours",
        commands: &["dally"],
        policy: "a row each",
        objective: "none: each policy has its own rank of jobs",
        seed: "1 to 10, means and deviations",
    },
    Entry {
        name: "gangs-honest",
        title: "The same where an iteration computes one batch: communication hardly matters",
        commands: &["dally --traces batch500 --fabrics hdr,slow --calibrations batch"],
        policy: "a row each",
        objective: "none: each policy has its own rank of jobs",
        seed: "1 to 10, means and deviations",
    },
    Entry {
        name: "gangs-contention",
        title: "Gangs that share links: one at a time has their full speed",
        commands: &[
            "dally --traces batch500 --contention none,1/1",
            "dally --traces batch500 --fabrics slow --calibrations batch --contention none,1/1",
        ],
        policy: "a row each",
        objective: "none: each policy has its own rank of jobs",
        seed: "1 to 10, means and deviations",
    },
    Entry {
        name: "heterps",
        title: "Layers on kinds of node: the schedulers of HeterPS (arXiv 2111.10635) beside the optimum",
        commands: &["heterps"],
        policy: "none: nothing is decided about nodes",
        objective: "the least cost with the rate that is asked for",
        seed: "1 to 3, medians",
    },
    Entry {
        name: "stalls",
        title: "Where a step's time goes: one replayed run beside the published method, its instances and prices",
        commands: &["stash"],
        policy: "none: nothing is planned",
        objective: "none: nothing is maximised",
        seed: "none",
    },
];

#[cfg(test)]
mod tests {
    use lacuna_lab::results::Page;

    use super::PUBLISHED;

    const RESULTS: &str = include_str!("../RESULTS.md");

    #[test]
    fn every_section_is_a_table_and_says_how_it_was_made() {
        let page = Page::parse(RESULTS);
        assert_eq!(page.faults(&PUBLISHED), [""; 0]);
        assert_eq!(page.text(), RESULTS, "a parsed page has the same text");
    }
}
