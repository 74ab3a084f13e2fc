//! Names of logged scalars in earlier versions. A resumed run continues its old log, whose lines stay as they
//! are, so both names occur in one file; reading gives the present names alone.

/// Old names of scalars with the present ones.
const OLD_TAGS: [(&str, &str); 4] = [
    ("rate", "train/lr"),
    ("train/slope", "train/grad_norm"), // language: old name
    ("train/result_share", "train/wdl"),
    ("speed/waiting", "speed/data_wait"),
];

/// Old beginnings of names with the present ones.
const OLD_PREFIXES: [(&str, &str); 1] = [("validation/blind/", "validation/baseline/")];

/// The present name of a scalar that was logged under an old one; other names are returned as they are.
pub(super) fn present_tag(tag: String) -> String {
    if let Some((_, present)) = OLD_TAGS.iter().find(|(old, _)| *old == tag) {
        return (*present).into();
    }
    match OLD_PREFIXES.iter().find_map(|(old, present)| Some((tag.strip_prefix(old)?, present))) {
        Some((rest, present)) => format!("{present}{rest}"),
        None => tag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_tags_have_present_names_and_others_keep_theirs() {
        for (old, present) in [
            ("rate", "train/lr"),
            ("train/slope", "train/grad_norm"), // language: old name
            ("speed/waiting", "speed/data_wait"),
            ("validation/blind/policy", "validation/baseline/policy"),
            ("validation/loss", "validation/loss"),
            ("train/lr", "train/lr"),
        ] {
            assert_eq!(present_tag(old.into()), present);
        }
    }
}
