//! The list of schedulers: each has its files, its row in the guide, and one word for each thing.

use std::path::Path;

use lacuna_scheduler::settings::{Flux, Following, Lsf, Marks, Pbs, Slurm};
use lacuna_scheduler::submit::Submission;
use lacuna_scheduler::{SchedulerName, Sections, row};

/// A file of the repository.
fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn each_scheduler_has_a_folder_and_a_row_in_the_guide() {
    let guide = read("deploy/configure.md");
    let own = read("libs/scheduler/src/scheduler.rs");
    for name in SchedulerName::ALL {
        let module = read(&format!("libs/scheduler/src/{name}/mod.rs"));
        assert!(module.contains("pub(crate) struct Row;"), "{name}");
        let line = format!("| `[ingest.{name}]` |");
        assert!(guide.contains(&line), "{line}");
        assert_eq!(SchedulerName::named(name.as_str()), Some(name));
        assert_eq!(row(name).name(), name);
        let word = serde_json::to_value(name).unwrap();
        assert_eq!(word, name.as_str());
    }
    assert!(own.contains("**One more scheduler** needs six files of the product:"));
    let rows = own.lines().filter(|line| line.starts_with("//! | `"));
    assert_eq!(rows.count(), 6);
}

#[test]
fn a_section_is_a_live_scheduler_that_is_polled_or_followed() {
    let lsf = Lsf {
        events: "lsb.events".into(),
        pilots: Marks::default(),
        following: Following::default(),
    };
    let (slurm, pbs, flux) = (Slurm::default(), Pbs::default(), Flux::default());
    let sections = Sections {
        slurm: Some(&slurm),
        pbs: Some(&pbs),
        lsf: Some(&lsf),
        flux: Some(&flux),
    };
    let live = sections.live();
    let names: Vec<SchedulerName> = live.iter().map(|live| live.scheduler()).collect();
    assert_eq!(names, SchedulerName::ALL);
    for live in live {
        live.check().unwrap();
        assert_eq!(live.polling().is_ok(), !live.requests().is_empty());
        assert!(live.polling().is_ok() || live.follow().is_ok(), "{live:?}");
    }
    assert!(Sections::default().live().is_empty());
}

#[test]
fn what_a_scheduler_lacks_is_refused_with_a_remedy() {
    let flux = Flux::default();
    let sections = Sections {
        flux: Some(&flux),
        ..Sections::default()
    };
    let live = sections.live();
    let lacks = live[0].topology(&[]).unwrap_err();
    assert_eq!(
        lacks.setting("ingest.topology").to_string(),
        "configuration: ingest.topology is flux: expected a file (the guide of topologies lists the formats)"
    );
    let lacks = live[0].follow().unwrap_err().to_string();
    assert!(lacks.contains("ingest.flux.journal"), "{lacks}");
    let lacks = row(SchedulerName::Lsf).pilots().unwrap_err().to_string();
    assert!(lacks.contains("slurm, pbs or flux"), "{lacks}");
    let lacks = row(SchedulerName::Pbs).questions(&[], &[]).unwrap_err();
    assert!(lacks.to_string().contains("site check"), "{lacks}");
}

/// A submission with the parameters of a default configuration.
pub(crate) fn submission(name: SchedulerName) -> Submission {
    let ways = row(name).pilots().unwrap();
    Submission {
        name: "lacuna-pilot".to_owned(),
        mark: "lacuna:main".to_owned(),
        partition: "batch".to_owned(),
        account: String::new(),
        qos: String::new(),
        exclusive: true,
        output: "/dev/null".to_owned(),
        extra: Vec::new(),
        script: (ways.script)("/opt/lacuna/bin/lacuna-agent", ""),
        chunk: String::new(),
        time_min: None,
        all_users: false,
        programs: (ways.programs)(),
    }
}

#[test]
fn a_pilot_of_each_scheduler_names_its_own_programs() {
    let mut programs = Vec::new();
    for name in SchedulerName::ALL {
        let Ok(ways) = row(name).pilots() else {
            continue;
        };
        let submitter = (ways.submitter)(submission(name));
        assert_eq!(submitter.scheduler(), name);
        programs.push(submitter.list().program);
        // The pilot helper submits where pilots under other accounts are possible.
        let by_helper = submitter.owned("alice").map(|line| line.program);
        programs.push(by_helper.unwrap_or_else(|lacks| lacks.what.to_owned()));
    }
    let expected = ["squeue", "squeue", "qstat", "qselect"];
    let flux = ["flux", "pilots under their owners' accounts"];
    assert_eq!(programs, [&expected[..], &flux].concat());
}
