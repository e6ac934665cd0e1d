//! The history of a replay as it grows, in bounded memory.

use lacuna_model::TrainerId;

use super::gantt::Watcher;
use super::series::{Series, StepSums};
use crate::history::{LIVES, SIZES};
use crate::{Day, GanttWindow, History, Life, PoolTrace};

/// Records a history.
#[derive(Debug, Clone)]
pub(super) struct Recorder {
    points: Series,
    lives: Vec<Life>,
    /// Least time between two sizes of each life, seconds.
    gaps: Vec<f64>,
    admitted: u64,
    pub(super) gantt: Option<Watcher>,
}

impl Recorder {
    pub(super) fn new(gantt: Option<GanttWindow>) -> Self {
        Self {
            points: Series::default(),
            lives: Vec::new(),
            gaps: Vec::new(),
            admitted: 0,
            gantt: gantt.map(Watcher::new),
        }
    }

    /// Records an admission.
    pub(super) fn admit(&mut self, name: &TrainerId, at_s: f64) {
        self.admitted += 1;
        if self.lives.len() < LIVES {
            self.gaps.push(0.0);
            self.lives.push(Life {
                name: name.clone(),
                admitted_s: at_s,
                ended_s: None,
                samples: 0.0,
                preemptions: 0,
                sizes: Vec::new(),
            });
        }
    }

    /// Records a departure that hit a trainer.
    pub(super) fn preempt(&mut self, life: u32) {
        if let Some(life) = self.lives.get_mut(life as usize) {
            life.preemptions += 1;
        }
    }

    /// Records that a trainer leaves.
    pub(super) fn end(&mut self, life: u32, at_s: Option<f64>, samples: f64) {
        if let (Some(watcher), Some(at_s)) = (&mut self.gantt, at_s) {
            watcher.end(life, at_s);
        }
        if let Some(life) = self.lives.get_mut(life as usize) {
            life.ended_s = at_s;
            life.samples = samples;
        }
    }

    /// Records the state of a trainer after an event.
    pub(super) fn size(&mut self, life: u32, at_s: f64, nodes: u32, samples: f64) {
        let index = life as usize;
        let (Some(life), Some(gap)) = (self.lives.get_mut(index), self.gaps.get_mut(index)) else {
            return;
        };
        life.samples = samples;
        let sizes = &mut life.sizes;
        if sizes.last().map_or(0, |&(_, n)| n) == nodes {
            return;
        }
        match sizes.last_mut() {
            Some(last) if at_s - last.0 < *gap => last.1 = nodes,
            _ => sizes.push((at_s, nodes)),
        }
        if sizes.len() > SIZES {
            *gap = 4.0 * (at_s - life.admitted_s) / SIZES as f64;
            let mut kept = f64::NEG_INFINITY;
            sizes.retain(|&(at, _)| {
                let keeps = at - kept >= *gap;
                if keeps {
                    kept = at;
                }
                keeps
            });
        }
    }

    /// Records the state after an event: the nodes of the pool and those that train.
    pub(super) fn point(&mut self, at_s: f64, nodes: (u32, u32), samples: f64, steps: StepSums) {
        self.points.add(at_s, nodes, samples, steps);
    }

    /// Ends the history at `now_s`.
    pub(super) fn finish(mut self, now_s: f64, days: Vec<Day>, trace: &dyn PoolTrace) -> History {
        self.points.until(now_s);
        let gantt = self.gantt.take();
        History {
            points: self.points.points(),
            lives_left_out: self.admitted - self.lives.len() as u64,
            gantt: gantt.map(|watcher| watcher.finish(now_s, trace)),
            lives: self.lives,
            days,
        }
    }
}
