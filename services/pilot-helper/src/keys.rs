//! The public keys of owners. A key may have an end: `"UABC... until 2027-11-26T12:00:00Z"`.

use std::collections::BTreeMap;

use lacuna_model::{ClusterId, Timestamp};
use lacuna_owner::{Refused, Signed, Ticket};

use crate::refusal::Refusal;

/// Between a key and its end.
const UNTIL: &str = " until ";

/// The keys of each owner.
#[derive(Debug)]
pub(crate) struct Keys(BTreeMap<String, Vec<Key>>);

#[derive(Debug)]
struct Key {
    public: String,
    until: Option<Timestamp>,
}

impl Key {
    fn read(text: &str) -> Result<Self, String> {
        let (public, until) = match text.split_once(UNTIL) {
            None => (text, None),
            Some((public, until)) => (public, Some(end(until)?)),
        };
        Ok(Self {
            public: public.trim().to_owned(),
            until,
        })
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

fn end(text: &str) -> Result<Timestamp, String> {
    let end = text.trim().parse::<jiff::Timestamp>();
    end.map(|end| Timestamp::from_unix(end.as_second()))
        .map_err(|_| format!("{text:?} is no end of a key: write it as 2027-11-26T12:00:00Z"))
}

impl Keys {
    /// Reads the keys of each owner.
    ///
    /// # Errors
    /// A text that names the owner and what is wrong.
    pub(crate) fn read(raw: &BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        let of = |(owner, texts): (&String, &Vec<String>)| {
            let keys: Result<Vec<Key>, String> = texts.iter().map(|text| Key::read(text)).collect();
            keys.map(|keys| (owner.clone(), keys))
                .map_err(|reason| format!("the keys of {owner}: {reason}"))
        };
        raw.iter().map(of).collect::<Result<_, _>>().map(Self)
    }

    /// The ticket, if its owner has signed it for this cluster with a key that had not ended. The
    /// time of the ticket is not checked.
    ///
    /// # Errors
    /// [`Refusal::Ticket`] or [`Refusal::Ended`].
    pub(crate) fn open(
        &self,
        signed: &Signed,
        cluster: &ClusterId,
        now: Timestamp,
    ) -> Result<Ticket, Refusal> {
        let by = |ended: bool| {
            signed.open(
                |owner| self.of(owner, |key| key.has_ended(now) == ended),
                cluster,
            )
        };
        match by(false) {
            Err(Refused::Forged { owner }) if by(true).is_ok() => Err(Refusal::Ended(owner)),
            done => Ok(done?),
        }
    }

    /// The ticket, if its owner has signed it for this cluster with any key, ended ones included.
    ///
    /// # Errors
    /// [`Refusal::Ticket`].
    pub(crate) fn open_with_any(
        &self,
        signed: &Signed,
        cluster: &ClusterId,
    ) -> Result<Ticket, Refusal> {
        Ok(signed.open(|owner| self.of(owner, |_| true), cluster)?)
    }

    /// Owners all of whose keys have an end, with the last of them.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.0.iter().filter_map(|(owner, keys)| {
            let ends: Option<Vec<Timestamp>> = keys.iter().map(|key| key.until).collect();
            let last = ends?.into_iter().max()?;
            Some((owner.as_str(), last))
        })
    }

    fn of(&self, owner: &str, wanted: impl Fn(&Key) -> bool) -> Vec<String> {
        let keys = self.0.get(owner).into_iter().flatten();
        keys.filter(|key| wanted(key))
            .map(|key| key.public.clone())
            .collect()
    }
}
