//! Files in TOML that are accepted and refused.

use std::path::Path;

use lacuna_model::{Directory, Elastic, Launch, Program, Timestamp, TrainerSpec, Work};
use lacuna_trainer_file::{Purpose, TrainerFileError, read};

/// The trainers of a text to be submitted.
fn parse(file: &str, text: &str) -> Result<Vec<TrainerSpec>, TrainerFileError> {
    let list = lacuna_trainer_file::parse(Path::new(file), text.as_bytes(), Purpose::Submit);
    Ok(list?.trainers)
}

const GOOD: &str = r#"
[[trainer]]
name = "resnet"
launcher = "simulated"
min_nodes = 1
max_nodes = 8
scaling = { nodes = [1, 8], samples_per_s = [100.0, 700.0] }
samples = 1e6
"#;

#[test]
fn the_shortest_file_is_enough() {
    let specs = parse("t.toml", GOOD).unwrap();
    assert_eq!(specs.len(), 1);
    let spec = &specs[0];
    assert_eq!(spec.submit, Timestamp::default());
    assert_eq!(spec.rescale.up_s, 18.0);
    assert_eq!(spec.work, Work::Samples(1e6));
}

#[test]
fn the_default_objective_is_speedup() {
    let specs = parse("t.toml", GOOD).unwrap();
    assert_eq!(specs[0].objective_curve().table(8)[8], 7.0);
    let text = format!("{GOOD}maximise = \"throughput\"\n");
    let specs = parse("t.toml", &text).unwrap();
    assert_eq!(specs[0].objective_curve().table(8)[8], 700.0);
}

#[test]
fn weight_deadline_and_an_expression_are_read() {
    let text = format!(
        "{GOOD}weight = 3.0\ndeadline = \"2026-03-01T08:00:00Z\"\nmaximise = \"weight * sqrt(rate)\"\n"
    );
    let spec = &parse("t.toml", &text).unwrap()[0];
    assert_eq!(spec.weight, Some(3.0));
    assert_eq!(spec.deadline, Some(Timestamp::from_unix(1_772_352_000)));
    let table = spec.objective_curve().table(8);
    assert!((table[8] - 3.0 * 700_f64.sqrt()).abs() < 1e-9, "{table:?}");
    for (wrong, why) in [
        ("maximise = \"wieght * rate\"", "wieght"),
        ("maximise = \"1 / 0 * rate\"", "NaN"),
        (
            "maximise = \"samples_left * rate\"",
            "changes while it trains",
        ),
        ("deadline = \"tomorrow\"", "deadline"),
        ("weight = -1.0", "a number from 0"),
    ] {
        let error = parse("t.toml", &format!("{GOOD}{wrong}\n")).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(why) && error.starts_with("t.toml:"),
            "{error}"
        );
    }
}

#[test]
fn an_expression_has_a_value_at_any_size() {
    let most = TrainerSpec::MOST_NODES;
    let text = GOOD.replace("max_nodes = 8", &format!("max_nodes = {most}"));
    let text = text.replace("[1, 8]", &format!("[1, {most}]"));
    let text = format!("{text}maximise = \"sqrt(n)\"\n");
    let spec = &parse("t.toml", &text).unwrap()[0];
    for n in [1, 2, 4_608, 100_003, most] {
        let value = spec.objective_curve().at(n);
        let off = (value / f64::from(n).sqrt() - 1.0).abs();
        assert!(off <= 2e-6, "{value} at {n}");
    }
    // Beside a long text not even the fewer values fit.
    let long = format!("{text}arguments = [\"{}\"]\n", "x".repeat(60_000));
    let long = long.replace("\"simulated\"", "\"command\"\nprogram = \"/bin/train\"");
    let error = parse("t.toml", &long).unwrap_err().to_string();
    assert!(
        error.contains(": maximise: ") && error.contains("lower max_nodes"),
        "{error:.300}"
    );
}

#[test]
fn the_cost_of_a_start_is_that_of_the_file() {
    for (more, start_s) in [("", None), (", start = \"40s\"", Some(40.0))] {
        let text = format!("{GOOD}rescale = {{ up = \"35s\", down = \"37s\"{more} }}\n");
        let rescale = parse("t.toml", &text).unwrap()[0].rescale;
        assert_eq!((rescale.up_s, rescale.down_s), (35.0, 37.0));
        assert_eq!(rescale.start_s, start_s);
    }
    assert_eq!(parse("t.toml", GOOD).unwrap()[0].rescale.start_s, None);
}

