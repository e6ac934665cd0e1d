//! Lists of hosts in Slurm's notation: `n[1-4,7],login`.
//!
//! Source: Slurm's `hostlist`, as `scontrol show hostnames` expands it. Names are separated by
//! commas. Each has any number of bracketed sets of numbers and ranges, and the last set varies
//! fastest. Numbers are padded with zeros to the width of the first number of the range.

use crate::FieldError;

/// Largest number of hosts of a list.
const MOST: u64 = 1_000_000;

/// Largest number of brackets of a name; Slurm has at most eight dimensions.
const DEEPEST: usize = 16;

/// Words of `sacct` and `squeue` for an empty list.
const NONE: [&str; 4] = ["None assigned", "(null)", "None", "n/a"];

/// Calls `each` with every host of a list, in order; never for `None assigned` or an empty list.
/// The whole list is checked before the first call.
///
/// # Errors
/// [`FieldError`] if a bracket is not closed, a range decreases, or the list has more than a
/// million hosts.
pub fn expand(list: &str, each: &mut dyn FnMut(&str)) -> Result<(), FieldError> {
    let list = meant(list);
    if !list.contains(['[', ']']) {
        for name in list.split(',').filter(|name| !name.is_empty()) {
            each(name.trim_ascii());
        }
        return Ok(());
    }
    count(list)?;
    let mut host = String::with_capacity(64);
    let mut rest = list;
    while let Some(name) = next_name(&mut rest) {
        product(&mut host, name, each);
    }
    Ok(())
}

/// Number of hosts of a list.
///
/// # Errors
/// As [`expand`].
pub fn count(list: &str) -> Result<u32, FieldError> {
    let total = size(list)?;
    if total > MOST {
        return Err(refused(list));
    }
    // The count is at most a million.
    Ok(u32::try_from(total).unwrap_or(u32::MAX))
}

/// Number of hosts of a list, without a limit.
///
/// # Errors
/// [`FieldError`] if a bracket is not closed, a range decreases, or the number exceeds 64 bits.
pub fn size(list: &str) -> Result<u64, FieldError> {
    let mut rest = meant(list);
    let mut total = 0_u64;
    while let Some(name) = next_name(&mut rest) {
        total = name_count(name)
            .and_then(|hosts| total.checked_add(hosts))
            .ok_or_else(|| refused(list))?;
    }
    Ok(total)
}

fn refused(list: &str) -> FieldError {
    FieldError::new(
        "host list",
        "names with closed brackets of numbers and rising ranges (n[1-4,7]), at most a million \
         hosts",
        format!("{list:?}"),
    )
}

/// The list without white space around it; empty for words that mean no host.
fn meant(list: &str) -> &str {
    let list = list.trim_ascii();
    if NONE.contains(&list) { "" } else { list }
}

/// Cuts the next non-empty name off a list, up to a comma outside brackets.
fn next_name<'a>(rest: &mut &'a str) -> Option<&'a str> {
    while !rest.is_empty() {
        let mut inside = false;
        let end = rest.bytes().position(|byte| {
            match byte {
                b'[' => inside = true,
                b']' => inside = false,
                _ => {}
            }
            byte == b',' && !inside
        });
        let (name, after) = match end.and_then(|at| rest.split_at_checked(at)) {
            Some((name, after)) => (name, after.get(1..).unwrap_or("")),
            None => (*rest, ""),
        };
        *rest = after;
        let name = name.trim_ascii();
        if !name.is_empty() {
            return Some(name);
        }
    }
    None
}

/// Texts before, inside and behind the first bracket; `None` without a bracket.
fn bracket(name: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = name.split_once('[')?;
    let (inside, after) = rest.split_once(']')?;
    Some((before, inside, after))
}

/// Number, number and width of `7` or `08-12`.
fn range(item: &str) -> Option<(u64, u64, usize)> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let (from, to) = (number(first)?, number(last)?);
    (from <= to && first.len() <= 20).then_some((from, to, first.len()))
}

