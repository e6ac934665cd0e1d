//! Everything by keyboard alone.

use std::collections::BTreeSet;

use lacuna_testkit::or_skip;

use super::checks;
use super::driver::Browser;
use super::page::{Moment, Page};

const TAB: char = '\u{e004}';
const ESCAPE: char = '\u{e00c}';
const DOWN: char = '\u{e015}';

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_reached_by_keyboard_and_the_focus_is_seen() {
    let browser = or_skip!(Browser::start());
    let page = Page::start(None).await;
    let moment = Moment {
        number: 1,
        idle: 12,
        training: 5,
        trainers: 1,
    };
    page.say(moment).await;
    page.say_the_rest().await;
    browser.open(&page.address());
    browser.until("document.querySelectorAll('#services tr').length === 4");
    browser.until("document.getElementById('gantt-note').textContent.startsWith('12 nodes')");
    let mut reached = BTreeSet::new();
    for _ in 0..18 {
        browser.press(&[TAB]);
        let focus = browser.script(checks::FOCUS);
        let name = focus[0].as_str().unwrap().to_owned();
        if name == "BODY" {
            break;
        }
        assert_eq!(focus[1], true, "the focus on {name} cannot be seen");
        reached.insert(name);
    }
    for wanted in [
        "skip",
        "theme",
        "trainers",
        "find",
        "span",
        "gantt",
        "h-events",
        "SUMMARY",
        "reason",
        "h-services",
    ] {
        assert!(reached.contains(wanted), "{wanted} is not in {reached:?}");
    }
    // The keys that the page names.
    browser.script("document.activeElement.blur();");
    let colour = "getComputedStyle(document.body).backgroundColor";
    let before = browser.value(colour);
    browser.press(&['t']);
    assert_ne!(browser.value(colour), before);
    browser.press(&['/']);
    assert_eq!(browser.value("document.activeElement.id"), "find");
    browser.press(&['t']);
    assert_ne!(
        browser.value(colour),
        before,
        "a letter of a name is no key"
    );
    browser.script("document.getElementById('gantt').focus();");
    browser.press(&[DOWN]);
    browser.until("document.getElementById('told').innerText.startsWith('n00000.hall: trains')");
    browser.press(&[DOWN, DOWN]);
    browser.until("document.getElementById('told').innerText.startsWith('n00002.hall: trains')");
    browser.press(&[ESCAPE]);
    browser.until("document.getElementById('told').hidden");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
