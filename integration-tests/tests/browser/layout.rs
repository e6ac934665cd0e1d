//! The layout of the page at several sizes, in light and dark.

use serde_json::Value;

use lacuna_testkit::or_skip;

use super::checks;
use super::driver::Browser;
use super::page::{Moment, Page};

const SIZES: [(&str, u32, u32); 3] = [
    ("desktop", 1600, 1000),
    ("tablet", 1000, 1180),
    ("phone", 400, 844),
];

/// The least contrast that WCAG 2 requires of small text (AA).
const CONTRAST: f64 = 4.5;

fn check(browser: &Browser, what: &str) {
    for (size, width, height) in SIZES {
        browser.resize(width, height);
        browser.until("document.querySelector('main').clientWidth <= innerWidth");
        let found = browser.script(checks::LAYOUT);
        browser.picture(&format!("{what}-{size}"));
        assert!(found[0].as_u64().unwrap() > 20, "{what} {size}: {found}");
        assert_eq!(found[1], Value::Array(vec![]), "{what} at {width}x{height}");
    }
}

fn contrast(browser: &Browser) -> String {
    let found = browser.script(checks::CONTRAST);
    let least = found[0].as_f64().unwrap();
    assert!(least >= CONTRAST, "{found}");
    assert!(found[2].as_u64().unwrap() > 50, "{found}");
    found[3].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_overlaps_or_is_cut_at_any_size_in_light_and_dark() {
    let browser = or_skip!(Browser::start());
    let page = Page::start(None).await;
    browser.open(&page.address());
    browser.until("document.body.dataset.pictures > 0");
    check(&browser, "empty");
    for number in 1..=6 {
        let small = Moment {
            number,
            idle: 60 + 3 * usize::try_from(number % 3).unwrap(),
            training: 40 + 4 * usize::try_from(number % 4).unwrap(),
            trainers: 4,
        };
        page.say(small).await;
        let training = small.training / small.trainers * small.trainers;
        browser.until(&format!(
            "document.getElementById('f-training').textContent === '{training}'"
        ));
    }
    page.say_the_rest().await;
    browser.until("document.querySelectorAll('#events tr').length === 3");
    browser.until("document.querySelectorAll('#harm tr').length === 2");
    browser.until("document.querySelectorAll('#services tr').length === 4");
    for said in [
        "Paused by ada",
        "no further node is taken (the cooling is being looked at)",
        "Drained: n00003.hall (a fan is loud)",
        "At most 4,000 nodes",
    ] {
        browser.until(&format!(
            "document.getElementById('controls').innerText.includes('{said}')"
        ));
    }
    // A node that is asked for shows all its details.
    browser.script("document.getElementById('find').value = 'n00001.hall';");
    browser.script("document.getElementById('find').dispatchEvent(new Event('change'));");
    browser.until("document.getElementById('told').innerText.includes('ends within')");
    // The answers name what is wrong, by words and not by colours alone.
    for (answer, said) in [
        ("harm", "3 nodes given back after"),
        ("harm", "took more than 0.50 s"),
        ("faults", "ingest: scheduler: sinfo: exit code 1"),
        ("faults", "more."),
        ("gain", "90.0 % of the time that nodes were idle"),
    ] {
        browser.until(&format!(
            "document.querySelector('#a-{answer} .text').innerText.includes('{said}')"
        ));
    }
    let words = "[...document.querySelectorAll('summary .word')].map((at) => at.innerText).join()";
    browser.until(&format!("{words} === 'not recently,yes,22,500 node-hours'"));
    browser.script("for (const at of document.querySelectorAll('details')) at.open = true;");
    check(&browser, "small");
    browser.prefer("light");
    let light = contrast(&browser);
    browser.prefer("dark");
    let dark = contrast(&browser);
    assert_ne!(light, dark);
    check(&browser, "dark");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The longest frame that is no freeze, milliseconds: twice what was seen with fourteen tasks
/// beside it on two cores.
const FREEZE_MS: f64 = 3000.0;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_nodes_fit_the_page_and_do_not_freeze_it() {
    let browser = or_skip!(Browser::start());
    let page = Page::start(None).await;
    let large = |number: u64| Moment {
        number,
        idle: 10_000 - 7 * usize::try_from(number).unwrap(),
        training: 6000 + 100 * usize::try_from(number % 5).unwrap(),
        trainers: 100,
    };
    page.say(large(1)).await;
    page.say_the_rest().await;
    browser.open(&page.address());
    browser.until("document.getElementById('f-training').textContent === '6,100'");
    browser.until("document.getElementById('gantt-note').textContent.startsWith('9,993 nodes')");
    // Three attempts, since other load on this machine may stop a browser for a moment.
    let mut longest = f64::INFINITY;
    for look in 0..3 {
        browser.script(checks::WATCH);
        for number in 2 + look * 5..7 + look * 5 {
            page.say(large(number)).await;
            let expected = large(number).idle.to_string();
            browser.until(&format!(
                "document.getElementById('f-pool').textContent.replace(',', '') === '{expected}'"
            ));
        }
        let seen = browser.value("window.seen");
        println!("10,000 nodes, milliseconds: {seen}");
        assert!(seen["frames"].as_u64().unwrap() > 0, "{seen}");
        longest = longest.min(seen["longest"].as_f64().unwrap());
    }
    println!("the longest frame of the best look took {longest} ms");
    assert!(longest < FREEZE_MS, "a frame took {longest} ms");
    check(&browser, "large");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
