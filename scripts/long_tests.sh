#!/usr/bin/env bash
# What the ordinary tests leave out for its time: the perft of every line of both suites to at least 10 M nodes, and
# accumulators kept over 100,000 plies against those computed from nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release --package tandem-nnue --lib -- --ignored --nocapture
cargo test --release --package tandem-chess --test perft -- --ignored --nocapture
