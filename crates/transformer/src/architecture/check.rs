//! Checks that a network of some architecture can be built, before memory is allocated for it. Descriptions
//! come from files, so sizes are bounded against hostile ones as well.

use super::*;

/// Largest width or bucket count: larger than in any known network, and small enough that products of sizes
/// cannot overflow.
const MAX_SIZE: usize = 1 << 16;
/// Largest number of layers, and of experts in each: a hostile description must not list billions of tensors.
pub(crate) const MAX_COUNT: usize = 256;
/// Largest number of tensors that a file's header can describe.
const MAX_TENSORS: usize = 100_000;
/// Largest number of parameters, ten times as many as the largest known chess transformer has.
const MAX_PARAMETERS: usize = 1 << 31;

impl Architecture {
    /// Checks that all sizes are in range and that the chosen parts can be combined.
    ///
    /// # Errors
    /// Names the first key whose value is out of range or does not fit the others, with the reason.
    pub fn check(&self) -> Result<(), ArchitectureError> {
        let Self { input, embedding, body, heads } = self;
        let text = *input == Input::Text;
        sized("body.width", body.width)?;
        within("body.layers", body.layers, MAX_COUNT)?;
        sized("body.heads", body.heads)?;
        if !body.width.is_multiple_of(body.heads) {
            return impossible("body.heads", "they must share the width in equal parts");
        }
        if !(body.norm.epsilon > 0.0 && body.norm.epsilon < 1.0) {
            return impossible("body.norm.epsilon", "must be between 0 and 1");
        }
        if body.norm.deepnorm && body.norm.place == NormPlace::Pre {
            return impossible("body.norm.deepnorm", "belongs to norms after the branch: place = \"post\"");
        }
        if body.mask == Mask::Prefix && heads.action_value.is_none() {
            return impossible("body.mask", "prefix is for networks of action values, which read a move");
        }
        if let Embedding::DenseBoard(board) = embedding {
            if text {
                return impossible("embedding.kind", "dense-board needs a token for each square");
            }
            sized("embedding.channels", board.channels)?;
            sized("embedding.feed_forward", board.feed_forward)?;
        }
        body.attention.check(text)?;
        body.feed_forward.check()?;
        self.check_heads(text)?;
        let tensors = self.tensors();
        if tensors.len() > MAX_TENSORS {
            let problem = format!("{} tensors are too many: {MAX_TENSORS} are the most", tensors.len());
            return impossible("body", &problem);
        }
        let parameters: usize = tensors.iter().map(TensorSpec::len).sum();
        if parameters > MAX_PARAMETERS {
            let problem =
                format!("{parameters} parameters are too many for a network: {MAX_PARAMETERS} are the most");
            return impossible("body", &problem);
        }
        Ok(())
    }

    fn check_heads(&self, text: bool) -> Result<(), ArchitectureError> {
        let Heads { action_value, state_value, policy, moves_left, move_value, .. } = &self.heads;
        let values = self.heads.values();
        let of_text = [("heads.action_value", action_value), ("heads.state_value", state_value)];
        for (key, head) in of_text {
            if let Some(head) = head {
                if !text {
                    return impossible(key, "needs input = \"text\"");
                }
                if !(2..=VOCABULARY).contains(&head.buckets) {
                    return impossible(key, "buckets must be from 2 to 1968");
                }
            }
        }
        if action_value.is_some() && (state_value.is_some() || policy.is_some()) {
            return impossible("heads.action_value", "stands alone: the last token is a move");
        }
        let of_squares = [
            ("heads.value", values[0].1.is_some()),
            ("heads.search_value", values[1].1.is_some()),
            ("heads.short_term", values[2].1.is_some()),
            ("heads.moves_left", moves_left.is_some()),
            ("heads.move_value", move_value.is_some()),
        ];
        for (key, there) in of_squares {
            if there && text {
                return impossible(key, "needs a token for each square");
            }
        }
        for ((_, head), [channels, hidden, buckets]) in values.iter().zip(VALUE_KEYS) {
            let Some(head) = head else { continue };
            within(channels, head.channels, MAX_SIZE)?;
            within(hidden, head.hidden, MAX_SIZE)?;
            if head.buckets > VOCABULARY {
                return impossible(buckets, "must be at most 1968");
            }
        }
        if let Some(head) = moves_left {
            within("heads.moves_left.channels", head.channels, MAX_SIZE)?;
            within("heads.moves_left.hidden", head.hidden, MAX_SIZE)?;
        }
        if let Some(head) = move_value {
            within("heads.move_value.width", head.width, MAX_SIZE)?;
        }
        match policy {
            Some(PolicyHead { kind: PolicyKind::Attention, width, aux_targets }) => {
                if aux_targets.iter().enumerate().any(|(index, target)| aux_targets[..index].contains(target))
                {
                    return impossible("heads.policy.aux_targets", "names one twice");
                }
                if text {
                    return impossible("heads.policy.kind", "attention needs a token for each square");
                }
                within("heads.policy.width", *width, MAX_SIZE)?;
            }
            Some(PolicyHead { kind: PolicyKind::Actions, aux_targets, width }) => {
                if !text {
                    return impossible("heads.policy.kind", "actions need input = \"text\"");
                }
                if !aux_targets.is_empty() {
                    return impossible("heads.policy.aux_targets", "belongs to kind = \"attention\"");
                }
                if *width != 0 {
                    return impossible("heads.policy.width", "belongs to kind = \"attention\"");
                }
            }
            None => {}
        }
        let any = action_value.is_some()
            || state_value.is_some()
            || policy.is_some()
            || of_squares.iter().any(|&(_, there)| there);
        if any { Ok(()) } else { impossible("heads", "a network needs at least one head") }
    }
}