#[test]
fn every_shipped_example_is_accepted() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let specs = read(&path, Purpose::Submit).unwrap().trainers;
            assert!(!specs.is_empty(), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 3, "only {seen} examples");
}

#[test]
fn a_program_without_a_curve_is_measured() {
    let text = GOOD.replace(
        "scaling = { nodes = [1, 8], samples_per_s = [100.0, 700.0] }",
        "profile = true",
    );
    let error = parse("t.toml", &text).unwrap_err().to_string();
    assert!(
        error.contains("t.toml:7: profile") && error.contains("nothing to measure"),
        "{error}"
    );
    let text = text.replace("\"simulated\"", "\"command\"\nprogram = \"train\"");
    let specs = parse("t.toml", &text).unwrap();
    assert_eq!(specs[0].throughput.at(8), 8.0);
    // Without a word about its curve it is the same trainer.
    let silent = parse("t.toml", &text.replace("profile = true", "")).unwrap();
    assert_eq!(silent, specs);
    let refused = parse("t.toml", &text.replace("= true", "= false")).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("scaling: missing: remove profile"),
        "{refused}"
    );
    // Beside others its speed-up counts, unless the file asks for throughput.
    let objective = specs[0].objective.as_ref().unwrap();
    assert_eq!(objective.at(8), 8.0);
    assert!(matches!(
        &specs[0].launch,
        Launch::Command(Program {
            profile: true,
            family: None,
            ..
        })
    ));
    let more = "profile = true\nfamily = \"cnn\"\nmaximise = \"throughput\"";
    let specs = parse("t.toml", &text.replace("profile = true", more)).unwrap();
    assert_eq!(specs[0].objective, None);
    let of_cnn = |family: &Option<String>| family.as_deref() == Some("cnn");
    assert!(matches!(&specs[0].launch, Launch::Command(Program { family, .. }) if of_cnn(family)));
}

#[test]
fn launchers_say_how_a_program_takes_a_change_of_nodes() {
    let with = |launcher: &str| {
        let program = format!("\"{launcher}\"\nprogram = \"/home/ada/train.py\"");
        parse("t.toml", &GOOD.replace("\"simulated\"", &program))
    };
    let elastic = |text: &str| match with(text).unwrap().remove(0).launch {
        Launch::Command(Program { elastic, .. }) => elastic,
        Launch::Simulated => unreachable!("it has a program"),
    };
    assert_eq!(elastic("command"), Elastic::Restart);
    assert_eq!(elastic("regroup"), Elastic::REGROUP);
    let one = Elastic::Torchrun {
        workers_per_node: 1,
    };
    assert_eq!(elastic("torchrun"), one);
    let text = GOOD.replace(
        "\"simulated\"",
        "\"torchrun\"\nprogram = \"/home/ada/train.py\"\nworkers_per_node = 4",
    );
    let four = Elastic::Torchrun {
        workers_per_node: 4,
    };
    let spec = parse("t.toml", &text).unwrap().remove(0);
    assert!(matches!(spec.launch, Launch::Command(Program { elastic, .. }) if elastic == four));
    let four = Elastic::Regroup {
        workers_per_node: 4,
    };
    let live = text.replace("\"torchrun\"", "\"regroup\"");
    let spec_of_live = parse("t.toml", &live).unwrap().remove(0);
    assert_eq!(spec_of_live.launch.workers_per_node(), 4);
    assert!(
        matches!(spec_of_live.launch, Launch::Command(Program { elastic, .. }) if elastic == four)
    );
    // By default a change costs the highest cost that was measured.
    assert_eq!(spec.rescale.up_s, 18.0);
    assert_eq!(with("regroup").unwrap()[0].rescale.up_s, 0.5);
    for (wrong, why) in [
        (text.replace("= 4", "= 0"), "write 1 or more"),
        (
            text.replace("\"torchrun\"", "\"command\""),
            "only torchrun and regroup",
        ),
        (
            text.replace("\"torchrun\"", "\"regroup\"")
                .replace("= 4", "= 0"),
            "write 1 or more",
        ),
        (text.replace("= 4", "= 1025"), "workers_per_node is 1025"),
        (
            text.replace("\"torchrun\"", "\"mpirun\""),
            "\"torchrun\" or \"regroup\"",
        ),
        (
            format!("{text}checkpoint_dir = \"~/ckpt\"\n"),
            "t.toml:11: checkpoint_dir: \"~/ckpt\" begins with ~",
        ),
    ] {
        let error = parse("t.toml", &wrong).unwrap_err().to_string();
        assert!(
            error.contains(why) && error.starts_with("t.toml:"),
            "{error}"
        );
    }
}

