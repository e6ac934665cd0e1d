//! How a program failed, and which of its workers did first.
//!
//! A fault in one worker ends the others, which lose their peer, and their programs may exit before
//! its own. So the failure of one that lost a peer comes after all that did not; of the rest the
//! first in time counts. Control compares the members of a group alike.

use std::collections::BTreeMap;

use lacuna_model::{Timestamp, Token};

use crate::tail::Failed;

/// Most letters of the words.
const WORDS: usize = 300;

/// What Gloo, NCCL, the store and torchrun say of a peer that has gone (lower case).
const LOST: [&str; 16] = [
    "closed by peer",
    "closed by remote peer",
    "reset by peer",
    "broken pipe",
    "connection refused",
    "connection was likely closed",
    "got 0 bytes",
    "socket timeout",
    "failed to connect to any network address",
    "operation to complete",
    "ncclremoteerror",
    "remote process exited",
    "collective operation timeout",
    "communicator was aborted",
    "nodes are here",
    "distnetworkerror",
];

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Failure {
    /// Whether it lost a peer, as it says.
    pub(super) lost_peer: bool,
    /// When it was, by the node's clock.
    pub(super) at: Timestamp,
    /// What it said.
    pub(super) words: String,
}

impl Failure {
    pub(super) fn new(at: Timestamp, words: &str) -> Self {
        let words = Token::hide_in(words);
        let lower = words.to_lowercase();
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            lost_peer: LOST.iter().any(|lost| lower.contains(lost)),
            at,
            words: words.chars().take(WORDS).collect(),
        }
    }

    /// The first failure among workers, each with its first words. Where none could name a cause, as
    /// under a shell, the last line of their output does.
    pub(super) fn first(failed: &[Failed], last: &str) -> Option<Self> {
        let mut by_rank = BTreeMap::new();
        for one in failed {
            by_rank.entry(one.rank).or_insert(one);
        }
        let is_told = last.is_empty() || by_rank.values().any(|one| !one.bare);
        let failures = by_rank.values().map(|one| {
            let at = Timestamp::from_unix_ms((one.t * 1000.0) as i64);
            Self::new(at, if is_told { &one.failed } else { last })
        });
        failures.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(rank: u32, t: f64, words: &str) -> Failed {
        Failed {
            t,
            rank,
            failed: words.to_owned(),
            bare: words.contains("exit code"),
        }
    }

    #[test]
    fn the_worker_that_lost_a_peer_is_not_the_first_that_failed() {
        let gone = "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer";
        let all = [
            failed(1, 10.5, gone),
            failed(0, 10.9, "ValueError: the table\nhas no row"),
            failed(2, 10.95, "KeyError: 7"),
            // torchrun's word of a worker that has told already.
            failed(0, 10.0, "worker 0 ended with exit code 1"),
        ];
        let last = "RuntimeError: Connection reset by peer";
        let first = Failure::first(&all, last).unwrap();
        assert_eq!(first.words, "ValueError: the table has no row");
        assert_eq!((first.at.unix_ms(), first.lost_peer), (10_900, false));
        assert!(Failure::first(&all[..1], "").unwrap().lost_peer);
        let bare = Failure::first(&all[3..], last).unwrap();
        assert_eq!((bare.words.as_str(), bare.lost_peer), (last, true));
        // One that left no word is known to the second.
        let killed = [failed(1, 10.5, gone), failed(0, 11.0, "by signal 9")];
        let first = Failure::first(&killed, last).unwrap();
        assert_eq!(
            (first.words.as_str(), first.lost_peer),
            ("by signal 9", false)
        );
        assert_eq!(Failure::first(&[], last), None);
    }

    #[test]
    fn what_backends_say_of_a_lost_peer_is_known() {
        let at = Timestamp::from_unix(1);
        for words in [
            "RuntimeError: [enforce fail] Read error [127.0.0.1]:1: Connection reset by peer",
            "RuntimeError: [unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
            "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
            "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
            "BrokenPipeError: [Errno 32] Broken pipe",
            "RendezvousTimeoutError: not all 2 nodes are here: timeout",
        ] {
            assert!(Failure::new(at, words).lost_peer, "{words}");
        }
        for words in [
            "torch.distributed.DistBackendError: NCCL error: unhandled cuda error",
            "torch.cuda.OutOfMemoryError: CUDA out of memory",
            "OSError: [Errno 28] No space left on device",
            "worker 0 ended by signal 9 (SIGKILL)",
            "",
        ] {
            assert!(!Failure::new(at, words).lost_peer, "{words}");
        }
    }
}