/// Number of hosts of one name; `None` if the name is not well formed.
fn name_count(name: &str) -> Option<u64> {
    let mut total = 1_u64;
    let mut rest = name;
    for _ in 0..=DEEPEST {
        let Some((before, inside, after)) = bracket(rest) else {
            return (!rest.contains(['[', ']'])).then_some(total);
        };
        if before.contains(']') || inside.contains('[') {
            return None;
        }
        let mut here = 0_u64;
        for item in inside.split(',') {
            let (from, to, _) = range(item)?;
            here = here.checked_add(to.checked_sub(from)?.checked_add(1)?)?;
        }
        total = total.checked_mul(here)?;
        rest = after;
    }
    None
}

/// Calls `each` with every host of a name, which [`name_count`] has found well formed. Each host is
/// appended to the present content of `host`.
fn product(host: &mut String, name: &str, each: &mut dyn FnMut(&str)) {
    let kept = host.len();
    let Some((before, inside, after)) = bracket(name) else {
        host.push_str(name);
        each(host);
        host.truncate(kept);
        return;
    };
    host.push_str(before);
    let stem = host.len();
    let is_last = !after.contains('[');
    for (from, to, width) in inside.split(',').filter_map(range) {
        for number in from..=to {
            push_number(host, number, width);
            if is_last {
                host.push_str(after);
                each(host);
            } else {
                product(host, after, each);
            }
            host.truncate(stem);
        }
    }
    host.truncate(kept);
}

/// Writes a number with leading zeros. A job on a whole machine has thousands of hosts, and
/// `write!` takes several times as long.
fn push_number(host: &mut String, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    let from = digits.len().saturating_sub(used.max(width));
    let written = digits.get(from..).unwrap_or(&[]);
    host.push_str(std::str::from_utf8(written).unwrap_or(""));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(list: &str) -> Vec<String> {
        let mut hosts = Vec::new();
        expand(list, &mut |host| hosts.push(host.to_owned())).unwrap();
        assert_eq!(count(list).unwrap() as usize, hosts.len(), "{list}");
        hosts
    }

    #[test]
    fn lists_expand_as_scontrol_expands_them() {
        for (list, expected) in [
            ("n1", "n1"),
            ("n[1-4,7],login", "n1 n2 n3 n4 n7 login"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[8-11]", "n8 n9 n10 n11"),
            ("n[098-101,1]x", "n098x n099x n100x n101x n1x"),
            ("r[0-1]n[00-02]", "r0n00 r0n01 r0n02 r1n00 r1n01 r1n02"),
            (
                "cpn-f15-[27,30],cpn-p26-42",
                "cpn-f15-27 cpn-f15-30 cpn-p26-42",
            ),
            ("a,,b, c ,", "a b c"),
            ("a[1-2], b[3]", "a1 a2 b3"),
            ("[1-2]n", "1n 2n"),
            ("n[18446744073709551615]", "n18446744073709551615"),
            ("", ""),
            ("None assigned", ""),
            ("(null)", ""),
        ] {
            assert_eq!(all(list).join(" "), expected, "{list}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_refused_whole() {
        for list in [
            "n[1-4",
            "n1-4]",
            "n]1[",
            "n[4-1]",
            "n[]",
            "n[1,]",
            "n[a-b]",
            "n[1-2-3]",
            "n[-1]",
            "n[[1]]",
            "a,n[1",
            "n[0-1000000]",
            "n[1-1000][1-1001]",
            "n[1-600000],m[1-600000]",
            "n[0-18446744073709551615]",
            "n[18446744073709551616]",
            "n[1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1]",
        ] {
            let mut handed_out = 0;
            let error = expand(list, &mut |_| handed_out += 1).unwrap_err();
            assert_eq!(handed_out, 0, "{list}");
            assert_eq!(error.place, "host list");
            assert!(count(list).is_err(), "{list}");
        }
        assert_eq!(count("n[1-1000][1-1000]").unwrap(), 1_000_000);
        assert_eq!(size("n[1-99999999],m").unwrap(), 100_000_000);
        assert!(size("n[0-18446744073709551615]").is_err());
    }
}