/// Keys of the value heads' sizes, as errors name them.
const VALUE_KEYS: [[&str; 3]; 3] = [
    ["heads.value.channels", "heads.value.hidden", "heads.value.buckets"],
    ["heads.search_value.channels", "heads.search_value.hidden", "heads.search_value.buckets"],
    ["heads.short_term.channels", "heads.short_term.hidden", "heads.short_term.buckets"],
];

/// Error for the value of a key.
pub(crate) fn impossible(key: &'static str, problem: &str) -> Result<(), ArchitectureError> {
    Err(ArchitectureError::Impossible { key, problem: problem.into() })
}

/// Returns an error unless the size is from 1 to the largest one.
pub(crate) fn sized(key: &'static str, size: usize) -> Result<(), ArchitectureError> {
    within(key, size, MAX_SIZE)
}

/// Returns an error unless the size is from 1 to `most`.
pub(crate) fn within(key: &'static str, size: usize, most: usize) -> Result<(), ArchitectureError> {
    if (1..=most).contains(&size) {
        return Ok(());
    }
    Err(ArchitectureError::Impossible { key, problem: format!("{size} is not from 1 to {most}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FeedForward;

    fn changed(preset: Preset, from: &str, to: &str) -> String {
        let text = preset.architecture().to_toml();
        assert!(text.contains(from), "{text}");
        Architecture::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn impossible_values_are_reported_by_key() {
        let cases = [
            (Preset::Byte, "heads = 4", "heads = 5", "body.heads: they must share"),
            (Preset::Byte, "chosen = 2", "chosen = 9", "body.feed_forward.chosen"),
            (Preset::Byte, "width = 64", "width = 0", "body.width: 0 is not from 1"),
            (Preset::Byte, "buckets = 128", "buckets = 1", "heads.action_value: buckets"),
            (
                Preset::BtSmall,
                "input = \"planes-single\"",
                "input = \"text\"",
                "embedding.kind: dense-board needs",
            ),
            (Preset::BtSmall, "layers = 8", "layers = 99999999", "body.layers: 99999999 is not"),
            (Preset::BtSmall, "place = \"post\"", "place = \"pre\"", "body.norm.deepnorm"),
            (Preset::BtSmall, "layers = 8", "layers = 8\nlairs = 9", "unknown field `lairs`"),
        ];
        for (preset, from, to, expected) in cases {
            let message = changed(preset, from, to);
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn sizes_are_checked_before_memory_is_allocated() {
        let error = |preset: Preset, change: &dyn Fn(&mut Architecture)| {
            let mut architecture = preset.architecture();
            change(&mut architecture);
            architecture.check().unwrap_err().to_string()
        };
        let message = error(Preset::BtSmall, &|network| network.body.width = MAX_SIZE);
        assert!(message.contains("parameters are too many for a network"), "{message}");
        let message = error(Preset::Byte, &|network| {
            network.body.layers = MAX_COUNT;
            if let FeedForward::Experts(experts) = &mut network.body.feed_forward {
                experts.count = MAX_COUNT;
            }
        });
        assert!(message.contains("tensors are too many"), "{message}");
        let message = error(Preset::BtSmall, &|network| {
            network.heads.short_term = Some(ValueHead { channels: 8, hidden: 0, error: false, buckets: 0 });
        });
        assert_eq!(message, "heads.short_term.hidden: 0 is not from 1 to 65536");
    }
}
