//! The numbers of events. An ingest takes over with a snapshot, whose number is greater than all
//! before it. Consumers ignore what its predecessor still sends, since that has smaller numbers. So
//! events of a predecessor may be heard at any time, its first one too.

use std::collections::BTreeMap;

/// The events and snapshots of all instances of ingest.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The sender and content of each number.
    events: BTreeMap<u64, (String, String)>,
    /// The number of each instance's first snapshot.
    begun: BTreeMap<String, u64>,
}

impl Numbers {
    /// A snapshot of an instance was heard.
    pub(super) fn snapshot(&mut self, sender: &str, seq: u64) -> Option<String> {
        if self.begun.contains_key(sender) {
            return None;
        }
        let mut others = self.events.iter().rev();
        let event = others.find(|(_, (who, _))| who != sender);
        let newest = self.begun.values().chain(event.map(|(number, _)| number));
        let newest = newest.copied().max().unwrap_or_default();
        self.begun.insert(sender.to_owned(), seq);
        let again = newest > 0 && seq <= newest;
        again.then(|| format!("a new sender begins with number {seq} after {newest}"))
    }

    /// An event of an instance was heard.
    pub(super) fn event(&mut self, sender: &str, seq: u64, what: &str) -> Option<String> {
        let own = (sender.to_owned(), what.to_owned());
        let known = self.events.entry(seq).or_insert_with(|| own.clone());
        if *known != own {
            return Some(format!("event {seq} is {:?} and {what:?}", known.1));
        }
        let begun = self.begun.get(sender)?;
        let successor = self.begun.values().filter(|other| *other > begun).min()?;
        let overtaken = seq >= *successor;
        overtaken.then(|| format!("event {seq} is of a sender that {successor} has overtaken"))
    }
}
