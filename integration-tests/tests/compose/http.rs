//! Just enough HTTP to ask Prometheus.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The body of a GET on this machine; the status line with the body if it is not 200.
pub(super) fn get(port: u16, path: &str) -> Result<String, String> {
    get_with(port, path, "")
}

/// The same with further header lines, each ended by CR LF.
pub(super) fn get_with(port: u16, path: &str, headers: &str) -> Result<String, String> {
    let text = |e: std::io::Error| e.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(text)?;
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .map_err(text)?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n"
    )
    .map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(text)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP answer")?;
    let status = head.lines().next().unwrap_or_default();
    if status.contains(" 200") {
        Ok(body.to_owned())
    } else {
        Err(format!("{status}: {body}"))
    }
}

/// A query parameter.
pub(super) fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(b).to_string()
            }
            _ => format!("%{b:02X}"),
        })
        .collect()
}
