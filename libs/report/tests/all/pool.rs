//! Pages of the pool's statistics.

use lacuna_model::Timestamp;
use lacuna_report::{About, pool_drawing, render_pool};
use lacuna_sim::HoleTrace;
use lacuna_sim::pool_stats::{PoolOptions, pool_stats};
use lacuna_skip::or_skip;

use crate::common::{Summit, assert_finite, hole, keep};

fn about(name: &str) -> About<'_> {
    About {
        name,
        ..About::default()
    }
}

#[test]
fn a_page_and_a_drawing_name_the_log_and_its_damage() {
    let holes = [hole(0, 0, 600), hole(1, 0, 7200), hole(2, 600, 1200)];
    let trace = HoleTrace::new(&holes, None, Timestamp::from_unix(0), None);
    let stats = pool_stats(&trace, PoolOptions::default()).unwrap();
    let machine = [("log".to_owned(), "swf: <simulated>".to_owned())];
    let notes = ["3 damaged lines were skipped, ".repeat(9)];
    let about = About {
        name: "a.swf",
        machine: &machine,
        left_out: Some("2.0 h count as busy"),
        notes: &notes,
    };
    for page in [render_pool(&stats, &about), pool_drawing(&stats, &about)] {
        assert!(page.contains("2.0 h count as busy"), "{page}");
        assert!(page.contains("swf: &lt;simulated&gt;"), "{page}");
        assert_eq!(page.matches("damaged lines were skipped").count(), 9);
    }
}

#[test]
fn a_pool_without_holes_is_drawn() {
    let start = Timestamp::from_unix(0);
    let holes = [hole(0, -100, -50)];
    let end = Some(Timestamp::from_unix(60));
    for trace in [
        HoleTrace::new(&holes, None, start, end),
        HoleTrace::new(&[], None, start, None),
    ] {
        let stats = pool_stats(&trace, PoolOptions::default()).unwrap();
        assert_finite(&render_pool(&stats, &about("nothing")));
    }
}

#[test]
fn the_pool_of_summit_is_drawn() {
    let summit = or_skip!(Summit::open());
    let stats = pool_stats(&summit.whole(), PoolOptions::default()).unwrap();
    let page = render_pool(&stats, &about("Summit"));
    assert_finite(&page);
    keep("pool.html", &page);
    keep("pool.svg", &pool_drawing(&stats, &about("Summit")));
}
