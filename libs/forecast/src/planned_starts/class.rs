//! Classes of announced ends: the kind, and how far ahead the end is announced (the lead).

use super::announced_end::EndKind;

/// Upper bounds of the leads, seconds. A lead beyond the last bound is one of its own.
const LEADS_S: [f64; 4] = [60.0, 300.0, 900.0, 3600.0];

/// The number of leads: one for each bound, one beyond the last, and one for overdue ends.
pub(super) const LEADS: usize = LEADS_S.len() + 2;

/// The lead of an overdue end: its hole is open after a time that was announced.
pub(super) const OVERDUE: usize = LEADS - 1;

/// The number of classes: the leads of planned starts, then those of reservations.
pub(super) const CLASSES: usize = 2 * LEADS;

/// The first class of a kind.
pub(super) const fn first(kind: EndKind) -> usize {
    match kind {
        EndKind::PlannedStart => 0,
        EndKind::Reservation => LEADS,
    }
}

/// The class of an end that is announced `lead_s` seconds ahead, for a hole that may be overdue.
pub(super) fn class(kind: EndKind, lead_s: f64, is_overdue: bool) -> usize {
    // A plan that moved by hours is judged like any other plan of its lead.
    let lead = if is_overdue && lead_s <= LEADS_S[0] {
        OVERDUE
    } else {
        let within = LEADS_S.iter().position(|&most| lead_s <= most);
        within.unwrap_or(LEADS_S.len())
    };
    lead + first(kind)
}
