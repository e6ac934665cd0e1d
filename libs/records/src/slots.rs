//! Lists with one host a slot, as a list of hosts without repeats.

use std::collections::HashSet;

use crate::FieldError;
use crate::fields::{copy, unexpected};

/// Appends the hosts to `list`, each once, in the order of their first appearance, with commas
/// between. Returns their number.
///
/// # Errors
/// [`FieldError`] at `place` if a name is empty or could be read as several names.
pub(crate) fn distinct<'a>(
    place: &str,
    names: impl Iterator<Item = &'a [u8]>,
    list: &mut String,
) -> Result<u32, FieldError> {
    let mut hosts: Vec<&[u8]> = Vec::new();
    for name in names {
        // The slots of a host are usually adjacent.
        if hosts.last() == Some(&name) {
            continue;
        }
        let plain = |byte: &u8| byte.is_ascii_graphic() && !b"[],()\"".contains(byte);
        if name.is_empty() || !name.iter().all(plain) {
            return Err(unexpected(place, "names of hosts", name));
        }
        hosts.push(name);
    }
    if hosts.len() > 2 {
        let mut sorted = hosts.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() < hosts.len() {
            let mut seen = HashSet::with_capacity(sorted.len());
            hosts.retain(|host| seen.insert(*host));
        }
    }
    for (at, host) in hosts.iter().enumerate() {
        if at > 0 {
            list.push(',');
        }
        copy(list, host);
    }
    u32::try_from(hosts.len()).map_err(|_| unexpected(place, "fewer hosts", &[]))
}
