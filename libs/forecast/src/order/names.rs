//! Order and blocks from the names of nodes.

use std::cmp::Ordering;

/// Compares names in natural order: digits in a row count as a number, so `n9` comes before `n10`,
/// and all else compares as text. Names that differ only in leading zeros compare as text, so that
/// the order is total.
#[must_use]
pub fn natural_cmp(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    loop {
        match (left.first(), right.first()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (number, rest) = number(left);
                let (other, other_rest) = self::number(right);
                // Without leading zeros, the longer number is the greater one.
                let order = number.len().cmp(&other.len()).then(number.cmp(other));
                if order != Ordering::Equal {
                    return order;
                }
                (left, right) = (rest, other_rest);
            }
            (Some(x), Some(y)) => {
                if x != y {
                    return x.cmp(y);
                }
                left = left.get(1..).unwrap_or_default();
                right = right.get(1..).unwrap_or_default();
            }
        }
    }
}

/// The leading run of digits without its zeros, and what follows the run.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (run, rest) = text.split_at(digits);
    let zeros = run.iter().take_while(|&&byte| byte == b'0').count();
    (run.get(zeros..).unwrap_or_default(), rest)
}

/// The block (cabinet, chassis, rack) of a node: its name up to the last run of digits before
/// the first dot. `h50n16` and `h50n02` share the block `h50n`. A machine whose names have one
/// number only, such as `nid00012`, is one block.
#[must_use]
pub fn block_of(name: &str) -> &str {
    let host = name.split('.').next().unwrap_or(name);
    let until = host.trim_end_matches(|c: char| !c.is_ascii_digit());
    until.trim_end_matches(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_compare_as_numbers() {
        let mut names = vec!["n10", "n9", "a36n02", "a36n1", "n009", "b", "n", "a4n7"];
        names.sort_by(|a, b| natural_cmp(a, b));
        assert_eq!(
            names,
            ["a4n7", "a36n1", "a36n02", "b", "n", "n009", "n9", "n10"]
        );
        assert_eq!(natural_cmp("x7", "x7"), Ordering::Equal);
        assert_eq!(
            natural_cmp("n99999999999999999999998", "n99999999999999999999999"),
            Ordering::Less
        );
    }

    #[test]
    fn a_block_is_the_name_without_its_last_number() {
        assert_eq!(block_of("h50n16"), "h50n");
        assert_eq!(block_of("x1000c0s3b0n1"), "x1000c0s3b0n");
        assert_eq!(block_of("node07-ib"), "node");
        assert_eq!(block_of("r1n2.cluster5.example"), "r1n");
        assert_eq!(block_of("p2165"), "p");
        assert_eq!(block_of("login"), "");
    }
}
