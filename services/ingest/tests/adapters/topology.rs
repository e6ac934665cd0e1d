//! Where nodes are and of which kind, by a live scheduler and by a file.

use lacuna_ingest_service::Config;
use lacuna_model::{NodeId, Span};
use lacuna_runtime::{Follow, Misconfigured, Start};
use lacuna_scheduler::kinds::KindRules;
use lacuna_scheduler::settings::Pbs;
use lacuna_testkit::{TestNats, connect};
use lacuna_wire::address;
use lacuna_wire::msg::TopologyState;

use super::common::{Consumer, Fake, Service, cluster, fast};

const TREE: &str = "SwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n\
                    SwitchName=l2 Level=0 LinkSpeed=1 Nodes=n3\n\
                    SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=l[1-2]\n";

async fn topologies(nats: &TestNats) -> Follow<TopologyState> {
    let bus = connect(nats, &cluster(), "topologies").await;
    bus.follow(&address::topology(&cluster()), Start::All)
        .await
        .unwrap()
}

/// The next topology: its source, and the leaves of n1 to n4.
async fn next(topologies: &mut Follow<TopologyState>) -> (String, Vec<String>) {
    let next = tokio::time::timeout(std::time::Duration::from_secs(20), topologies.next());
    let state = next.await.expect("nothing came").unwrap().message;
    let TopologyState {
        topology, source, ..
    } = state;
    let leaf = |name: &str| {
        let leaf = topology.leaf(&NodeId::new(name).unwrap());
        leaf.unwrap_or("-").to_owned()
    };
    (source, ["n1", "n2", "n3", "n4"].map(leaf).into())
}

#[tokio::test]
async fn slurm_is_asked_where_nodes_are_and_changes_are_taken_up() {
    let nats = TestNats::start();
    let (fake, mut consumer) = (Fake::new(), Consumer::new(&nats).await);
    let mut heard = topologies(&nats).await;
    fake.slurm();
    fake.nodes("n1 idle\nn4 idle");
    fake.script(
        "scontrol",
        "echo \"$@\" $SLURM_TOPO_LEN >> where; cat topology.txt",
    );
    fake.write("topology.txt", TREE);
    let mut config = fake.config();
    config.ingest.topology = Some("slurm".into());
    config.ingest.topology_every = Span::from_ms(300);
    config.ingest.snapshot_every = Span::from_ms(200);
    if let Some(slurm) = &mut config.ingest.slurm {
        slurm.scontrol = vec![fake.path("scontrol").display().to_string()];
    }
    let service = Service::start(&nats, config.clone()).await;
    let first = (
        "slurm".to_owned(),
        ["l1", "l1", "l2", "-"].map(str::to_owned).into(),
    );
    assert_eq!(next(&mut heard).await, first);
    assert_eq!(consumer.receive(2).await, ["+n1", "+n4"]);
    let unknown = "lacuna_ingest_topology_unknown_nodes";
    service
        .until("a node without a place", |s| s.metric(unknown) == 1.0)
        .await;
    assert_eq!(service.metric("lacuna_ingest_topology_leaves"), 2.0);
    // A damaged answer changes nothing.
    fake.write("topology.txt", &TREE.replace("n[1-2]\n", "n[1-\n"));
    let failures = "lacuna_ingest_topology_failures_total";
    service
        .until("a failure", |s| s.metric(failures) >= 1.0)
        .await;
    let of_scontrol =
        "lacuna_ingest_scheduler_failures_total{command=\"scontrol\",reason=\"answer\"}";
    assert!(service.metric(of_scontrol) >= 1.0);
    assert_eq!(service.metric("lacuna_ingest_topology_nodes"), 3.0);
    fake.write(
        "topology.txt",
        &TREE.replace("Nodes=n3\n", "Nodes=n[3-4]\n"),
    );
    let second = (
        "slurm".to_owned(),
        ["l1", "l1", "l2", "l2"].map(str::to_owned).into(),
    );
    assert_eq!(next(&mut heard).await, second);
    service
        .until("every node has a place", |s| s.metric(unknown) == 0.0)
        .await;
    let asked = std::fs::read_to_string(fake.path("where")).unwrap();
    assert!(asked.starts_with("show topology 16777216\n"), "{asked}");
    service.end().await;
    // The same topology again is not published again; without the setting it is removed.
    let service = Service::start(&nats, config).await;
    service
        .until("an answer", |s| {
            s.metric("lacuna_ingest_topology_nodes") == 4.0
        })
        .await;
    service.cycles(&fake, 3).await;
    assert!(heard.try_next().is_none(), "nothing has changed");
    service.end().await;
    let service = Service::start(&nats, fake.config()).await;
    let none = (String::new(), ["-"; 4].map(str::to_owned).into());
    assert_eq!(next(&mut heard).await, none);
    service.end().await;
    let service = Service::start(&nats, fake.config()).await;
    service.cycles(&fake, 2).await;
    assert!(
        heard.try_next().is_none(),
        "without a topology nothing is said of it"
    );
    service.end().await;
}