#[test]
fn errors_name_line_field_and_remedy() {
    for (old, new, says) in [
        (
            "min_nodes = 1",
            "min_nodes = 9",
            ["t.toml:5: min_nodes", "min_nodes 9"],
        ),
        (
            "samples = 1e6",
            "",
            ["samples: missing", "until = \"exit\""],
        ),
        (
            "samples = 1e6",
            "samples = 1e6\nuntil = \"exit\"",
            ["t.toml:9", "keep one"],
        ),
        ("\"simulated\"", "\"magic\"", ["t.toml:4", "\"command\""]),
        (
            "\"simulated\"",
            "\"command\"",
            ["program: missing", "torchrun"],
        ),
        ("\"resnet\"", "\"res net\"", ["t.toml:3: name", "letters"]),
        (
            "[100.0, 700.0]",
            "[100.0]",
            ["t.toml:7", "2 node counts but 1 rates"],
        ),
        (
            "max_nodes = 8",
            "max_nodes = 16",
            ["max_nodes is 16", "curve ends at 8"],
        ),
        (
            "samples = 1e6",
            "samples = 1e6\ncolour = \"red\"",
            ["t.toml:9", "colour"],
        ),
        (
            "samples = 1e6",
            "samples = 1e6\nprofile = true",
            ["t.toml:9: profile", "beside scaling"],
        ),
        (
            "samples = 1e6",
            "samples = 1e6\nrescale = { up = \"18\", down = \"12s\" }",
            ["t.toml:9: rescale.up", "\"18s\""],
        ),
        (
            "samples = 1e6",
            "samples = 1e6\nrescale = { up = \"18s\", down = \"12s\", start = \"soon\" }",
            ["t.toml:9: rescale.start", "\"18s\""],
        ),
        (
            "samples = 1e6",
            "samples = 1e6\nmaximise = \"fun\"",
            ["t.toml:9: maximise", "\"speedup\""],
        ),
        (
            "samples = 1e6",
            "samples = 1e6\nnot_before = \"soon\"",
            ["not_before", "2026-03-01"],
        ),
    ] {
        assert!(GOOD.contains(old), "{old}");
        let text = GOOD.replace(old, new);
        let error = parse("t.toml", &text).unwrap_err().to_string();
        for part in says {
            assert!(
                error.contains(part),
                "{new:?} gave {error:?}, expected {part:?}"
            );
        }
    }
    assert!(matches!(
        parse("t.toml", ""),
        Err(TrainerFileError::Empty { .. })
    ));
}

#[test]
fn a_profile_of_layers_gives_rates_by_kind() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples");
    let file = format!("{folder}/trainers.toml");
    let text = |more: &str| {
        format!(
            "[[trainer]]\nname = \"r\"\nlauncher = \"simulated\"\nmin_nodes = 1\nmax_nodes = 3\n\
             samples = 1e9\nlayers = {more}\n"
        )
    };
    let nodes = "nodes = { cpu = { cpu = 10 }, gpu = { v100 = 4, cpu = 10 } }";
    let whole = format!("{{ profile = \"recommender.json\", {nodes} }}");
    let spec = parse(&file, &text(&whole)).unwrap().remove(0);
    let [cpu, gpu] = ["cpu", "gpu"].map(|name| lacuna_model::KindName::new(name).unwrap());
    let rate = |a, b| spec.kinds.rate((&cpu, a), (&gpu, b));
    // The tables need the memory of four CPU nodes, or of two GPU nodes.
    assert_eq!((rate(3, 0), rate(0, 1)), (None, None));
    let gpus = rate(0, 2).unwrap();
    assert!(rate(1, 2).unwrap() > gpus, "{:?}", spec.kinds);
    let refused = |more: &str| parse(&file, &text(more)).unwrap_err().to_string();
    let error = refused("\"none.json\"");
    assert!(
        error.contains("trainers.toml:7: layers: cannot read the profile"),
        "{error}"
    );
    let error = refused("\"recommender.json\"\nprofile = true");
    assert!(
        error.contains("layers: given beside profile: keep one"),
        "{error}"
    );
}

