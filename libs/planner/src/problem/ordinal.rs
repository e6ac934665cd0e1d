//! Typed ordinals, and lists with one entry for each.
//!
//! Holes, slots and places are all small numbers. [`At`] has the kind of its ordinal, and [`Per`]
//! is a list by ordinals of one kind. [`Per::get`] is the only access: an ordinal outside its list
//! is a bug of this crate, and never yields a value.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use lacuna_model::Doubt;

/// The kind of things that an ordinal counts.
pub(crate) trait Kind: Copy + Ord + fmt::Debug {
    /// The name in error texts.
    const NAME: &'static str;
}

/// Declares kinds.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $kind {}

        impl Kind for $kind {
            const NAME: &'static str = $name;
        }
    )*};
}

kinds! {
    /// A candidate of a situation.
    Candidate: "candidate";
    /// A slot of a situation.
    Slot: "slot";
    /// A hole of a pool.
    Hole: "hole";
    /// A hole of a list that is to be ordered.
    Listed: "listed hole";
    /// A place in the departure order.
    Place: "place in the departure order";
    /// A participant: a candidate that a decision by forecasts can change.
    Participant: "participant";
}

/// The ordinal of a `K`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At<K>(u32, PhantomData<K>);

impl<K> At<K> {
    pub(crate) const fn new(ordinal: u32) -> Self {
        Self(ordinal, PhantomData)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

/// A list with one entry for each `K`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Per<K, L>(pub(crate) L, PhantomData<K>);

impl<K: Kind, T, L: Deref<Target = [T]>> Per<K, L> {
    pub(crate) const fn new(list: L) -> Self {
        Self(list, PhantomData)
    }

    /// The entry of an ordinal.
    ///
    /// # Errors
    /// [`Misplaced`] if the list has none, which is a bug.
    pub(crate) fn get(&self, at: At<K>) -> Result<&T, Misplaced> {
        let entry = self.0.get(at.0 as usize);
        entry.ok_or_else(|| self.misplaced(at))
    }

    /// The entry of an ordinal, mutable.
    ///
    /// # Errors
    /// As [`Per::get`].
    pub(crate) fn get_mut(&mut self, at: At<K>) -> Result<&mut T, Misplaced>
    where
        L: DerefMut,
    {
        let misplaced = self.misplaced(at);
        self.0.get_mut(at.0 as usize).ok_or(misplaced)
    }

    /// The entries with their ordinals.
    pub(crate) fn iter<'a>(&'a self) -> impl Iterator<Item = (At<K>, &'a T)>
    where
        T: 'a,
    {
        (0..).map(At::new).zip(self.0.iter())
    }

    fn misplaced(&self, at: At<K>) -> Misplaced {
        Misplaced {
            kind: K::NAME,
            at: at.0,
            count: self.0.len(),
        }
    }
}

/// An ordinal outside its list: a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Misplaced {
    kind: &'static str,
    at: u32,
    count: usize,
}

impl From<Misplaced> for Doubt {
    fn from(Misplaced { kind, at, count }: Misplaced) -> Self {
        Self::Internal {
            what: format!("there is no {kind} {at} among {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinal_beyond_its_list_is_an_error() {
        let mut list: Per<Hole, Vec<f64>> = Per::new(vec![1.0, 2.0]);
        *list.get_mut(At::new(1)).unwrap() = 3.0;
        assert_eq!(list.get(At::new(1)), Ok(&3.0));
        let error = list.get(At::new(2)).unwrap_err();
        assert_eq!(list.get_mut(At::new(2)).unwrap_err(), error);
        let what = "there is no hole 2 among 2".to_owned();
        assert_eq!(Doubt::from(error), Doubt::Internal { what });
    }
}
