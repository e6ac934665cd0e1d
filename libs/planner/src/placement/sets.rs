//! The node sets of trainers, by places.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; every index was counted in this file"
)]

/// The places of the nodes of each of some trainers, in order.
#[derive(Debug)]
pub(crate) struct Sets {
    /// All sets, one after the other.
    places: Vec<usize>,
    /// Where each set ends.
    ends: Vec<usize>,
}

impl Sets {
    /// The sets of the first `trainers` trainers. `owners` has the trainer of each place.
    pub(crate) fn new(owners: &[Option<u32>], trainers: usize) -> Self {
        let owned = owners.iter().enumerate();
        let owned = owned.filter_map(|(place, owner)| Some((place, (*owner)? as usize)));
        let owned = owned.filter(|(_, j)| *j < trainers);
        let mut ends = vec![0; trainers];
        for (_, j) in owned.clone() {
            ends[j] += 1;
        }
        // Where each set begins, and so where it ends after it is filled.
        let mut from = 0;
        for end in &mut ends {
            from += std::mem::replace(end, from);
        }
        let mut places = vec![0; from];
        for (place, j) in owned {
            places[ends[j]] = place;
            ends[j] += 1;
        }
        Self { places, ends }
    }

    /// The sets in the order of the trainers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[usize]> {
        let from = std::iter::once(0).chain(self.ends.iter().copied());
        let sets = from.zip(&self.ends);
        sets.map(|(from, end)| &self.places[from..*end])
    }

    /// The set of a trainer; empty without such a trainer.
    pub(crate) fn of(&self, j: usize) -> &[usize] {
        self.iter().nth(j).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trainer_has_its_places_in_order() {
        let owners = [Some(2), None, Some(0), Some(2), Some(3), Some(0)];
        let sets = Sets::new(&owners, 3);
        let all: Vec<&[usize]> = sets.iter().collect();
        assert_eq!(all, [&[2, 5][..], &[], &[0, 3]]);
        assert_eq!((sets.of(2), sets.of(3)), (&[0, 3][..], &[][..]));
        assert_eq!(Sets::new(&owners, 0).iter().count(), 0);
    }
}
