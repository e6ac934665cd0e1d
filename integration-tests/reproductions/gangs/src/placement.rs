//! The GPUs of a gang.

use crate::fabric::{Shape, ShapeRule};
use crate::layout::Layout;

/// Which GPUs a gang has: machines in ascending order, each with a set of GPUs as bits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    parts: Vec<(u32, u64)>,
}

impl Placement {
    /// GPUs of one machine.
    pub(crate) fn on(machine: u32, gpus: u64) -> Self {
        Self {
            parts: vec![(machine, gpus)],
        }
    }

    /// GPUs of several machines, as bits, in any order; each machine comes once.
    #[must_use]
    pub fn of_parts(mut parts: Vec<(u32, u64)>) -> Self {
        parts.sort_unstable_by_key(|part| part.0);
        Self { parts }
    }

    /// Machines with their GPUs.
    pub fn parts(&self) -> impl Iterator<Item = (u32, u64)> {
        self.parts.iter().copied()
    }

    /// Number of GPUs.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.parts.iter().map(|(_, gpus)| gpus.count_ones()).sum()
    }

    /// Number of machines.
    #[must_use]
    pub fn machines(&self) -> usize {
        self.parts.len()
    }

    /// The racks with their machines' GPUs, in ascending order; a rack comes once.
    pub fn racks(&self, layout: Layout) -> impl Iterator<Item = u32> {
        let mut last = None;
        self.parts().filter_map(move |(machine, _)| {
            let rack = layout.rack_of(machine);
            (last.replace(rack) != Some(rack)).then_some(rack)
        })
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self, layout: Layout, rule: ShapeRule) -> Shape {
        match rule {
            ShapeRule::Coded => {
                let slots = self
                    .parts()
                    .map(|(_, gpus)| layout.slots_of(gpus).count() as u32);
                Shape::coded(
                    self.gpus(),
                    self.racks(layout).count() as u32,
                    self.machines() as u32,
                    slots.sum(),
                )
            }
            ShapeRule::True => self.largest(layout),
        }
    }

    /// The largest number of units within a unit of the next level.
    fn largest(&self, layout: Layout) -> Shape {
        let (mut fc, mut sl, mut p) = (1, 1, 1);
        for (_, gpus) in self.parts() {
            let slots = layout.slots_of(gpus);
            let (count, most) = slots.fold((0, 1), |(count, most), slot| {
                (count + 1, slot.count_ones().max(most))
            });
            (fc, sl) = (most.max(fc), count.max(sl));
        }
        let mut racks = 0;
        for rack in self.racks(layout) {
            let of_rack = |(machine, _): &(u32, u64)| layout.rack_of(*machine) == rack;
            p = (self.parts().filter(of_rack).count() as u32).max(p);
            racks += 1;
        }
        Shape {
            units: [fc, sl, p, racks.max(1)],
        }
    }
}

/// The lowest `count` of some GPUs.
pub(crate) fn lowest(gpus: u64, count: u32) -> u64 {
    let mut rest = gpus;
    for _ in 0..count {
        rest &= rest.wrapping_sub(1);
    }
    gpus & !rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_counted_as_coded_or_truly() {
        let layout = Layout::new(2, 8, 2, 4).unwrap();
        let two = Placement::of_parts(vec![(1, 0xff), (0, 0xff)]);
        assert_eq!(
            two.shape(layout, ShapeRule::Coded).to_string(),
            "FC2.SL4.P2"
        );
        assert_eq!(two.shape(layout, ShapeRule::True).to_string(), "FC4.SL2.P2");
        let apart = Placement::of_parts(vec![(0, 0xff), (8, 0xff)]);
        assert_eq!(
            apart.shape(layout, ShapeRule::Coded).to_string(),
            "SL4.P2.PP2"
        );
        assert_eq!(
            apart.shape(layout, ShapeRule::True).to_string(),
            "FC4.SL2.PP2"
        );
        let odd = Placement::of_parts(vec![(0, 0b11), (1, 0b1)]);
        assert_eq!(odd.shape(layout, ShapeRule::Coded).to_string(), "P3");
        assert_eq!(
            Placement::on(3, 1).shape(layout, ShapeRule::Coded),
            Shape::SINGLE
        );
        assert_eq!(
            Placement::on(3, 1).shape(layout, ShapeRule::True),
            Shape::SINGLE
        );
    }

    #[test]
    fn the_lowest_gpus_are_taken() {
        assert_eq!(lowest(0b1101_1000, 3), 0b0101_1000);
        assert_eq!(lowest(0b1, 4), 0b1);
    }
}
