//! A real Prometheus: started with the configuration of `deploy`, asked over HTTP.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use lacuna_testkit::{Killed, Missing, Need};

use crate::support;

/// Shorter intervals of scrapes and of rule evaluation, for a test.
const FASTER: [(&str, &str); 3] = [
    ("scrape_interval: 5s", "scrape_interval: 1s"),
    ("scrape_timeout: 4s", "scrape_timeout: 1s"),
    ("evaluation_interval: 15s", "evaluation_interval: 1s"),
];

/// A running Prometheus; it ends with this value.
pub(super) struct Prometheus {
    _child: Killed,
    port: u16,
}

impl Prometheus {
    /// Starts Prometheus in a folder, with the configuration of `deploy` and targets in
    /// `<dir>/targets`.
    ///
    /// # Errors
    /// If no Prometheus is installed.
    pub(super) fn start(dir: &Path) -> Result<Self, Missing> {
        let mut text = support::read("deploy/prometheus.yml");
        let targets = dir.join("targets").display().to_string();
        let rules = support::root().join(super::alerts::RULES);
        let rules = rules.display().to_string();
        for (from, to) in FASTER.into_iter().chain([
            ("/etc/prometheus/targets", targets.as_str()),
            ("/etc/prometheus/alerts.yml", rules.as_str()),
        ]) {
            assert!(text.contains(from), "deploy/prometheus.yml has no {from}");
            text = text.replace(from, to);
        }
        // Prometheus watches the folder, so it must exist first.
        std::fs::create_dir_all(&targets).unwrap();
        let config = dir.join("prometheus.yml");
        std::fs::write(&config, text).unwrap();
        let path = dir.join("prometheus.log");
        let log = File::create(&path).unwrap();
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.join("data").display()
            ))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .map_err(|e| Need::Prometheus.missing(format!("prometheus: {e}")))?;
        for _ in 0..600 {
            let said = std::fs::read_to_string(&path).unwrap();
            if let Some(port) = said_port(&said) {
                return Ok(Self {
                    _child: Killed(child),
                    port,
                });
            }
            let ended = child.try_wait().unwrap();
            assert_eq!(ended, None, "prometheus ends: {said}");
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = (child.kill(), child.wait());
        panic!("prometheus does not say its port within a minute");
    }

    /// Sends a request to the HTTP interface; returns its data or its error.
    pub(super) fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let pairs: Vec<String> = parameters
            .iter()
            .map(|(key, value)| format!("{}={}", encode(key), encode(value)))
            .collect();
        let body = self.get(&format!("/api/v1/{path}?{}", pairs.join("&")))?;
        let mut answer: Value = serde_json::from_str(&body).map_err(|e| format!("{e}: {body}"))?;
        if answer["status"] == "success" {
            Ok(answer["data"].take())
        } else {
            Err(answer["error"].to_string())
        }
    }

    /// The value of an expression now.
    pub(super) fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let data = self.ask("query", &[("query", expression)])?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// The values of an expression over the last minutes, every two seconds.
    pub(super) fn query_range(&self, expression: &str) -> Result<Vec<Value>, String> {
        let now = lacuna_runtime::clock::wall().unix_seconds();
        let (start, end) = (format!("{:.3}", now - 300.0), format!("{now:.3}"));
        let data = self.ask(
            "query_range",
            &[
                ("query", expression),
                ("start", &start),
                ("end", &end),
                ("step", "2"),
            ],
        )?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    fn get(&self, path: &str) -> Result<String, String> {
        let text = |e: std::io::Error| e.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(text)?;
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .map_err(text)?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").map_err(text)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(text)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP answer")?;
        Ok(body.to_owned())
    }
}

/// The port on which it listens, by its log, which also has the requested port 0.
fn said_port(log: &str) -> Option<u16> {
    let (whole, _) = log.rsplit_once('\n')?;
    whole.lines().find_map(|line| {
        let (_, port) = line.split_once("address=127.0.0.1:")?;
        let port = port.split(' ').next()?.parse().ok()?;
        (port != 0).then_some(port)
    })
}

/// Whether an answer has a number.
pub(super) fn has_a_number(result: &[Value]) -> bool {
    let finite = |sample: &Value| {
        let number = sample[1].as_str().and_then(|n| n.parse::<f64>().ok());
        number.is_some_and(f64::is_finite)
    };
    result
        .iter()
        .any(|series| match series["values"].as_array() {
            Some(values) => values.iter().any(finite),
            None => finite(&series["value"]),
        })
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(b).to_string()
            }
            _ => format!("%{b:02X}"),
        })
        .collect()
}
