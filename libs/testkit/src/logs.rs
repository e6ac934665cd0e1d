//! Reading the logs of services. In tests these listen on port 0.

use std::net::SocketAddr;

/// The last address that a log of a service has in a field: `address` of the service, or `page` of
/// its page. An incomplete line does not count.
#[must_use]
pub fn logged_address(log: &str, field: &str) -> Option<SocketAddr> {
    let mark = format!(" {field}=");
    let (whole, _) = log.rsplit_once('\n')?;
    whole.lines().rev().find_map(|line| {
        let (_, value) = line.split_once(&mark)?;
        let value = value.trim_start_matches("http://");
        value.split(['/', ' ']).next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_counts() {
        let log = "t INFO a: listening service=\"x\" address=127.0.0.1:41\n\
                   t INFO a: listening service=\"x\" address=127.0.0.1:4100\n\
                   t INFO g: the operator's page page=http://127.0.0.1:42/\n\
                   t INFO a: listening service=\"x\" address=127.0.0.1:4";
        let port = |field| logged_address(log, field).map(|at| at.port());
        assert_eq!(port("address"), Some(4100));
        assert_eq!(port("page"), Some(42));
        assert_eq!(port("other"), None);
        assert_eq!(logged_address("", "address"), None);
    }
}
