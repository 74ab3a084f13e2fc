//! Tiny architectures that together have every kind of layer and head, for tests.

/// Descriptions in TOML: lc0's kind first, then squares, text, and text with action values.
pub(crate) const ARCHITECTURES: [&str; 4] = [
    include_str!("../tests/architectures/board.toml"),
    include_str!("../tests/architectures/squares.toml"),
    include_str!("../tests/architectures/text.toml"),
    include_str!("../tests/architectures/moves.toml"),
];
