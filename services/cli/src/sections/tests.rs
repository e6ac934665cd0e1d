//! The whole file: what is read, printed, and refused by its key.

use std::path::Path;

use lacuna_model::pilots::Mode;
use lacuna_model::{Policy, Span};
use lacuna_runtime::ConfigError;

use super::Config;

fn parse(text: &str) -> Result<Config, ConfigError> {
    let config = Config::parse(text, Path::new("lacuna.toml"))?;
    config.check()?;
    Ok(config)
}

fn complaint(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

/// The one list of sections in runtime has those of `Config` and no others.
#[test]
fn each_section_has_an_owner() {
    let error = complaint("[nothing]\n");
    let listed = error.split('`').skip(1).step_by(2).skip(1);
    let schema = schemars::schema_for!(Config);
    let owned = schema.get("properties").and_then(|p| p.as_object());
    let mut owned: Vec<&str> = owned.unwrap().keys().map(String::as_str).collect();
    let mut listed: Vec<&str> = listed.collect();
    owned.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, owned, "{error}");
    assert_eq!(listed.len(), 10);
}

#[test]
fn a_recording_prints_and_reads_back() {
    let text = "[ingest.recording]\npath = \"holes.csv\"\nplanned_file = \"planned.csv\"\n\
                rate = 600\nstart = 1613347732\nend = \"2021-02-16T00:00:00Z\"\n";
    let config = Config::parse(text, Path::new("x")).unwrap();
    let again = Config::parse(&config.print().unwrap(), Path::new("x")).unwrap();
    assert_eq!(again, config);
    let recording = config.own.ingest.recording.unwrap();
    assert_eq!(recording.rate, 600.0);
    assert_eq!(recording.planned_file.unwrap(), Path::new("planned.csv"));
}

#[test]
fn what_is_wrong_with_one_section_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lacuna.toml");
    let errors = |text: &str| -> Vec<String> {
        std::fs::write(&path, text).unwrap();
        let (_, errors) = Config::inspect(&path);
        let shown = errors.iter().map(ToString::to_string);
        shown
            .map(|error| error.replace(&format!("{}:", path.display()), ""))
            .collect()
    };
    let found = errors("[ingest.lsf]\nevents = \"lsb.events\"\n[forecast]\ndrift_ended = 0\n");
    assert!(
        found[0].contains("ingest.nodes_file") && found.len() == 2,
        "{found:#?}"
    );
    let found = errors("[ingest.recording]\nrate = 2.0\n[planner]\nhorizon = \"0s\"\n");
    assert!(
        found[0].contains("missing field") && found.len() == 2,
        "{found:#?}"
    );
}

#[test]
fn values_are_checked_together() {
    let error = complaint("[control]\nrenew_every = \"50s\"\n");
    assert!(error.contains("control.renew_every is 50s"), "{error}");
    let error = complaint("[ingest.recording]\npath = \"x\"\nrate = -1.0\n");
    assert!(error.contains("ingest.recording.rate is -1"), "{error}");
    let error = complaint("[planner]\nhorizon = \"0s\"\n");
    assert!(error.contains("planner.horizon"), "{error}");
}

#[test]
fn quotas_are_read_and_printed_and_nonsense_is_refused() {
    let text = "[control.access]\noperators = [\"op\"]\nenforce = true\n\
                quota = { trainers = 10 }\n[control.access.users.ann]\nnodes = 64\n";
    let config = Config::parse(text, Path::new("x")).unwrap();
    config.check().unwrap();
    let access = &config.control.access;
    assert_eq!(access.quota.trainers, Some(10));
    assert_eq!(access.users.get("ann").and_then(|q| q.nodes), Some(64));
    let again = Config::parse(&config.print().unwrap(), Path::new("x")).unwrap();
    assert_eq!(again, config);
    assert!(complaint("[control.access]\nquota = { nodes = 0 }\n").contains("quota of 0"));
    assert!(complaint("[control.access.rate]\nburst = 0\n").contains("control.access.rate"));
    assert!(
        complaint("[control.access.rate]\nper_second = nan\n")
            .contains("no user can send a request")
    );
    let nobody = "[control.access]\nenforce = true\noperators = []\n";
    assert!(complaint(nobody).contains("operators"));
}

