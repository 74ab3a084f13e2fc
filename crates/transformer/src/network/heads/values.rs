//! Value heads and the moves-left head, which read all squares.

use super::fill;
use crate::architecture::SQUARES;
use crate::kernels::{Epilogue, Kernels, sigmoid};
use crate::linear::{Linear, LinearScratch};
use crate::network::builder::Builder;
use crate::network::scratch::HeadScratch;
use crate::{Activation, MovesLeftHead, ValueHead, ValueOutput};

/// Compresses every square to a few channels, and then the board to a hidden vector.
#[derive(Debug)]
struct CompressedBoard {
    squares: Linear,
    board: Linear,
}

#[derive(Debug)]
pub(super) struct ValueLayer {
    compressed: CompressedBoard,
    wdl: Linear,
    error: Option<Linear>,
    buckets: Option<Linear>,
}

#[derive(Debug)]
pub(super) struct MovesLeftLayer {
    compressed: CompressedBoard,
    plies: Linear,
}

impl CompressedBoard {
    fn new(builder: &Builder<'_>, name: &str, channels: usize) -> Self {
        let width = builder.architecture().body.width;
        Self {
            squares: builder.linear(&format!("{name}.squares"), width),
            board: builder.linear(&format!("{name}.board"), SQUARES * channels),
        }
    }

    /// Returns a hidden vector for each position, and a free buffer for what is computed from them.
    fn apply<'a>(
        &self,
        kernels: &Kernels,
        x: &[f32],
        activation: Activation,
        prepared: &mut LinearScratch,
        scratch: &'a mut HeadScratch,
    ) -> (&'a [f32], &'a mut crate::aligned::Aligned<f32>) {
        let count = x.len() / self.squares.inputs();
        let squares = scratch.squares.buffer(count * self.squares.outputs());
        self.squares.apply(kernels, x, prepared, Epilogue::Activate(activation), squares);
        let board = scratch.board.buffer(count / SQUARES * self.board.outputs());
        self.board.apply(kernels, squares, prepared, Epilogue::Activate(activation), board);
        (board, &mut scratch.out)
    }
}

impl ValueLayer {
    pub(super) fn new(builder: &Builder<'_>, name: &str, head: ValueHead) -> Self {
        let last = |part: &str| builder.linear(&format!("{name}.{part}"), head.hidden);
        Self {
            compressed: CompressedBoard::new(builder, name, head.channels),
            wdl: last("wdl"),
            error: head.error.then(|| last("error")),
            buckets: (head.buckets > 0).then(|| last("buckets")),
        }
    }

    pub(super) fn apply<'a>(
        &self,
        kernels: &Kernels,
        x: &[f32],
        activation: Activation,
        prepared: &mut LinearScratch,
        scratch: &mut HeadScratch,
        outputs: impl Iterator<Item = &'a mut ValueOutput>,
    ) {
        let (boards, out) = self.compressed.apply(kernels, x, activation, prepared, scratch);
        for (output, board) in outputs.zip(boards.chunks_exact(self.wdl.inputs())) {
            self.wdl.apply(kernels, board, prepared, Epilogue::Assign, &mut output.wdl);
            output.error = self.error.as_ref().map(|layer| {
                let mut error = [0.0];
                layer.apply(kernels, board, prepared, Epilogue::Assign, &mut error);
                sigmoid(error[0])
            });
            match &self.buckets {
                Some(layer) => {
                    let out = out.buffer(layer.outputs());
                    layer.apply(kernels, board, prepared, Epilogue::Assign, out);
                    fill(&mut output.buckets, out);
                }
                None => output.buckets.clear(),
            }
        }
    }
}

impl MovesLeftLayer {
    pub(super) fn new(builder: &Builder<'_>, head: MovesLeftHead) -> Self {
        let compressed = CompressedBoard::new(builder, "moves_left", head.channels);
        Self { compressed, plies: builder.linear("moves_left.plies", head.hidden) }
    }

    pub(super) fn apply<'a>(
        &self,
        kernels: &Kernels,
        x: &[f32],
        activation: Activation,
        prepared: &mut LinearScratch,
        scratch: &mut HeadScratch,
        outputs: impl Iterator<Item = &'a mut Option<f32>>,
    ) {
        let (boards, _) = self.compressed.apply(kernels, x, activation, prepared, scratch);
        for (output, board) in outputs.zip(boards.chunks_exact(self.plies.inputs())) {
            let mut plies = [0.0];
            self.plies.apply(kernels, board, prepared, Epilogue::Activate(Activation::Relu), &mut plies);
            *output = Some(plies[0]);
        }
    }
}
