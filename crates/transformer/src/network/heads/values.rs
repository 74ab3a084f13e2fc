//! How the game ends and when, from all squares.

use super::fill;
use crate::architecture::SQUARES;
use crate::kernels::{Kernels, Store, sigmoid};
use crate::linear::{Linear, Prepared};
use crate::network::builder::Builder;
use crate::network::scratch::HeadRoom;
use crate::{Activation, MovesLeftHead, ValueHead, ValueOutput};

/// Every square pressed into a few numbers, and the board into a few more.
#[derive(Debug)]
struct Pressed {
    squares: Linear,
    board: Linear,
}

#[derive(Debug)]
pub(super) struct ValueLayer {
    pressed: Pressed,
    wdl: Linear,
    error: Option<Linear>,
    buckets: Option<Linear>,
}

#[derive(Debug)]
pub(super) struct MovesLeftLayer {
    pressed: Pressed,
    plies: Linear,
}

impl Pressed {
    fn new(builder: &Builder<'_>, name: &str, channels: usize) -> Self {
        let width = builder.architecture().body.width;
        Self {
            squares: builder.linear(&format!("{name}.squares"), width),
            board: builder.linear(&format!("{name}.board"), SQUARES * channels),
        }
    }

    /// A row for each position, and room for what is made of them.
    fn apply<'a>(
        &self,
        kernels: &Kernels,
        x: &[f32],
        activation: Activation,
        prepared: &mut Prepared,
        room: &'a mut HeadRoom,
    ) -> (&'a [f32], &'a mut crate::aligned::Aligned<f32>) {
        let count = x.len() / self.squares.inputs();
        let squares = room.squares.room(count * self.squares.outputs());
        self.squares.apply(kernels, x, prepared, Store::Activate(activation), squares);
        let board = room.board.room(count / SQUARES * self.board.outputs());
        self.board.apply(kernels, squares, prepared, Store::Activate(activation), board);
        (board, &mut room.out)
    }
}

impl ValueLayer {
    pub(super) fn new(builder: &Builder<'_>, name: &str, head: ValueHead) -> Self {
        let last = |part: &str| builder.linear(&format!("{name}.{part}"), head.hidden);
        Self {
            pressed: Pressed::new(builder, name, head.channels),
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
        prepared: &mut Prepared,
        room: &mut HeadRoom,
        outputs: impl Iterator<Item = &'a mut ValueOutput>,
    ) {
        let (boards, out) = self.pressed.apply(kernels, x, activation, prepared, room);
        for (output, board) in outputs.zip(boards.chunks_exact(self.wdl.inputs())) {
            self.wdl.apply(kernels, board, prepared, Store::Set, &mut output.wdl);
            output.error = self.error.as_ref().map(|layer| {
                let mut error = [0.0];
                layer.apply(kernels, board, prepared, Store::Set, &mut error);
                sigmoid(error[0])
            });
            match &self.buckets {
                Some(layer) => {
                    let out = out.room(layer.outputs());
                    layer.apply(kernels, board, prepared, Store::Set, out);
                    fill(&mut output.buckets, out);
                }
                None => output.buckets.clear(),
            }
        }
    }
}

impl MovesLeftLayer {
    pub(super) fn new(builder: &Builder<'_>, head: MovesLeftHead) -> Self {
        let pressed = Pressed::new(builder, "moves_left", head.channels);
        Self { pressed, plies: builder.linear("moves_left.plies", head.hidden) }
    }

    pub(super) fn apply<'a>(
        &self,
        kernels: &Kernels,
        x: &[f32],
        activation: Activation,
        prepared: &mut Prepared,
        room: &mut HeadRoom,
        outputs: impl Iterator<Item = &'a mut Option<f32>>,
    ) {
        let (boards, _) = self.pressed.apply(kernels, x, activation, prepared, room);
        for (output, board) in outputs.zip(boards.chunks_exact(self.plies.inputs())) {
            let mut plies = [0.0];
            self.plies.apply(kernels, board, prepared, Store::Activate(Activation::Relu), &mut plies);
            *output = Some(plies[0]);
        }
    }
}