#[tokio::test]
async fn placement_sets_of_pbs_come_with_its_nodes() {
    let nats = TestNats::start();
    let fake = Fake::new();
    let mut heard = topologies(&nats).await;
    fake.script("pbsnodes", "cat nodes.json");
    let node = |name: &str, switch: &str| {
        format!(
            "\"{name}\":{{\"state\":\"free\",\"resources_available\":{{\"host\":\"{name}\",\
             \"switch\":\"{switch}\"}}}}"
        )
    };
    let nodes = [node("n1", "s1"), node("n2", "s1"), node("n3", "s2")].join(",\n");
    fake.write("nodes.json", &format!("{{\"nodes\":{{\n{nodes}\n}}}}\n"));
    let mut config = Config::default();
    config.ingest.topology = Some("pbs".into());
    config.ingest.topology_keys = vec!["switch".to_owned()];
    config.ingest.pbs = Some(Pbs {
        pbsnodes: vec![fake.path("pbsnodes").display().to_string()],
        polling: fast(),
        ..Pbs::default()
    });
    let service = Service::start(&nats, config).await;
    let expected = (
        "pbs".to_owned(),
        ["s1", "s1", "s2", "-"].map(str::to_owned).into(),
    );
    assert_eq!(next(&mut heard).await, expected);
    service.end().await;
}

