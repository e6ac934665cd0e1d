//! What a pattern is, and where patterns come from.

/// A pattern of a trainer with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Whose.
    pub trainer: u32,
    /// Nodes taken of each class more than the trainer holds now (negative: given back), by the
    /// place of the class; classes ascending, none twice, none with 0.
    pub take: Vec<(u32, i32)>,
    /// What it is worth, objective units: exact, all charges taken off.
    pub value: f64,
    /// The caller's mark, to know the pattern by.
    pub tag: u64,
}

impl Column {
    /// What is left of the value when the nodes are paid for.
    #[must_use]
    pub fn reduced(&self, price: &[f64]) -> f64 {
        let paid: f64 = self
            .take
            .iter()
            .filter_map(|&(k, n)| Some(price.get(k as usize)? * f64::from(n)))
            .sum();
        self.value - paid
    }

    /// Whether so many free nodes of each class are enough for it.
    #[must_use]
    pub fn fits(&self, free: &[i64]) -> bool {
        self.take
            .iter()
            .all(|&(k, n)| n <= 0 || free.get(k as usize).is_some_and(|&f| i64::from(n) <= f))
    }

    /// Takes its nodes off what is free.
    pub(crate) fn charge(&self, free: &mut [i64]) {
        for &(k, n) in &self.take {
            if let Some(free) = free.get_mut(k as usize) {
                *free = free.saturating_sub(i64::from(n));
            }
        }
    }

    /// Puts its nodes back to what is free.
    pub(crate) fn refund(&self, free: &mut [i64]) {
        for &(k, n) in &self.take {
            if let Some(free) = free.get_mut(k as usize) {
                *free = free.saturating_add(i64::from(n));
            }
        }
    }
}

/// The patterns of all trainers, priced when asked.
pub trait Patterns {
    /// How many trainers there are.
    fn trainers(&self) -> usize;

    /// A trainer that has just the patterns of trainer `j`, each worth the same to both; the same
    /// one for all that are alike, and the first of them. Itself if there is none.
    fn like(&self, j: usize) -> usize {
        j
    }

    /// The pattern of trainer `j` that changes nothing: it takes nothing.
    fn keep(&mut self, j: usize) -> Column;

    /// How much a node of class k is worth beside one of another class, by guess: a search for
    /// prices begins there.
    fn weight(&self, k: usize) -> f64 {
        let _ = k;
        1.0
    }

    /// Adds to `out` the pattern of trainer `j` with the largest [`Column::reduced`] at prices
    /// `price[k] >= 0` for a node of class k, and others worth having. Values are exact.
    fn price(&mut self, j: usize, price: &[f64], out: &mut Vec<Column>);

    /// Adds to `out` the pattern of trainer `j` with the largest reduced value among those that
    /// [`fit`](Column::fits) into `free`, if it knows one. It may know more patterns than
    /// [`Patterns::price`] does, such as runs over what others have left.
    fn fit(&mut self, j: usize, free: &[i64], price: &[f64], out: &mut Vec<Column>) {
        let _ = (j, free, price, out);
    }

    /// Adds to `out` patterns of trainer `j` whose reduced value is at least `floor`, the best
    /// `most` or so: what an answer can be made of that is better than one at hand.
    fn near(&mut self, j: usize, price: &[f64], floor: f64, most: usize, out: &mut Vec<Column>) {
        let _ = (j, price, floor, most, out);
    }

    /// Whether [`Patterns::price`] always finds the best of all patterns. If not, no bound is
    /// claimed.
    fn is_exact(&self) -> bool {
        true
    }
}
