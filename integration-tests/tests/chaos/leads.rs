//! Who leads each service. A former leader sends nothing more, and no leader renews a lease that
//! another control has changed.

use std::collections::{BTreeMap, BTreeSet};

/// A control ends this soon after another one has changed a lease, milliseconds.
const NOTICED_MS: i64 = 5000;

/// The newest write of a lease.
#[derive(Debug)]
struct Write {
    epoch: u64,
    sender: String,
    /// By the server's clock, milliseconds.
    kept: i64,
}

/// The leaderships of all services.
#[derive(Debug, Default)]
pub(super) struct Leads {
    /// By service: all instances that have led it, in their order, and since when (milliseconds, by
    /// the server's clock).
    by_service: BTreeMap<String, Vec<(String, i64)>>,
    /// Instances whose lead was taken away by hand, and those that are blamed already.
    excused: BTreeSet<String>,
    leases: BTreeMap<String, Write>,
}

impl Leads {
    /// An instance has taken or renewed the lead of a service.
    pub(super) fn lead(&mut self, service: &str, instance: &str, kept: i64) {
        let leads = self.by_service.entry(service.to_owned()).or_default();
        match leads.iter().position(|(known, _)| known == instance) {
            // The server has lost the lead that followed.
            Some(place) => leads.truncate(place + 1),
            None => leads.push((instance.to_owned(), kept)),
        }
    }

    /// A person has taken the lead from an instance, which does not know it yet.
    pub(super) fn excuse(&mut self, instance: &str) {
        self.excused.insert(instance.to_owned());
    }

    /// An instance writes only while its lead is certain. `sent` is the moment of a message, by its
    /// sender's clock (milliseconds). What was sent before may arrive at any time.
    pub(super) fn sends(&mut self, sender: &str, sent: i64) -> Option<String> {
        let mut led = self.by_service.iter();
        let (service, next, late) = led.find_map(|(service, leads)| {
            let place = leads.iter().position(|(known, _)| known == sender)?;
            let (next, since) = leads.get(place + 1)?;
            (sent > *since).then_some((service, next, sent - since))
        })?;
        let text = format!("{service} {sender} still sends, {late} ms after {next} leads");
        self.excused.insert(sender.to_owned()).then_some(text)
    }

    /// A lease was written.
    pub(super) fn leased(&mut self, node: &str, epoch: u64, sender: &str, kept: i64) {
        let sender = sender.to_owned();
        let write = Write {
            epoch,
            sender,
            kept,
        };
        self.leases.insert(node.to_owned(), write);
    }

    /// A control renews a lease. One that does not know the newest lease of a node, since another
    /// control has written that one, must end.
    pub(super) fn renews(
        &mut self,
        sender: &str,
        sent: i64,
        node: &str,
        epoch: u64,
    ) -> Option<String> {
        let newest = self.leases.get_mut(node)?;
        let late = sent - newest.kept;
        if epoch >= newest.epoch || newest.sender == sender || late <= NOTICED_MS {
            return None;
        }
        let text = format!(
            "control {sender} renews lease {epoch} of {node}, {late} ms after {} wrote {}",
            newest.sender, newest.epoch
        );
        sender.clone_into(&mut newest.sender);
        Some(text)
    }
}
