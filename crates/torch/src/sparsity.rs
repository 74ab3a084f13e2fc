//! 2:4 structured sparsity, which NVIDIA's sparse tensor cores can use.

use crate::parameters::ParameterLayout;
use tch::{Kind, Tensor};

/// Mask over the flat parameter buffer. In the matrices of the layers it is 1 for the two largest of every
/// four consecutive weights, by absolute value, and 0 for the other two; it is 1 for all other parameters.
pub(crate) fn two_four_mask(layout: &ParameterLayout, parameters: &Tensor) -> Tensor {
    let _guard = tch::no_grad_guard();
    let mask = Tensor::ones_like(parameters);
    let mut offset = 0;
    for spec in layout.specs() {
        let len = spec.len() as i64;
        let is_layer = spec.name.starts_with("layers.") && spec.name.ends_with(".weight");
        if is_layer
            && spec.shape.len() == 2
            && spec.shape[1] % 4 == 0
            && !spec.name.ends_with("router.weight")
        {
            let fours = parameters.narrow(0, offset, len).view([-1, 4]).abs();
            let (_, largest) = fours.topk(2, -1, true, false);
            let selected = Tensor::zeros_like(&fours).scatter_value(1, &largest, 1.0);
            let mut part = mask.narrow(0, offset, len);
            part.copy_(&selected.view([-1]).to_kind(Kind::Float));
        }
        offset += len;
    }
    mask
}
