#!/usr/bin/env bash
# Measures the Elo of each search feature: a fixed-node match of the engine against itself with the feature
# switched off.
#
#   scripts/ablation.sh BOOK [games [nodes [feature...]]]
#
# Prints one row per feature: the Elo that the engine loses without it. Features of the strategist are
# measured by scripts/protocols/hybrid.sh.
set -euo pipefail
usage="usage: scripts/ablation.sh BOOK [games [nodes [feature...]]]"
[ $# -ge 1 ] || { echo "$usage" >&2; exit 2; }
book=$(realpath "$1")
cd "$(dirname "$0")/.."
[ -e "$book" ] || { echo "ablation.sh: there is no $book" >&2; exit 1; }

games=${2:-400}
nodes=${3:-1500}
features=("${@:4}")

cargo build --release --package tandem --features tune --target-dir target/tune
# An existing binary is kept, because it may have been built with libtorch.
[ -x target/release/tandem-lab ] || cargo build --release --package tandem-lab
engine=target/tune/release/tandem
if [ ${#features[@]} -eq 0 ]; then
    mapfile -t features < <(echo uci | "$engine" | sed -n '/use_strategist_/d; s/^option name \(use_[a-z_]*\) .*/\1/p')
fi

out=$(mktemp)
trap 'rm -f "$out"' EXIT
echo "| feature | Elo | score of $games games at $nodes nodes |"
echo "|---|---|---|"
for feature in "${features[@]}"; do
    target/release/tandem-lab match \
        --engine "cmd=$engine,name=on,option.$feature=1" --engine "cmd=$engine,name=off,option.$feature=0" \
        --each "nodes=$nodes,option.Hash=8" --games "$games" --openings "$book" --order random --seed 7 \
        --concurrency "$(nproc)" --resign --draw >"$out" 2>&1 || { cat "$out" >&2; exit 1; }
    elo=$(sed -n 's/^Elo \([-+0-9.]*\) +- \([0-9.]*\).*/\1 ± \2/p' "$out" | tail -n 1)
    score=$(sed -n 's/^on vs off: \(.*\), .*/\1/p' "$out" | tail -n 1)
    echo "| ${feature#use_} | $elo | $score |"
done
