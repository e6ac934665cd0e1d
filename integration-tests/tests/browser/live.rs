//! Changes on the open page, and its access.

use serde_json::Value;

use lacuna_testkit::or_skip;

use super::driver::Browser;
use super::page::{Moment, Page};

const TOKEN: &str = "a-token-of-32-characters-01234567";

fn moment(number: u64, training: usize) -> Moment {
    Moment {
        number,
        idle: 12,
        training,
        trainers: 1,
    }
}

fn shows(browser: &Browser, training: usize) {
    browser.until(&format!(
        "document.getElementById('f-training').textContent === '{training}'"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_come_without_loading_and_a_lost_gateway_is_said_and_found_again() {
    let browser = or_skip!(Browser::start());
    let mut page = Page::start(None).await;
    page.say(moment(1, 5)).await;
    browser.open(&page.address());
    browser.script("window.same = 'page';");
    shows(&browser, 5);
    browser.until("document.getElementById('state').className === 'live'");
    page.say(moment(2, 9)).await;
    shows(&browser, 9);
    page.kill();
    browser.until("document.getElementById('state').className === 'lost'");
    browser.until("document.getElementById('state').innerText.includes('does not answer')");
    browser.picture("lost");
    // The browser's messages about refused connections are no fault of the page.
    browser.complaints();
    page.go().await;
    page.say(moment(3, 7)).await;
    shows(&browser, 7);
    browser.until("document.getElementById('state').className === 'live'");
    assert_eq!(browser.value("window.same"), "page", "it was loaded again");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_token_there_is_no_page_and_with_it_no_complaint() {
    let browser = or_skip!(Browser::start());
    let page = Page::start(Some(TOKEN)).await;
    page.say(moment(1, 5)).await;
    browser.open(&page.address());
    browser.until("document.body.innerText.includes('needs a token')");
    assert_eq!(
        browser.value("document.getElementById('f-pool')"),
        Value::Null
    );
    assert!(!browser.complaints().is_empty(), "the browser logs a 401");
    browser.open(&format!("{}?token={TOKEN}", page.address()));
    shows(&browser, 5);
    assert_eq!(browser.value("location.search"), "", "it is in the address");
    assert_eq!(browser.value("document.cookie"), "", "a script can read it");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // The policy is in force: the browser reports a violation.
    browser.script(
        "const s = document.createElement('script'); s.textContent = 'window.evil = 1'; \
         document.body.append(s);",
    );
    assert_eq!(browser.value("window.evil ?? null"), Value::Null);
    let complaints = browser.complaints().join("\n");
    assert!(
        complaints.contains("Content Security Policy"),
        "{complaints}"
    );
}
