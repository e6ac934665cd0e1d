//! A node that a scheduler names and on which no agent speaks, beside an agent of another name.

use lacuna_model::{Span, TroubleKind, Work};
use lacuna_trainer::controller::{Input, Note};

use crate::common::{World, config, node, spec};
use crate::controller::apply;

#[test]
fn an_agent_that_speaks_under_another_name_is_asked_about_soon_after_the_lease() {
    let mut w = World::new(1, 2, config());
    w.absent.insert(node(0));
    w.snapshot();
    w.submit("", vec![spec("a", 1, 1, Work::UntilExit)]);
    w.open(0);
    apply(&mut w, &[("a", &[0])]);
    let troubles = |w: &World| -> Vec<_> {
        let views = w.controller.node_views(w.now).into_iter();
        let found = views.filter_map(|view| Some((view.node, view.trouble?)));
        found.map(|(id, t)| (id, t.kind, t.perhaps)).collect()
    };
    for second in 1..=6 {
        w.pass(Span::from_secs(1));
        w.statuses();
        w.deliver(usize::MAX);
        w.input(Input::Timer);
        if second < 5 {
            assert_eq!(troubles(&w), [(node(1), TroubleKind::Unnamed, vec![])]);
        }
    }
    assert_eq!(
        troubles(&w),
        [
            (node(0), TroubleKind::Unheard, vec![node(1)]),
            (node(1), TroubleKind::Unnamed, vec![node(0)]),
        ]
    );
    let told = w.notes.iter().filter_map(|note| match note {
        Note::NoAgent { node, perhaps } => Some((node.clone(), perhaps.clone())),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(node(0), vec![node(1)])]);
    // It speaks there after all.
    w.absent.clear();
    w.statuses();
    w.deliver(usize::MAX);
    assert_eq!(troubles(&w).len(), 1);
}
