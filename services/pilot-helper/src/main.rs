//! `lacuna-pilot-helper --config FILE`: submits and cancels pilots under the accounts of owners who
//! have signed for them. It is the only part of Lacuna with the rights of root on the scheduler's
//! host, so it is small: no bus, no runtime, one request and one answer.
//!
//! The request is a JSON object on the standard input:
//!
//! | Request | |
//! |---|---|
//! | `{"do":"submit","ticket":{"ticket","signature"},"node","minutes"}` | one pilot on this node, for so long at most; prints what the scheduler's command prints |
//! | `{"do":"cancel","owner","jobs":["12"],"pending_only":false}` | cancels pilots of this owner, and no other jobs |
//! | `{"do":"end","ticket":{...}}` | the trainer is over: its ticket is refused from now on |
//!
//! The exit code is 77 for a refusal, 65 for a request that makes no sense, 78 for a configuration
//! that cannot be used, 70 if the helper fails, and else that of the scheduler's command.

mod book;
mod command;
mod config;
mod exposition;
mod helper;
mod keys;
mod refusal;
mod request;

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use lacuna_model::Timestamp;
use nix::time::{ClockId, clock_gettime};

use config::Config;
use helper::{Failed, Helper};
use request::Request;

/// Longest request, in bytes.
const REQUEST: u64 = 64 << 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [option, file] = arguments.as_slice() else {
        return ended(64, "usage: lacuna-pilot-helper --config FILE <REQUEST");
    };
    if option != "--config" {
        return ended(64, "usage: lacuna-pilot-helper --config FILE <REQUEST");
    }
    let config = match Config::load(Path::new(file)) {
        Ok(config) => config,
        Err(error) => return ended(78, &error.to_string()),
    };
    let mut text = String::new();
    let read = io::stdin().lock().take(REQUEST).read_to_string(&mut text);
    let request = read.map_err(|error| error.to_string());
    let request = request.and_then(|_| Request::read(&text));
    let request = match request {
        Ok(request) => request,
        Err(error) => return ended(65, &format!("the request makes no sense: {error}")),
    };
    let Ok(now) = clock_gettime(ClockId::CLOCK_REALTIME) else {
        return ended(70, "the time is not known");
    };
    // Whole seconds would let a ticket live up to a second after its end.
    let now = Timestamp::from_unix_ms(now.tv_sec() * 1000 + now.tv_nsec() / 1_000_000);
    let answer = Helper::open(config).and_then(|mut helper| helper.answer(&request, now));
    match answer {
        Ok(output) => {
            let _ = io::stdout().write_all(output.stdout.as_bytes());
            let _ = io::stderr().write_all(output.stderr.as_bytes());
            let code = output.code.and_then(|code| u8::try_from(code).ok());
            ExitCode::from(code.unwrap_or(70))
        }
        // Control reads these words as those of a scheduler.
        Err(Failed::Refused(refusal)) => ended(77, &format!("permission denied: {refusal}")),
        Err(error @ Failed::Io(_)) => ended(70, &error.to_string()),
    }
}

fn ended(code: u8, text: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "lacuna-pilot-helper: {text}");
    ExitCode::from(code)
}
