//! Numbers with the right form of their noun.

/// A number with its noun: `1 record`, `2 records`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_other_numbers_are_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "ply", "plies")), ["0 plies", "1 ply", "2 plies"]);
    }
}
