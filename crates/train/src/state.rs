//! What a network in training remembers from one step to the next.

use crate::layout::Layout;
use crate::optimiser::Optimiser;
use tandem_nnue::Inputs;

/// What a network in training remembers from one step to the next. Every part is as long as [`Layout::numbers`] says, or
/// empty where nobody needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Steps that were made.
    pub step: u64,
    /// The weights and biases.
    pub numbers: Vec<f32>,
    /// The optimiser's memory of slopes, or of steps.
    pub first: Vec<f32>,
    /// Its memory of their squares.
    pub second: Vec<f32>,
    /// Numbers that follow slowly.
    pub slow: Vec<f32>,
    /// Their moving average.
    pub average: Vec<f32>,
}

impl State {
    /// Before the first step.
    pub fn new(numbers: Vec<f32>, optimiser: Optimiser, averaged: bool) -> Self {
        let needs = optimiser.needs();
        let zeros = |needed: bool| vec![0.0; if needed { numbers.len() } else { 0 }];
        Self {
            step: 0,
            first: zeros(needs.first),
            second: zeros(needs.second),
            slow: if needs.slow { numbers.clone() } else { Vec::new() },
            average: if averaged { numbers.clone() } else { Vec::new() },
            numbers,
        }
    }

    /// Its parts with their names.
    pub fn parts(&self) -> [(&'static str, &Vec<f32>); 5] {
        [
            ("numbers", &self.numbers),
            ("first", &self.first),
            ("second", &self.second),
            ("slow", &self.slow),
            ("average", &self.average),
        ]
    }

    /// The parts, to be written, in the same order.
    pub fn parts_mut(&mut self) -> [&mut Vec<f32>; 5] {
        [&mut self.numbers, &mut self.first, &mut self.second, &mut self.slow, &mut self.average]
    }

    /// Whether it is one of a layout and an optimiser.
    pub fn fits<I: Inputs>(&self, layout: &Layout<I>, optimiser: Optimiser, averaged: bool) -> bool {
        let needs = optimiser.needs();
        let len = |needed: bool| if needed { layout.numbers() } else { 0 };
        self.numbers.len() == layout.numbers()
            && self.first.len() == len(needs.first)
            && self.second.len() == len(needs.second)
            && self.slow.len() == len(needs.slow)
            && self.average.len() == len(averaged)
    }
}
