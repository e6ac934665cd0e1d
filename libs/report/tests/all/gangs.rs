//! Pages of gangs.

use lacuna_report::{GangSegment, Gangs, GangsCase, GangsPolicy, Spread, render_gangs};

use crate::common::assert_finite;

fn page(policies: Vec<GangsPolicy>) -> String {
    let head = vec!["policy".to_owned(), "<h>".to_owned()];
    render_gangs(&Gangs {
        title: "Gangs".to_owned(),
        subtitle: "a < b".to_owned(),
        notes: vec!["a note & more".to_owned()],
        cases: vec![GangsCase {
            title: "case".to_owned(),
            tables: vec![(
                "figures".to_owned(),
                head,
                vec![vec!["p".to_owned(), "1".to_owned()]],
            )],
            policies,
            machine_gpus: 8,
            racks: vec![vec![0, 1], vec![2]],
        }],
    })
}

#[test]
fn policies_are_drawn_with_each_machine_and_text_is_escaped() {
    let segment = |machine, spread| GangSegment {
        machine,
        gpus: 8,
        spread,
        from_s: 0.0,
        until_s: 7200.0,
    };
    let policy = GangsPolicy {
        name: "<policy>".to_owned(),
        completion_s: vec![60.0, 7200.0, 500_000.0],
        segments: vec![segment(0, Spread::Racks), segment(2, Spread::Machine)],
    };
    let page = page(vec![policy]);
    assert_finite(&page);
    assert!(page.contains("rack 1, machine 0") && page.contains("rack 0, machine 1"));
    assert!(page.contains("&lt;policy&gt;") && !page.contains("<policy>"));
    assert!(page.contains("&lt;h&gt;") && page.contains("a note &amp; more"));
    assert!(page.contains("median 2h00m"), "{page}");
}

#[test]
fn a_policy_without_jobs_is_drawn() {
    assert_finite(&page(vec![GangsPolicy::default()]));
    assert_finite(&page(Vec::new()));
}
