//! An operator's requests to the executor of pilots.

use lacuna_model::pilots::OfKind;
use lacuna_model::{ControlsChange, NodeKinds, UseLimit};
use lacuna_wire::msg::{PilotsRequest, Reply, Request, TopologyState};

use super::*;

#[test]
fn an_operator_stops_all_pilots_and_resumes() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        let control = start(&nats, slurm.config("on")).await;
        idle(&bus, 1, &["n1"]).await;
        slurm.has(&control, 1).await;
        let ask = async |request: PilotsRequest| {
            let subject = address::pilots_of(&cluster(), "tester");
            let reply: Reply = bus
                .request(&subject, &request, Duration::from_secs(5))
                .await
                .unwrap();
            assert!(matches!(reply, Reply::Accepted { .. }), "{reply:?}");
        };
        ask(PilotsRequest::Stop).await;
        control
            .until("a cancellation", |_| slurm.lines("scancel.log").len() == 1)
            .await;
        idle(&bus, 2, &["n1", "n2"]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(slurm.lines("sbatch.log").len(), 1);
        // Another control, as after a takeover, has not forgotten.
        control.stop().await;
        let control = start(&nats, slurm.config("on")).await;
        idle(&bus, 3, &["n1", "n2"]).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(slurm.lines("sbatch.log").len(), 1);
        ask(PilotsRequest::Resume).await;
        control
            .until("another submission", |_| {
                slurm.lines("sbatch.log").len() > 1
            })
            .await;
        control.stop().await;
    });
}

async fn change(bus: &Bus, change: ControlsChange) {
    let subject = address::requests_of(&cluster(), "tester");
    let changes = vec![change];
    let request = Request::Change { changes };
    let reply: Reply = bus.request(&subject, &request, LIMIT).await.unwrap();
    assert!(matches!(reply, Reply::Controls(_)), "{reply:?}");
}

/// The nodes for which pilots were submitted.
fn asked_for(slurm: &Slurm) -> Vec<String> {
    let of = |line: &String| {
        let words = line.split_whitespace();
        let node = words
            .filter_map(|word| word.strip_prefix("--nodelist="))
            .next();
        node.unwrap_or_default().to_owned()
    };
    slurm.lines("sbatch.log").iter().map(of).collect()
}

#[test]
fn withheld_nodes_get_no_pilot_and_lose_the_one_they_have() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        let control = start(&nats, slurm.config("on")).await;
        idle(&bus, 1, &["n1"]).await;
        control
            .until("a pilot for n1", |_| asked_for(&slurm) == ["n1"])
            .await;
        let drain = ControlsChange::Drain {
            nodes: vec![node("n1"), node("n2")],
            reason: String::new(),
        };
        change(&bus, drain).await;
        control
            .until("n1 is given back", |_| {
                slurm.lines("scancel.log").len() == 1
            })
            .await;
        speak(&bus, "n1", true).await;
        idle(&bus, 2, &["n1", "n2", "n3"]).await;
        control
            .until("a pilot for n3", |_| asked_for(&slurm) == ["n1", "n3"])
            .await;
        // A cap counts pilots; n3 has one already.
        let most = UseLimit::AtMost { nodes: 2 };
        let pause = |limit| ControlsChange::Pause {
            limit,
            until: None,
            reason: String::new(),
        };
        change(&bus, pause(most)).await;
        idle(&bus, 3, &["n1", "n2", "n3", "n4", "n5", "n6"]).await;
        control
            .until("one more", |_| asked_for(&slurm).len() == 3)
            .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(asked_for(&slurm).len(), 3, "{:?}", asked_for(&slurm));
        // Without growth none is added when the cap is gone.
        change(&bus, pause(UseLimit::NoGrowth)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(asked_for(&slurm).len(), 3);
        change(&bus, ControlsChange::Resume).await;
        control
            .until("the others", |_| {
                let mut asked = asked_for(&slurm).split_off(1);
                asked.sort();
                asked.dedup();
                asked == ["n3", "n4", "n5", "n6"]
            })
            .await;
        control.stop().await;
    });
}

#[test]
fn a_node_gets_a_pilot_with_the_options_of_its_kind() {
    in_virtual_time(async |nats| {
        let slurm = Slurm::new();
        let bus = nats.connect(&cluster(), "forecast").await;
        let mut config = slurm.config("on");
        let own = OfKind {
            partition: Some("cpu-idle".to_owned()),
            extra: Some(vec!["--gres=none".to_owned()]),
            ..OfKind::default()
        };
        if let Some(pilots) = &mut config.control.pilots {
            pilots.kinds = [("cpu".to_owned(), own)].into();
        }
        let control = start(&nats, config).await;
        let kind = |name: &str, kind: &str| (node(name), kind.parse().unwrap());
        let state = TopologyState {
            kinds: NodeKinds::new([kind("n1", "cpu"), kind("n2", "gpu")].into()),
            ..TopologyState::default()
        };
        let subject = address::topology(&cluster());
        bus.store(&subject, &state, "").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        idle(&bus, 1, &["n1", "n2", "n3"]).await;
        control
            .until("three submissions", |_| asked_for(&slurm).len() == 3)
            .await;
        for line in slurm.lines("sbatch.log") {
            let is_cpu = line.contains("--nodelist=n1 ");
            let partition = if is_cpu { "cpu-idle" } else { "filler" };
            assert!(line.contains(&format!("--partition={partition}")), "{line}");
            assert_eq!(line.contains("--gres=none"), is_cpu, "{line}");
        }
        // Pilots of all partitions are found again.
        for name in ["n1", "n2", "n3"] {
            speak(&bus, name, false).await;
        }
        control
            .until("three run", |c| {
                c.metric("lacuna_control_pilots{state=\"running\"}") == 3.0
            })
            .await;
        control.stop().await;
    });
}