#[test]
fn rates_by_kind_are_read_and_need_no_other_curve() {
    let text = GOOD.replace(
        "scaling = { nodes = [1, 8], samples_per_s = [100.0, 700.0] }",
        "together = [{ cpu = 4, gpu = 1, samples_per_s = 120.0 }]",
    ) + r#"
[trainer.kinds]
cpu = { nodes = [1, 8], samples_per_s = [10.0, 70.0] }
gpu = { nodes = [1, 4], samples_per_s = [100.0, 350.0] }
"#;
    let spec = &parse("t.toml", &text).unwrap()[0];
    let (cpu, gpu) = ("cpu".parse().unwrap(), "gpu".parse().unwrap());
    assert_eq!(spec.kinds.rate((&cpu, 4), (&gpu, 1)), Some(120.0));
    assert_eq!(spec.throughput.at(4), 350.0);
    assert_eq!(spec.objective_curve().at(1), 1.0);
    assert!(!spec.is_profiled());
    // An expression is the value of as many nodes of the fastest kind.
    let expressed = text.replace("max_nodes = 8", "max_nodes = 8\nmaximise = \"sqrt(rate)\"");
    let of = parse("t.toml", &expressed).unwrap().remove(0);
    let worth = of.objective.unwrap().at(2);
    assert!((worth - of.throughput.at(2).sqrt()).abs() < 1e-9, "{worth}");
    for (from, to, why) in [
        ("cpu = 4, gpu", "cpu = 4.5, gpu", "cpu is 4.5"),
        ("cpu = 4, gpu", "fpga = 4, gpu", "has no curve in kinds"),
        ("samples_per_s = 120.0 }", "}", "samples_per_s is missing"),
        (
            "cpu = { nodes = [1, 8]",
            "cpu = { nodes = [8, 1]",
            "cpu: node counts",
        ),
        ("max_nodes = 8", "max_nodes = 80", "measure further"),
        (
            "max_nodes = 8",
            "max_nodes = 8\nscaling = { nodes = [1, 8], samples_per_s = [7.0, 9.0] }",
            "contradict",
        ),
    ] {
        let error = parse("t.toml", &text.replace(from, to))
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{to}: {error}");
    }
}

