//! The difference between two architectures, for messages about a network that does not fit a run.

use tandem_transformer::Architecture;

/// Describes the first tensor in which a checkpoint's network differs from the recipe's; `None` if the
/// architectures are equal.
pub(super) fn architecture_difference(own: &Architecture, other: &Architecture) -> Option<String> {
    if own == other {
        return None;
    }
    let (own, others) = (own.tensors(), other.tensors());
    let differs = own.iter().zip(&others).find(|(own, other)| own != other);
    Some(match differs {
        Some((own, others)) => {
            format!(
                "it has {} {:?} where the recipe has {} {:?}",
                own.name, own.shape, others.name, others.shape
            )
        }
        None if own.len() != others.len() => {
            let more = if own.len() > others.len() { &own[others.len()] } else { &others[own.len()] };
            format!("one of the two has no {} {:?}", more.name, more.shape)
        }
        None => "its tensors are the same, but the architectures use them differently".into(),
    })
}
