#!/usr/bin/env bash
# The long perft: every line of both suites to at least 10 M nodes, which the ordinary tests leave out for its time.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release --package tandem-chess --test perft -- --ignored --nocapture
