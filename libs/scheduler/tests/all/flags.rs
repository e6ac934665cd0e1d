//! State words of Slurm, in every notation.

use lacuna_scheduler::slurm::{Base, NodeFlags};

/// Meaning of a state of a node without jobs: `hole`, `taken`, `planned`, or why it is unusable.
fn meaning(text: &str) -> &'static str {
    let flags = NodeFlags::parse(text);
    match flags.unusable() {
        Some(why) => why,
        None if flags.base != Base::Idle => "taken",
        None if flags.completing || flags.reserved || flags.planned => "planned",
        None => "hole",
    }
}

#[test]
fn every_notation_of_a_state_means_the_same() {
    // Complete (22.05 to 25.05), long (`%T`) and compact (`%t`) notation.
    for (meant, words) in [
        (
            "hole",
            "IDLE idle IDLE+CLOUD idle+dynamic_norm IDLE+CLOUD+DYNAMIC_NORM",
        ),
        (
            "taken",
            "ALLOCATED alloc mix MIXED allocated+planned mix- MIXED+PLANNED alloc+ ALLOCATED+COMPLETING",
        ),
        (
            "planned",
            "plnd PLANNED idle- IDLE+PLANNED comp COMPLETING IDLE+COMPLETING resv RESERVED IDLE+RESERVED",
        ),
        (
            "drained",
            "drain drained drng DRAINING IDLE+DRAIN MIXED+DRAIN ALLOCATED+DRAIN idle+drain drain*",
        ),
        (
            "not responding",
            "idle* alloc* mix* down* IDLE+NOT_RESPONDING DOWN+NOT_RESPONDING unk*",
        ),
        (
            "powered down or changing power",
            "idle~ idle# idle% idle! IDLE+CLOUD+POWERED_DOWN IDLE+POWERING_UP alloc# mix# POWERED_DOWN POW_UP drain~ IDLE+POWER_DOWN powring_dn idle+powering_down",
        ),
        (
            "to be rebooted",
            "boot boot^ reboot idle@ idle^ alloc@ mix^ IDLE+REBOOT_ISSUED drng@ IDLE+REBOOT_REQUESTED",
        ),
        (
            "in maintenance",
            "maint MAINT idle$ alloc$ IDLE+MAINTENANCE drain$",
        ),
        ("failing", "fail failg FAILING IDLE+FAIL"),
        (
            "blocked",
            "inval INVAL IDLE+INVALID_REG npc PERFCTRS IDLE+BLOCKED IDLE+EXTERNAL",
        ),
        ("not known yet", "unknown UNKNOWN unk"),
        ("down", "down DOWN error futr FUTURE DOWN+CLOUD"),
    ] {
        for word in words.split(' ') {
            assert_eq!(meaning(word), meant, "{word}");
        }
    }
}

#[test]
fn a_node_is_unclear_if_silence_is_its_only_obstacle() {
    for text in [
        "idle*",
        "alloc*",
        "mix*",
        "unknown",
        "UNK*",
        "IDLE+NOT_RESPONDING",
        "mixed+planned+not_responding",
    ] {
        let flags = NodeFlags::parse(text);
        assert!(flags.is_unclear() && flags.unusable().is_some(), "{text}");
        assert_eq!(flags.heard().unusable(), None, "{text}");
    }
    for text in [
        "idle",
        "down*",
        "down",
        "drain*",
        "idle~",
        "IDLE+DRAIN+NOT_RESPONDING",
        "maint*",
        "?*",
    ] {
        assert!(!NodeFlags::parse(text).is_unclear(), "{text}");
    }
}

#[test]
fn a_node_in_an_unknown_state_is_no_hole() {
    for text in [
        "",
        "?",
        "idle+quarantined",
        "IDLE+ALLOCATED",
        "sleepy",
        "idle=",
        "+",
        "CLOUD",
        "idle&",
    ] {
        assert_eq!(meaning(text), "in a state that is not known", "{text:?}");
    }
}

#[test]
fn a_list_of_words_is_read_as_one_state() {
    assert_eq!(
        NodeFlags::of_words(["IDLE", "DRAIN"]),
        NodeFlags::parse("IDLE+DRAIN")
    );
    assert_eq!(NodeFlags::of_words(["IDLE"]), NodeFlags::parse("idle"));
    assert!(NodeFlags::of_words([]).strange);
    assert_eq!(
        NodeFlags::parse("alloc*+").to_string(),
        "allocated+completing+not responding"
    );
}