#[test]
fn loaders_are_nodes_of_a_kind_beside_kinds() {
    let kinds = "kinds = { gpu = { nodes = [1, 8], samples_per_s = [90.0, 600.0] } }\n";
    let text = GOOD.replace(
        "scaling = { nodes = [1, 8], samples_per_s = [100.0, 700.0] }\n",
        kinds,
    );
    let loaders = |kind: &str, nodes: u32| {
        format!("loaders = {{ kind = \"{kind}\", nodes = {nodes}, processes = 8 }}\n")
    };
    let specs = parse("t.toml", &format!("{text}{}", loaders("cpu", 4))).unwrap();
    let found = specs[0].kinds.loaders().unwrap();
    assert_eq!(
        (found.kind.as_str(), found.nodes, found.processes),
        ("cpu", 4, 8)
    );
    for (text, wrong) in [
        (text.as_str(), loaders("cpu", 65)),
        (GOOD, loaders("cpu", 4)),
    ] {
        let error = parse("t.toml", &format!("{text}{wrong}"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("loaders:") && error.contains("beside kinds"),
            "{error}"
        );
    }
}

/// The launch of a trainer of `/home/ada/runs/t.toml`, with these lines.
fn launched(lines: &str) -> Result<Launch, String> {
    let text = format!(
        "[[trainer]]\nname = \"t\"\nmin_nodes = 1\nmax_nodes = 2\nuntil = \"exit\"\n{lines}\n"
    );
    let read = parse("/home/ada/runs/t.toml", &text);
    let mut trainers = read.map_err(|error| error.to_string())?;
    Ok(trainers.remove(0).launch)
}

#[test]
fn relative_paths_begin_at_the_folder_of_the_file_and_its_program_runs_there() {
    for (lines, ran, folder, from) in [
        (
            "launcher = \"command\"\nprogram = \"./train.py\"",
            "/home/ada/runs/train.py",
            Directory::Preferred("/home/ada/runs".to_owned()),
            "",
        ),
        (
            "launcher = \"torchrun\"\nprogram = \"train.py\"\ndirectory = \".\"",
            "/home/ada/runs/train.py",
            Directory::Required("/home/ada/runs".to_owned()),
            "",
        ),
        (
            "launcher = \"command\"\nprogram = \"train.py\"\ndirectory = \"/scratch/ada\"\n\
             environment_from = [\"a.env\", \"/home/ada/b.env\"]",
            "train.py",
            Directory::Required("/scratch/ada".to_owned()),
            "/home/ada/runs/a.env /home/ada/b.env",
        ),
        (
            "launcher = \"command\"\nprogram = \"../bin/t\"\nenvironment_from = \"secrets.env\"",
            "/home/ada/runs/../bin/t",
            Directory::Preferred("/home/ada/runs".to_owned()),
            "/home/ada/runs/secrets.env",
        ),
    ] {
        let Ok(Launch::Command(Program {
            program,
            directory,
            environment_from,
            ..
        })) = launched(lines)
        else {
            panic!("{lines}");
        };
        let found = (program.as_str(), directory, environment_from.join(" "));
        assert_eq!(found, (ran, folder, from.to_owned()), "{lines}");
    }
    let error =
        launched("launcher = \"command\"\nprogram = \"x\"\nenvironment_from = [\"WANDB_API_KEY\"]");
    let error = error.unwrap_err();
    assert!(
        error.contains("t.toml:8: environment_from") && error.contains("chmod 600"),
        "{error}"
    );
}

#[test]
fn numbers_and_booleans_are_arguments_as_they_are_written() {
    let lines = "launcher = \"command\"\nprogram = \"x\"\n\
                 arguments = [\"--lr\", 0.30, 1e-4, 3, -0.5, true, \"0.5\", 1_000]\n\
                 environment = { N = 4, LR = 0.10, ON = false, S = \"1\" }";
    let Ok(Launch::Command(Program { args, env, .. })) = launched(lines) else {
        panic!("refused");
    };
    let words = ["--lr", "0.30", "1e-4", "3", "-0.5", "true", "0.5", "1_000"];
    assert_eq!(args, words);
    let values: Vec<&str> = env.values().map(String::as_str).collect();
    assert_eq!(values, ["0.10", "4", "false", "1"]);
    for (word, line) in [("[1, 2]", 8), ("{ a = 1 }", 8), ("2026-01-01", 8)] {
        let lines = format!("launcher = \"command\"\nprogram = \"x\"\narguments = [\"a\", {word}]");
        let error = launched(&lines).unwrap_err();
        let place = format!("t.toml:{line}: ");
        assert!(
            error.contains(&place) && error.contains("write it in quotes"),
            "{error}"
        );
    }
}

#[test]
fn a_wrong_key_names_the_right_one() {
    for (key, right) in [
        ("workdir", "write directory"),
        ("cwd", "write directory"),
        ("gpus", "write workers_per_node"),
        ("time", "write deadline"),
        ("env", "write environment ="),
        ("args", "write arguments ="),
        ("script", "write program ="),
        ("job-name", "write name ="),
        ("enviroment", "write environment"),
        ("max_node", "write max_nodes"),
        ("checkpoint-dir", "write checkpoint_dir"),
        ("proirity", "write priority"),
        ("colour", "see deploy/examples/"),
    ] {
        let error = launched(&format!("launcher = \"command\"\n{key} = 1")).unwrap_err();
        let begin = format!("t.toml:7: syntax or keys: unknown field `{key}`");
        assert!(
            error.contains(&begin) && error.contains(right),
            "{key}: {error}"
        );
        assert!(error.len() < 250, "{error}");
    }
    let error = launched("launcher = \"command\"\nnodes = 1").unwrap_err();
    let right = "t.toml:7: nodes: invalid type: integer `1`, expected a sequence: write min_nodes";
    assert!(error.contains(right), "{error}");
}

/// The lines of a trainer of `/home/ada/runs/t.toml`, in which these stand for those of their keys.
/// The first of them is line 2.
fn with_lines(lines: &str) -> String {
    let keys: Vec<&str> = lines
        .lines()
        .filter_map(|l| l.split(" = ").next())
        .collect();
    let base = "name = \"t\"\nlauncher = \"regroup\"\nprogram = \"x\"\nmin_nodes = 1\nmax_nodes = 2\n\
                until = \"exit\"\n";
    let is_kept = |line: &&str| {
        let key = line.split(" = ").next().unwrap_or_default();
        !(keys.contains(&key) || key == "until" && keys.contains(&"samples"))
    };
    let kept: Vec<&str> = base.lines().filter(is_kept).collect();
    format!("[[trainer]]\n{lines}\n{}\n", kept.join("\n"))
}

#[test]
fn a_value_at_its_end_is_right_or_an_error_with_line_key_and_remedy() {
    let long = "x".repeat(1 << 18);
    let texts = [
        r#""""#,
        r#"" ""#,
        r#""\u0000""#,
        r#""a\u001b[31mb""#,
        r#""a\nb""#,
        "1",
        "nan",
        "true",
        "[]",
        "{}",
        "1979-05-27",
    ];
    let numbers = [
        "-1",
        "nan",
        "inf",
        "-inf",
        "1e308",
        "9223372036854775808",
        "\"1\"",
        "true",
        "[]",
        "{}",
        "",
    ];
    let kinds = "kinds = { gpu = { nodes = [1, 2], samples_per_s = [1.0, 2.0] }, cpu = { nodes = [1, 2], \
                 samples_per_s = [1.0, 2.0] } }";
    // A key, a form of its line, the values that are wrong in it, and further ones.
    let of_texts: &[(&str, &str, &[&str])] = &[
        (
            "name",
            "name = @",
            &["\"é\"", "\"..\"", "\"-x\"", "\"a/b\""],
        ),
        ("owner", "owner = @", &[]),
        ("launcher", "launcher = @", &["\"Regroup\""]),
        ("program", "program = @", &[]),
        ("directory", "directory = @", &["\"~/x\""]),
        ("checkpoint_dir", "checkpoint_dir = @", &["\"~\""]),
        ("family", "family = @", &[]),
        ("maximise", "maximise = @", &["\"rate +\"", "\"1 / 0\""]),
        ("until", "until = @", &["\"Exit\""]),
        (
            "deadline",
            "deadline = @",
            &["\"2026-02-30T00:00:00Z\"", "\"10000-01-01T00:00:00Z\""],
        ),
        (
            "not_before",
            "not_before = @",
            &["\"soon\"", "\"2026-03-01\""],
        ),
        (
            "up",
            "rescale = { up = @, down = \"1s\" }",
            &["\"-1s\"", "\"1e400s\"", "\"5\""],
        ),
    ];
    let of_numbers: &[(&str, &str, &[&str])] = &[
        ("min_nodes", "min_nodes = @", &["0", "3", "1.5"]),
        ("max_nodes", "max_nodes = @", &["0", "262145", "4294967296"]),
        ("workers_per_node", "workers_per_node = @", &["0", "1025"]),
        ("weight", "weight = @", &["1e10"]),
        ("samples", "samples = @", &["0", "-0.0", "1e-300", "1e16"]),
        (
            "scaling|samples_per_s",
            "scaling = { nodes = [1, 2], samples_per_s = [1.0, @] }",
            &["0", "1e13"],
        ),
        (
            "scaling|nodes",
            "scaling = { nodes = [1, @], samples_per_s = [1.0, 2.0] }",
            &["0", "1", "1.5"],
        ),
        (
            "distance|shares",
            "distance = { shares = [@, 0.5] }",
            &["0", "1.5"],
        ),
        (
            "kinds|samples_per_s",
            "kinds = { gpu = { nodes = [1, 2], samples_per_s = [1.0, @] } }",
            &["0"],
        ),
    ];
    let mut cases = Vec::new();
    for (forms, wrong) in [(of_texts, &texts), (of_numbers, &numbers)] {
        for (key, form, more) in forms {
            cases.extend(
                wrong
                    .iter()
                    .chain(*more)
                    .filter(|value| !(**value == "1" && ["deadline", "not_before"].contains(key)))
                    .map(|value| (*key, form.replace('@', value))),
            );
        }
    }
    for (key, form, _) in of_texts {
        cases.push((key, form.replace('@', &format!("\"{long}\""))));
    }
    for value in ["-1", "nan", "inf", "1e13"] {
        let line = format!("together = [{{ cpu = 1, gpu = 1, samples_per_s = {value} }}]\n{kinds}");
        cases.push(("kinds", line));
    }
    for (key, line) in [
        ("priority", "priority = 1.5"),
        ("priority", "priority = 2147483648"),
        ("arguments", "arguments = [\"a\\u0000\"]"),
        ("arguments", "arguments = [[1]]"),
        ("environment", "environment = { \"A=B\" = 1 }"),
        ("environment", "environment = { \"\" = 1 }"),
        ("environment", "environment = { A = \"\\u0000\" }"),
        ("environment_from", "environment_from = [\"\\n\"]"),
        ("environment_from", "environment_from = 1"),
        ("loaders", "loaders = 1"),
        ("layers", "layers = []"),
        ("kinds", "kinds = []"),
        ("nodes", "scaling = {}"),
        ("name", "name = \"a\"\nname = \"b\""),
        ("unknown field `Name`", "Name = \"a\""),
        ("unknown field `max_nodse`", "max_nodse = 1"),
    ] {
        cases.push((key, line.to_owned()));
    }
    let mut faults = Vec::new();
    for (key, line) in &cases {
        let shown: String = line.chars().take(80).collect();
        let error = match parse("/home/ada/runs/t.toml", &with_lines(line)) {
            Ok(specs) => format!("accepted as {:?}", specs[0]),
            Err(error) => error.to_string(),
        };
        let is_long = line.contains(&long);
        let place = error
            .strip_prefix("/home/ada/runs/t.toml:")
            .unwrap_or_default();
        let is_here = place.starts_with("2: ") || place.starts_with("3: ");
        let is_named = key.split('|').any(|key| error.contains(key));
        let is_whole = is_long && error.contains("65536 are allowed");
        let is_short = error.len() < 1_000 && !error.contains(char::is_control);
        let has_remedy = !error.ends_with("see deploy/examples/");
        if !((is_here && is_named || is_whole) && is_short && has_remedy) {
            faults.push(format!("{shown}: {error:.300}"));
        }
    }
    assert!(faults.is_empty(), "of {}: {faults:#?}", cases.len());
}

#[test]
fn what_a_value_at_its_end_means_is_kept() {
    let one = |lines: &str| {
        parse("/home/ada/runs/t.toml", &with_lines(lines))
            .unwrap()
            .remove(0)
    };
    assert_eq!(one("samples = 1e15").work, Work::Samples(1e15));
    assert_eq!(one("weight = 0").weight, Some(0.0));
    assert_eq!(one("priority = -2147483648").priority, i32::MIN);
    assert_eq!(one("max_nodes = 262144").max_nodes, TrainerSpec::MOST_NODES);
    assert_eq!(one("owner = \"Zoë\"").owner.as_deref(), Some("Zoë"));
    let spec = one(
        "arguments = [\"\", \"a\\nb\", nan]\nenvironment = { A = \"\" }\ndirectory = \"/a//b/./ é\"",
    );
    let Launch::Command(Program {
        args,
        env,
        directory,
        ..
    }) = spec.launch
    else {
        panic!("a program");
    };
    assert_eq!(args, ["", "a\nb", "nan"]);
    assert_eq!(env["A"], "");
    assert_eq!(directory, Directory::Required("/a/b/ é".to_owned()));
    let windows = with_lines("").replace('\n', "\r\n");
    assert_eq!(
        parse("t.toml", &format!("\u{feff}{windows}"))
            .unwrap()
            .len(),
        1
    );
    // Depth is no stack.
    assert!(parse("t.toml", &"[".repeat(100_000)).is_err());
    assert!(parse("t.toml", &format!("x = {}", "[".repeat(100_000))).is_err());
}
