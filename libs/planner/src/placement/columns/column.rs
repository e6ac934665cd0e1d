//! Columns, and the pricing problem that generates them.

/// A pattern of a trainer with its value: a column of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The trainer.
    pub trainer: u32,
    /// Nodes taken of each class beyond the present ones (negative: given back), by the place of
    /// the class; classes ascending, none twice, none with 0.
    pub take: Vec<(u32, i32)>,
    /// Its exact value less the switching cost, objective units.
    pub value: f64,
    /// The caller's mark, which identifies the pattern.
    pub tag: u64,
}

impl Column {
    /// The reduced value: the value less the price of the nodes.
    #[must_use]
    pub fn reduced(&self, price: &[f64]) -> f64 {
        let paid: f64 = self
            .take
            .iter()
            .filter_map(|&(k, n)| Some(price.get(k as usize)? * f64::from(n)))
            .sum();
        self.value - paid
    }

    /// Whether the free nodes of each class are enough for it.
    #[must_use]
    pub fn fits(&self, free: &[i64]) -> bool {
        self.take
            .iter()
            .all(|&(k, n)| n <= 0 || free.get(k as usize).is_some_and(|&f| i64::from(n) <= f))
    }

    /// Subtracts its nodes from the free ones.
    pub(crate) fn reserve(&self, free: &mut [i64]) {
        for &(k, n) in &self.take {
            if let Some(free) = free.get_mut(k as usize) {
                *free = free.saturating_sub(i64::from(n));
            }
        }
    }

    /// Adds its nodes to the free ones.
    pub(crate) fn release(&self, free: &mut [i64]) {
        for &(k, n) in &self.take {
            if let Some(free) = free.get_mut(k as usize) {
                *free = free.saturating_add(i64::from(n));
            }
        }
    }
}

/// The pricing problem: the patterns of all trainers, found at given prices.
pub trait Pricing {
    /// Number of trainers.
    fn trainers(&self) -> usize;

    /// The first trainer with exactly the patterns and values of trainer `j`: `j` itself if no
    /// earlier one is equal.
    fn representative(&self, j: usize) -> usize {
        j
    }

    /// The pattern by which trainer `j` keeps its nodes.
    fn keep(&mut self, j: usize) -> Column;

    /// Estimated value of a node of class k relative to other classes, from which the search for
    /// prices begins.
    fn weight(&self, k: usize) -> f64 {
        let _ = k;
        1.0
    }

    /// Adds to `out` the pattern of trainer `j` with the largest [`Column::reduced`] at prices
    /// `price[k] >= 0` for a node of class k, and further good ones. Values are exact.
    fn price(&mut self, j: usize, price: &[f64], out: &mut Vec<Column>);

    /// Adds to `out` the pattern of trainer `j` with the largest reduced value among those that
    /// [`fit`](Column::fits) into `free`, if there is one. Patterns beyond those of
    /// [`Pricing::price`] may count too, such as intervals over the nodes that others have left.
    fn fit(&mut self, j: usize, free: &[i64], price: &[f64], out: &mut Vec<Column>) {
        let _ = (j, free, price, out);
    }

    /// Adds to `out` about `most` of the best patterns of trainer `j` with a reduced value of at
    /// least `floor`: those that can be part of a better answer.
    fn near(&mut self, j: usize, price: &[f64], floor: f64, most: usize, out: &mut Vec<Column>) {
        let _ = (j, price, floor, most, out);
    }
}
