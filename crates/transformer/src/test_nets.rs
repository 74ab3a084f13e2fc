//! Tiny networks that have every part once.

/// Their architectures.
pub(crate) const ARCHITECTURES: [&str; 4] = [
    include_str!("../tests/architectures/board.toml"),
    include_str!("../tests/architectures/squares.toml"),
    include_str!("../tests/architectures/text.toml"),
    include_str!("../tests/architectures/moves.toml"),
];
