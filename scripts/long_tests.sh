#!/usr/bin/env bash
# Runs the tests that are too slow for `cargo test`: perft of every line of both suites to at least 10 M
# nodes, and incremental accumulators against recomputed ones over 100,000 plies.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release --package tandem-nnue --lib -- --ignored --nocapture
cargo test --release --package tandem-chess --test perft -- --ignored --nocapture