#[tokio::test]
async fn a_file_is_read_again_and_a_wrong_one_changes_nothing() {
    let nats = TestNats::start();
    let fake = Fake::new();
    let mut heard = topologies(&nats).await;
    fake.write("table.csv", "node,leaf\nn[1-2],l1\n");
    let path = fake.path("table.csv");
    let mut config = Config::default();
    config.ingest.topology = Some(path.clone());
    config.ingest.topology_every = Span::from_ms(100);
    let service = Service::start(&nats, config.clone()).await;
    let source = path.display().to_string();
    let first = (
        source.clone(),
        ["l1", "l1", "-", "-"].map(str::to_owned).into(),
    );
    assert_eq!(next(&mut heard).await, first);
    fake.write("table.csv", "node,leaf\nn1,l1\nn1,l2\n");
    let failures = "lacuna_ingest_topology_failures_total";
    service
        .until("a failure", |s| s.metric(failures) >= 1.0)
        .await;
    fake.write("table.csv", "node,leaf\nn1,l1\nn3,l2\n");
    let second = (source, ["l1", "-", "l2", "-"].map(str::to_owned).into());
    assert_eq!(next(&mut heard).await, second);
    service.end().await;
    // At a start a wrong file is a wrong configuration.
    fake.write("table.csv", "node,leaf\nn1,l1\nn1,l2\n");
    let service = Service::start(&nats, config).await;
    let error = service.running.await.unwrap().unwrap_err();
    assert!(error.is::<Misconfigured>(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("table.csv") && text.contains("line 3: node n1"),
        "{text}"
    );
}

/// The next kinds of n1 to n3.
async fn next_kinds(heard: &mut Follow<TopologyState>) -> [String; 3] {
    let next = tokio::time::timeout(std::time::Duration::from_secs(20), heard.next());
    let kinds = next.await.expect("nothing came").unwrap().message.kinds;
    ["n1", "n2", "n3"].map(|name| {
        let kind = kinds.of(&NodeId::new(name).unwrap());
        kind.map_or("-".to_owned(), ToString::to_string)
    })
}

fn rules(list: &[(&str, &str)]) -> KindRules {
    let rule = |(kind, label): &(&str, &str)| ((*kind).to_owned(), vec![(*label).to_owned()]);
    KindRules::new(list.iter().map(rule).collect())
}

#[tokio::test]
async fn slurm_is_asked_of_which_kind_nodes_are() {
    let nats = TestNats::start();
    let fake = Fake::new();
    let mut heard = topologies(&nats).await;
    fake.slurm();
    fake.nodes("n1 idle\nn2 idle\nn3 idle");
    let ask =
        "case \"$*\" in *Gres*) cat kinds.txt;; *) echo \"$@\" >> asked; cat sinfo.txt;; esac";
    fake.script("sinfo", ask);
    let row = |name: &str, partition: &str, gres: &str| {
        format!("{name}\u{1f}{partition}\u{1f}(null)\u{1f}{gres}\u{1e}\n")
    };
    let three = [
        row("n1", "cpu*", "(null)"),
        row("n2", "gpu", "gpu:a100:4"),
        row("n3", "fat", "(null)"),
    ];
    fake.write("kinds.txt", &three.concat());
    let mut config = fake.config();
    config.ingest.kinds = rules(&[("cpu", "partition:cpu"), ("gpu", "gres:gpu")]);
    config.ingest.topology_every = Span::from_ms(300);
    config.ingest.snapshot_every = Span::from_ms(200);
    let service = Service::start(&nats, config).await;
    assert_eq!(next_kinds(&mut heard).await, ["cpu", "gpu", "-"]);
    let idle = |kind: &str| format!("lacuna_ingest_kind_idle_nodes{{kind=\"{kind}\"}}");
    service
        .until("idle nodes by kind", |s| {
            ["", "cpu", "gpu"].map(|kind| s.metric(&idle(kind))) == [1.0; 3]
        })
        .await;
    // A damaged answer changes nothing.
    fake.write("kinds.txt", "slurm_load_node: error\n");
    let failures = "lacuna_ingest_kind_failures_total";
    service
        .until("a failure", |s| s.metric(failures) >= 1.0)
        .await;
    // A node that becomes of two kinds is refused, whole.
    let both = [&three[1..], &[row("n1", "cpu", "gpu:1")]].concat();
    fake.write("kinds.txt", &both.concat());
    service.cycles(&fake, 3).await;
    fake.write("kinds.txt", &row("n3", "cpu", ""));
    assert_eq!(next_kinds(&mut heard).await, ["-", "-", "cpu"]);
    service.end().await;
    // Without the setting the kinds are removed.
    let service = Service::start(&nats, fake.config()).await;
    assert_eq!(next_kinds(&mut heard).await, ["-"; 3]);
    service.end().await;
}

#[tokio::test]
async fn kinds_come_from_pbs_a_list_or_the_setting() {
    let nats = TestNats::start();
    let fake = Fake::new();
    let mut heard = topologies(&nats).await;
    fake.script("pbsnodes", "cat nodes.json");
    let node = |name: &str, gpus: u32| {
        format!("\"{name}\":{{\"state\":\"free\",\"resources_available\":{{\"ngpus\":{gpus}}}}}")
    };
    let nodes = [node("n1", 0), node("n2", 4)].join(",\n");
    fake.write("nodes.json", &format!("{{\"nodes\":{{\n{nodes}\n}}}}\n"));
    let mut config = Config::default();
    config.ingest.kinds = rules(&[("cpu", "rest"), ("gpu", "resource:ngpus")]);
    config.ingest.pbs = Some(Pbs {
        pbsnodes: vec![fake.path("pbsnodes").display().to_string()],
        polling: fast(),
        ..Pbs::default()
    });
    let service = Service::start(&nats, config).await;
    assert_eq!(next_kinds(&mut heard).await, ["cpu", "gpu", "-"]);
    service.end().await;
    // A list is read again, and a wrong one changes nothing.
    fake.write("kinds.csv", "node,kind\nn[1-2],cpu\n");
    let mut config = Config::default();
    config.ingest.kinds_file = Some(fake.path("kinds.csv"));
    config.ingest.topology_every = Span::from_ms(100);
    let service = Service::start(&nats, config.clone()).await;
    assert_eq!(next_kinds(&mut heard).await, ["cpu", "cpu", "-"]);
    fake.write("kinds.csv", "node,kind\nn1,cpu\nn1,gpu\n");
    let failures = "lacuna_ingest_kind_failures_total";
    service
        .until("a failure", |s| s.metric(failures) >= 1.0)
        .await;
    fake.write("kinds.csv", "node,kind\nn3,gpu\n");
    assert_eq!(next_kinds(&mut heard).await, ["-", "-", "gpu"]);
    service.end().await;
    // At a start a wrong list is a wrong configuration.
    fake.write("kinds.csv", "node,kind\nn1,cpu\nn1,gpu\n");
    let service = Service::start(&nats, config).await;
    let error = service.running.await.unwrap().unwrap_err();
    assert!(error.is::<Misconfigured>(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("kinds.csv") && text.contains("line 3"),
        "{text}"
    );
    // The setting alone, and the output of `lshosts -w`.
    let mut config = Config::default();
    config.ingest.kinds = rules(&[("cpu", "nodes:n[1-2]"), ("gpu", "nodes:n3")]);
    let service = Service::start(&nats, config).await;
    assert_eq!(next_kinds(&mut heard).await, ["cpu", "cpu", "gpu"]);
    service.end().await;
    let table = "HOST_NAME type model cpuf ncpus\nn1 X86_64 Xeon 60 40\nn2 PPC64LE P9 60 44\n";
    fake.write("lshosts", table);
    let mut config = Config::default();
    config.ingest.kinds = rules(&[("cpu", "type:X86_64"), ("gpu", "model:P9")]);
    config.ingest.kinds_file = Some(fake.path("lshosts"));
    let service = Service::start(&nats, config).await;
    assert_eq!(next_kinds(&mut heard).await, ["cpu", "gpu", "-"]);
    service.end().await;
}