#[test]
fn the_operator_of_the_first_keys_is_one_by_default() {
    for text in ["", "[control.access]\nenforce = true\n"] {
        let config = Config::parse(text, Path::new("x")).unwrap();
        config.check().unwrap();
        assert_eq!(config.control.access.operators, ["operator"], "{text}");
    }
}

#[test]
fn an_adapter_prints_and_reads_back() {
    let text = "[ingest.slurm]\nsqueue = [\"docker\", \"exec\", \"ctl\", \"squeue\"]\n\
                [ingest.slurm.pilots]\npartition = \"filler\"\ncomment = \"lacuna main\"\n\
                [ingest.slurm.polling]\nevery = \"2s\"\nrequests_per_minute = 90\n";
    let config = Config::parse(text, Path::new("x")).unwrap();
    config.check().unwrap();
    let again = Config::parse(&config.print().unwrap(), Path::new("x")).unwrap();
    assert_eq!(again, config);
    let slurm = config.own.ingest.slurm.unwrap();
    assert_eq!(slurm.sinfo, ["sinfo"]);
    assert_eq!(slurm.pilots.name.as_deref(), Some("lacuna-pilot"));
    assert_eq!(slurm.polling.every.as_ms(), 2000);
}

#[test]
fn an_adapter_that_cannot_work_is_refused() {
    for (text, part) in [
        ("[ingest.slurm]\nsqueue = []\n", "ingest.slurm.squeue"),
        ("[ingest.slurm]\nscontrol = []\n", "ingest.slurm.scontrol"),
        ("[ingest.slurm]\nabsent_after = 0\n", "absent_after"),
        ("[ingest.slurm.polling]\njitter = 0.9\n", "polling.jitter"),
        ("[ingest.slurm.polling]\nevery = \"0s\"\n", "polling.every"),
        (
            "[ingest.slurm.polling]\nlongest_wait = \"1s\"\n",
            "longest_wait",
        ),
        (
            "[ingest.slurm.polling]\nrequests_per_minute = 0\n",
            "requests_per_minute",
        ),
        ("[ingest.pbs]\npbsnodes = [\"\"]\n", "ingest.pbs.pbsnodes"),
        ("[ingest.lsf]\nevents = \"e\"\n", "ingest.nodes_file"),
        ("[ingest.slurm]\n[ingest.pbs]\n", "one scheduler"),
        ("[ingest]\ntopology = \"slurm\"\n", "ingest.topology"),
        ("[ingest.kinds]\ngpu = [\"gres:gpu\"]\n", "[ingest.slurm]"),
        (
            "[ingest.slurm]\n[ingest.kinds]\ngpu = [\"queue:gpu\"]\n",
            "queue:gpu",
        ),
        (
            "[ingest]\ntopology = \"pbs\"\n[ingest.slurm]\n",
            "ingest.topology",
        ),
        (
            "[ingest]\ntopology = \"pbs\"\n[ingest.pbs]\n",
            "ingest.topology_keys",
        ),
        (
            "[ingest.slurm]\n[ingest.recording]\npath = \"x\"\n",
            "recording",
        ),
    ] {
        let config = Config::parse(text, Path::new("x")).unwrap();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    let alone = "[ingest.slurm.pilots]\npartition = \"filler\"\n";
    let mut config = Config::parse(alone, Path::new("x")).unwrap();
    config.check().unwrap();
    if let Some(slurm) = &mut config.ingest.slurm {
        slurm.pilots.name = None;
    }
    let error = config.check().unwrap_err().to_string();
    assert!(error.contains("besides the partition"), "{error}");
}

#[test]
fn a_forecast_that_does_not_go_together_is_refused() {
    for (text, key) in [
        ("order = \"list\"", "order_file is absent"),
        ("order_file = \"x\"", "order_file is x"),
        ("save_every = \"0s\"", "save_every is 0"),
        ("drift_bias = 1.5", "drift_bias is 1.5"),
        ("drift_ended = 0", "drift_ended is 0"),
    ] {
        let error = complaint(&format!("[forecast]\n{text}\n"));
        assert!(error.contains(&format!("forecast.{key}")), "{error}");
    }
}

#[test]
fn a_forecast_prints_and_reads_back() {
    let text = "[forecast]\npredictor = \"persistence\"\norder = \"weights\"\n\
                order_file = \"/etc/weights\"\nmodel_dir = \"/var/lib/models\"\nmodel = \"/etc/model.lacuna\"\n\
                save_every = \"1m\"\nplanned_starts = false\nfallback = false\n";
    let config = Config::parse(text, Path::new("x")).unwrap();
    config.check().unwrap();
    let again = Config::parse(&config.print().unwrap(), Path::new("x")).unwrap();
    assert_eq!(again, config);
    assert_eq!(config.forecast.save_every.as_ms(), 60_000);
}

#[test]
fn without_a_word_plans_are_made_by_forecasts_where_these_say_enough() {
    let config = parse("").unwrap();
    assert_eq!(config.planner.policy, Policy::Auto);
    let text = "[planner]\npolicy = \"forecast\"\n[planner.forecasting]\nhorizon = \"5m\"\n\
                hysteresis = 1.5\nscenarios = 16\nreplace = false\nrefuse = false\n";
    let planner = parse(text).unwrap().own.planner;
    assert_eq!(planner.policy, Policy::Forecast);
    assert_eq!(planner.forecasting.horizon, Span::from_secs(300));
    assert!(!planner.forecasting.replace && !planner.forecasting.refuse);
}

#[test]
fn each_policy_is_read_by_its_name_and_told_in_the_file_for_a_start() {
    let example = include_str!("../../../../deploy/lacuna.toml");
    for policy in Policy::ALL {
        let name = policy.name();
        let config = parse(&format!("planner.policy = \"{name}\"\n")).unwrap();
        assert_eq!(config.planner.policy, policy);
        assert!(example.contains(&format!(" {name}: ")), "{name}");
    }
}

#[test]
fn a_planner_that_makes_no_sense_is_refused_by_its_name() {
    for (key, value) in [
        ("planner.forecasting.horizon", "\"0s\""),
        ("planner.forecasting.hysteresis", "-1.0"),
        ("planner.forecasting.hysteresis", "nan"),
        ("planner.forecasting.scenarios", "0"),
        ("planner.stale_after", "\"0s\""),
        ("planner.gap", "1.0"),
        ("planner.tree_nodes", "0"),
        ("planner.judged_share", "1.5"),
        ("planner.time_limit", "\"0s\""),
        ("planner.policy", "\"forecasting\""),
        ("planner.forecasting.horizn", "\"1s\""),
    ] {
        let error = parse(&format!("{key} = {value}\n")).unwrap_err();
        let name = key.rsplit('.').next().unwrap_or(key);
        assert!(error.to_string().contains(name), "{key}: {error}");
    }
}

#[test]
fn nothing_is_submitted_unless_somebody_says_on() {
    assert_eq!(parse("").unwrap().control.pilots, None);
    let pilots = parse("[control.pilots]\npartition = \"filler\"\n").unwrap();
    let pilots = pilots.own.control.pilots.unwrap();
    assert_eq!(pilots.mode, Mode::Observe);
    let text = "[control.pilots]\nmode = \"on\"\npartition = \"filler\"\n\
                agent_config = \"/etc/lacuna/lacuna.toml\"\n\
                [control.pilots.commands]\nsubmit = [\"ssh\", \"login\", \"sbatch\"]\n\
                [control.pilots.pace]\nrate = 2.5\n[control.pilots.time]\nmax = \"2h\"\n";
    let config = parse(text).unwrap();
    let again = Config::parse(&config.print().unwrap(), Path::new("x")).unwrap();
    assert_eq!(again, config);
    assert_eq!(config.own.control.pilots.unwrap().mode, Mode::On);
}

#[test]
fn pilots_that_make_no_sense_are_refused_by_name() {
    for (key, value) in [
        ("control.pilots.mode", "\"yes\""),
        ("control.pilots.name", "\"a|b\""),
        ("control.pilots.pace.rate", "0.0"),
        ("control.pilots.pace.burst", "0"),
        ("control.pilots.pace.list_every", "\"1s\""),
        ("control.pilots.time.quantile", "1.0"),
        ("control.pilots.time.max", "\"1s\""),
        ("control.pilots.time.min", "\"0s\""),
    ] {
        let error = parse(&format!("{key} = {value}\n")).unwrap_err();
        let name = key.rsplit('.').next().unwrap();
        assert!(error.to_string().contains(name), "{key}: {error}");
    }
}

#[test]
fn pilots_of_a_scheduler_that_cannot_run_them_are_refused() {
    let file = |scheduler: &str, more: &str| {
        format!("[control.pilots]\nscheduler = \"{scheduler}\"\n{more}")
    };
    let helper = "helper = [\"sudo\", \"lacuna-pilot-helper\"]\n";
    for (scheduler, more) in [("flux", ""), ("slurm", helper), ("pbs", helper)] {
        parse(&file(scheduler, more)).unwrap();
    }
    let error = complaint(&file("flux", helper));
    assert!(
        error.contains("control.pilots.helper is sudo lacuna-pilot-helper: expected no helper"),
        "{error}"
    );
    let error = complaint(&file("lsf", ""));
    assert!(error.contains("control.pilots.scheduler is lsf"), "{error}");
}

/// The keys of all numbers, lengths and points of time in a schema, with their kind.
fn numbers(key: &str, schema: &serde_json::Value, all: &mut Vec<(String, &'static str)>) {
    let one_of = ["anyOf", "oneOf", "allOf"].map(|name| schema.get(name));
    for part in one_of
        .into_iter()
        .flatten()
        .filter_map(|list| list.as_array())
    {
        part.iter().for_each(|part| numbers(key, part, all));
    }
    let inner = schema.get("properties").and_then(|value| value.as_object());
    for (name, inner) in inner.into_iter().flatten() {
        let dot = if key.is_empty() { "" } else { "." };
        numbers(&format!("{key}{dot}{name}"), inner, all);
    }
    if let Some(inner) = schema
        .get("additionalProperties")
        .filter(|value| value.is_object())
    {
        numbers(&format!("{key}.a"), inner, all);
    }
    let types = schema
        .get("type")
        .map(ToString::to_string)
        .unwrap_or_default();
    let format = schema.get("format").and_then(|value| value.as_str());
    if format == Some(lacuna_model::SpanText::FORMAT) {
        all.push((key.to_owned(), "length"));
    } else if types.contains("integer") || types.contains("number") {
        all.push((key.to_owned(), "number"));
    }
}

#[test]
fn a_number_at_its_end_is_read_or_refused_with_its_key() {
    let inline = schemars::generate::SchemaSettings::draft2020_12();
    let inline = inline.with(|settings| settings.inline_subschemas = true);
    let schema = inline.into_generator().into_root_schema_for::<Config>();
    let mut keys = Vec::new();
    numbers("", schema.as_value(), &mut keys);
    assert!(keys.len() > 100, "{keys:?}");
    let lengths = [
        "0s",
        "1ms",
        "0.0001ms",
        "-1s",
        "nans",
        "1e308s",
        "36525d",
        "36526d",
        "999999999999999999999999d",
        "9223372036854775807ms",
        "",
    ];
    let numbers = [
        "0",
        "-1",
        "0.5",
        "nan",
        "inf",
        "-inf",
        "1e308",
        "-1e308",
        "1e-308",
        "255",
        "65535",
        "2147483648",
        "4294967295",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "99999999999999999999999",
    ];
    for (key, kind) in &keys {
        let texts: Vec<String> = match *kind {
            "length" => lengths.iter().map(|text| format!("{text:?}")).collect(),
            _ => numbers.iter().map(ToString::to_string).collect(),
        };
        for text in texts {
            let file = format!("{key} = {text}\n");
            match parse(&file) {
                Ok(config) => {
                    let printed = config.print().unwrap();
                    let again = Config::parse(&printed, Path::new("x")).unwrap();
                    assert_eq!(again, config, "{file}");
                }
                Err(error) => {
                    let error = error.to_string();
                    let is_placed =
                        error.starts_with("lacuna.toml:1:") || error.starts_with("configuration: ");
                    assert!(is_placed, "{file}: {error}");
                }
            }
        }
    }
}
