#!/usr/bin/env bash
# Attacks the programs as a black box: a UCI fuzzer, damaged files, hostile engines, kills at random moments, full disks and
# little memory. Ends with a table of amounts and findings. The exit status is 1 if anything crashed, hung, accepted
# damage silently, left files behind or gave another result after it was resumed.
#
#     scripts/torture.sh [--minutes N] [--seed N] [--parts uci,files,engines,kills,limits] [--json FILE] [--keep]
#
# TANDEM_BIN is the folder of the programs `tandem` and `tandem-lab` (default: target/release, or target/debug if only
# that exists). Needs Python 3.10 with the package `chess`. docs/reliability.md describes the parts.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${TANDEM_PYTHON:-python3}" -B scripts/torture "$@"
