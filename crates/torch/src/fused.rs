//! Our own CUDA kernels, where the GPU supports them and the shapes fit. Otherwise, and after any failure,
//! libtorch's kernels compute the same; only speed differs.

#[cfg(test)]
mod tests;

use crate::OUT_OF_MEMORY;
use crate::shim::{KernelShape, Kernels, NormParameters, NormedSum, TorchError};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_transformer::Architecture;
use tch::{Device, Kind, Tensor};

const SQUARES: i64 = 64;
/// Widths of attention heads that have a kernel.
const HEAD_WIDTHS: [i64; 3] = [16, 32, 64];
const MAX_WIDTH: i64 = 1024;

/// Kernels compiled for one network.
pub(crate) struct FusedKernels {
    kernels: Kernels,
    device: Device,
    shape: KernelShape,
    /// True after a failure; the kernels are not tried again.
    failed: AtomicBool,
}

impl FusedKernels {
    /// Kernels for a network that trains in bf16 on a GPU; `None` for all others, and if they cannot be
    /// compiled.
    pub(crate) fn for_network(architecture: &Architecture, kind: Kind, device: Device) -> Option<Self> {
        let body = &architecture.body;
        let width = body.width as i64;
        let shape = KernelShape { width, head: width / body.heads as i64, activation: body.activation };
        match kind {
            Kind::BFloat16 => Self::new(shape, device),
            _ => None,
        }
    }

    fn new(shape: KernelShape, device: Device) -> Option<Self> {
        let Device::Cuda(gpu) = device else { return None };
        if shape.width % 32 != 0 || shape.width > MAX_WIDTH {
            return None;
        }
        // Norms and activations do not depend on the width of heads, so they have kernels even if attention
        // has not.
        let head = if HEAD_WIDTHS.contains(&shape.head) { shape.head } else { HEAD_WIDTHS[0] };
        match Kernels::new(gpu, KernelShape { head, ..shape }) {
            Ok(kernels) => Some(Self { kernels, device, shape, failed: AtomicBool::new(false) }),
            Err(error) => {
                warn(&error);
                None
            }
        }
    }

    /// `sum = x + factor * branch` and its norm, in one pass over memory; `None` if the shapes do not fit.
    pub(crate) fn add_norm(
        &self,
        x: &Tensor,
        branch: Option<&Tensor>,
        factor: f64,
        norm: NormParameters<'_>,
    ) -> Option<NormedSum> {
        let inputs = [Some(x), branch];
        let fits = inputs.iter().flatten().all(|inputs| {
            self.is_readable(inputs)
                && inputs.size().last() == Some(&self.shape.width)
                && inputs.size() == x.size()
        });
        let parameters_fit = [Some(norm.scale), norm.offset]
            .iter()
            .flatten()
            .all(|parameters| self.is_readable(parameters) && parameters.size() == [self.shape.width]);
        if !fits || !parameters_fit || x.numel() == 0 {
            return None;
        }
        self.unless_failed(|kernels| kernels.add_norm(x, branch, factor, norm))
    }

    /// The network's activation of `x + bias`; `None` if the shapes do not fit.
    pub(crate) fn bias_activation(&self, x: &Tensor, bias: Option<&Tensor>) -> Option<Tensor> {
        let width = *x.size().last()?;
        let bias_fits = bias.is_none_or(|bias| self.is_readable(bias) && bias.size() == [width]);
        if width % 8 != 0 || x.numel() == 0 || !self.is_readable(x) || !bias_fits {
            return None;
        }
        self.unless_failed(|kernels| kernels.bias_activation(x, bias))
    }

    /// Attention among 64 squares, from queries, keys and values side by side, `[batch, 64, 3 * width]`, and
    /// a bias `[heads, 64, 64]` or `[batch, heads, 64, 64]`. `None` if the shapes do not fit.
    pub(crate) fn attend(&self, qkv: &Tensor, bias: Option<&Tensor>) -> Option<Tensor> {
        let [batch, SQUARES, width] = qkv.size()[..] else { return None };
        let KernelShape { width: model_width, head, .. } = self.shape;
        let heads = model_width / head;
        let bias_fits = bias.is_none_or(|bias| {
            let shape = bias.size();
            let is_shared = shape == [heads, SQUARES, SQUARES];
            self.is_readable(bias) && (is_shared || shape == [batch, heads, SQUARES, SQUARES])
        });
        let heads_fit = HEAD_WIDTHS.contains(&head) && heads * head == model_width;
        if !heads_fit || width != 3 * model_width || batch == 0 || !self.is_readable(qkv) || !bias_fits {
            return None;
        }
        self.unless_failed(|kernels| kernels.attend(qkv, bias, heads))
    }

    /// True if no kernel has failed so far.
    #[cfg(test)]
    pub(crate) fn is_active(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }

    fn is_readable(&self, tensor: &Tensor) -> bool {
        tensor.kind() == Kind::BFloat16 && tensor.device() == self.device
    }

    fn unless_failed<T>(&self, call: impl FnOnce(&Kernels) -> Result<T, TorchError>) -> Option<T> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        match call(&self.kernels) {
            Ok(result) => Some(result),
            // Not a fault of the kernels: panics as tch does, and the trainer turns the panic into an error.
            Err(error) if error.to_string().contains(OUT_OF_MEMORY) => panic!("{error}"),
            Err(error) => {
                self.failed.store(true, Ordering::Relaxed);
                warn(&error);
                None
            }
        }
    }
}

/// Warns once that libtorch's kernels are used instead. Training continues, so this is the only notice.
fn warn(error: &TorchError) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        eprintln!("warning: training uses libtorch's kernels instead of Tandem's own: {error}");
    });
}
