//! A headless Chromium, driven by WebDriver (<https://www.w3.org/TR/webdriver2/>): a process that
//! answers JSON over HTTP. The crates for this depend on one under the MPL, which `deny.toml` does
//! not allow, so this file has the few commands that the tests need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use lacuna_testkit::{Missing, Need};

/// The limit of each wait.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// A browser with one page. It ends with this value.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Errors
    /// If none is installed.
    pub(crate) fn start() -> Result<Self, Missing> {
        let there = installed("chromium") && installed("chromedriver");
        Need::Chromium.given(there, "no Chromium with a driver")?;
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(driver.stdout.take().unwrap());
        let port = said.lines().map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let mut browser = Self {
            driver,
            port: port.expect("chromedriver does not say its port"),
            session: String::new(),
        };
        let options = json!({
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": [
                // The sandbox needs rights that a container and root do not have.
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--disable-extensions",
            ] },
        });
        let asked = json!({ "capabilities": { "alwaysMatch": options } });
        let answer = browser.ask("POST", "/session", &asked);
        answer["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut browser.session);
        browser.resize(1440, 900);
        Ok(browser)
    }

    /// Sends the driver a request; its error fails the test.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let text = if method == "POST" {
            body.to_string()
        } else {
            String::new()
        };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            self.port,
            text.len()
        )
        .unwrap();
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body).unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let error = &answer["value"]["error"];
        assert!(error.is_null(), "{method} {path}: {}", answer["value"]);
        answer["value"].clone()
    }

    fn of_session(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// Opens an address and waits until the page has loaded.
    pub(crate) fn open(&self, address: &str) {
        self.of_session("/url", &json!({ "url": address }));
    }

    /// The value that a script returns on the page.
    pub(crate) fn script(&self, code: &str) -> Value {
        self.of_session("/execute/sync", &json!({ "script": code, "args": [] }))
    }

    /// The value of an expression.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.script(&format!("return {expression};"))
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&self, expression: &str) {
        let began = lacuna_runtime::Stopwatch::start();
        while self.value(expression) != Value::Bool(true) {
            assert!(
                began.seconds() < LIMIT.as_secs_f64(),
                "still not so after {LIMIT:?}: {expression}; the page says {}",
                self.value("document.body.innerText.slice(0, 2000)")
            );
            std::thread::sleep(LOOK);
        }
    }

    /// Presses keys, one after the other; WebDriver's private characters are special keys.
    pub(crate) fn press(&self, keys: &[char]) {
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })))
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.of_session("/actions", &json!({ "actions": [keyboard] }));
    }

    /// A command of Chromium's own protocol.
    pub(crate) fn chromium(&self, command: &str, parameters: &Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.of_session("/goog/cdp/execute", &body)
    }

    /// The size of the page's window, CSS pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.chromium(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
    }

    /// Light or dark, as the system would prefer it.
    pub(crate) fn prefer(&self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.chromium(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [feature] }),
        );
    }

    /// The messages of the page since the last call, such as violations of the policy and errors of
    /// scripts.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.of_session("/se/log", &json!({ "type": "browser" }));
        let lines = log.as_array().unwrap().iter();
        lines
            .filter(|line| line["level"] != "INFO" && line["level"] != "DEBUG")
            .map(|line| line["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The whole page as a picture, if `LACUNA_SCREENSHOTS` names a folder for it.
    pub(crate) fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("LACUNA_SCREENSHOTS") else {
            return;
        };
        let parameters = json!({ "captureBeyondViewport": true });
        let shot = self.chromium("Page.captureScreenshot", &parameters);
        let packed = shot["data"].as_str().unwrap();
        let path = Path::new(&folder).join(format!("{name}.png"));
        std::fs::write(path, unpack(packed)).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        // At its own end the driver ends its browser.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.driver.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.driver.wait();
    }
}

/// Base64 to bytes.
fn unpack(text: &str) -> Vec<u8> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for place in text.chars().filter_map(|c| ALPHABET.find(c)) {
        bits = (bits << 6 | place as u32) & 0xf_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

#[test]
fn base64_is_read() {
    assert_eq!(unpack("TGFjdW5h"), b"Lacuna");
    assert_eq!(unpack("TGFjdW4="), b"Lacun");
}
