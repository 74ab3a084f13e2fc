//! Two of every four weights.

use crate::parameters::Row;
use tch::{Kind, Tensor};

/// Ones for the two largest of every four weights in the layers of the body, and for everything else.
pub(crate) fn two_of_four(row: &Row, numbers: &Tensor) -> Tensor {
    let _guard = tch::no_grad_guard();
    let mask = Tensor::ones_like(numbers);
    let mut at = 0;
    for spec in row.specs() {
        let len = spec.len() as i64;
        let is_layer = spec.name.starts_with("layers.") && spec.name.ends_with(".weight");
        if is_layer
            && spec.shape.len() == 2
            && spec.shape[1] % 4 == 0
            && !spec.name.ends_with("router.weight")
        {
            let fours = numbers.narrow(0, at, len).view([-1, 4]).abs();
            let (_, largest) = fours.topk(2, -1, true, false);
            let kept = Tensor::zeros_like(&fours).scatter_value(1, &largest, 1.0);
            let mut part = mask.narrow(0, at, len);
            part.copy_(&kept.view([-1]).to_kind(Kind::Float));
        }
        at += len;
    }
    mask
}
