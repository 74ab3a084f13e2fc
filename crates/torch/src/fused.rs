//! Kernels of our own, where a card has them and they fit. Who gets nothing computes with libtorch's.

#[cfg(test)]
mod tests;

use crate::OUT_OF_MEMORY;
use crate::shim::{Joined, KernelShape, Kernels, NormNumbers, TorchError};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_transformer::Architecture;
use tch::{Device, Kind, Tensor};

const SQUARES: i64 = 64;
/// Widths of heads that there are kernels for.
const HEADS: [i64; 3] = [16, 32, 64];
const MOST_WIDTH: i64 = 1024;

/// Kernels for one network.
pub(crate) struct Fused {
    kernels: Kernels,
    device: Device,
    shape: KernelShape,
    /// They have failed, and are not asked again.
    failed: AtomicBool,
}

impl Fused {
    /// Those for a network that computes in bf16 on a card.
    pub(crate) fn of(architecture: &Architecture, kind: Kind, device: Device) -> Option<Self> {
        let body = &architecture.body;
        let width = body.width as i64;
        let shape = KernelShape { width, head: width / body.heads as i64, curve: body.activation };
        match kind {
            Kind::BFloat16 => Self::new(shape, device),
            _ => None,
        }
    }

    fn new(shape: KernelShape, device: Device) -> Option<Self> {
        let Device::Cuda(card) = device else { return None };
        if shape.width % 32 != 0 || shape.width > MOST_WIDTH {
            return None;
        }
        // Norms and curves have their kernels whatever the heads are.
        let head = if HEADS.contains(&shape.head) { shape.head } else { HEADS[0] };
        match Kernels::new(card, KernelShape { head, ..shape }) {
            Ok(kernels) => Some(Self { kernels, device, shape, failed: AtomicBool::new(false) }),
            Err(error) => {
                warn(&error);
                None
            }
        }
    }

    /// `x + factor * branch`, and that normed.
    pub(crate) fn add_norm(
        &self,
        x: &Tensor,
        branch: Option<&Tensor>,
        factor: f64,
        norm: NormNumbers<'_>,
    ) -> Option<Joined> {
        let rows = [Some(x), branch];
        let fits = rows.iter().flatten().all(|rows| {
            self.can_read(rows) && rows.size().last() == Some(&self.shape.width) && rows.size() == x.size()
        });
        let numbers_fit = [Some(norm.scale), norm.offset]
            .iter()
            .flatten()
            .all(|numbers| self.can_read(numbers) && numbers.size() == [self.shape.width]);
        if !fits || !numbers_fit || x.numel() == 0 {
            return None;
        }
        self.unless_failed(|kernels| kernels.add_norm(x, branch, factor, norm))
    }

    /// The network's curve of `x + bias`.
    pub(crate) fn bend(&self, x: &Tensor, bias: Option<&Tensor>) -> Option<Tensor> {
        let width = *x.size().last()?;
        let bias_fits = bias.is_none_or(|bias| self.can_read(bias) && bias.size() == [width]);
        if width % 8 != 0 || x.numel() == 0 || !self.can_read(x) || !bias_fits {
            return None;
        }
        self.unless_failed(|kernels| kernels.bend(x, bias))
    }

    /// What squares see of each other: of queries, keys and values side by side, `[batch, 64, 3 * width]`, and a bias
    /// `[heads, 64, 64]` or `[batch, heads, 64, 64]`.
    pub(crate) fn attend(&self, rows: &Tensor, bias: Option<&Tensor>) -> Option<Tensor> {
        let [batch, SQUARES, width] = rows.size()[..] else { return None };
        let KernelShape { width: one, head, .. } = self.shape;
        let heads = one / head;
        let bias_fits = bias.is_none_or(|bias| {
            let shape = bias.size();
            let is_shared = shape == [heads, SQUARES, SQUARES];
            self.can_read(bias) && (is_shared || shape == [batch, heads, SQUARES, SQUARES])
        });
        let is_whole = HEADS.contains(&head) && heads * head == one;
        if !is_whole || width != 3 * one || batch == 0 || !self.can_read(rows) || !bias_fits {
            return None;
        }
        self.unless_failed(|kernels| kernels.attend(rows, bias, heads))
    }

    /// Whether they are in use.
    #[cfg(test)]
    pub(crate) fn is_well(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }

    fn can_read(&self, tensor: &Tensor) -> bool {
        tensor.kind() == Kind::BFloat16 && tensor.device() == self.device
    }

    fn unless_failed<T>(&self, work: impl FnOnce(&Kernels) -> Result<T, TorchError>) -> Option<T> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        match work(&self.kernels) {
            Ok(done) => Some(done),
            // Nothing is wrong with the kernels: told as tch tells of it, for the trainer to make an error of it again.
            Err(error) if error.to_string().contains(OUT_OF_MEMORY) => panic!("{error}"),
            Err(error) => {
                self.failed.store(true, Ordering::Relaxed);
                warn(&error);
                None
            }
        }
    }
}

/// Work goes on without, so this is all that anybody hears of it, and once.
fn warn(error: &TorchError) {
    static SAID: Once = Once::new();
    SAID.call_once(|| eprintln!("warning: the card computes without Tandem's own kernels: {error}"));
}
