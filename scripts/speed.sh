#!/usr/bin/env bash
# Nodes per second of the engine and of Stockfish, alternating on the same core. The best run of each counts,
# because other load on the machine can only slow a run down. Then one thread against two.
#
#   scripts/speed.sh [rounds]
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-5}
stockfish=$(command -v stockfish || echo /usr/games/stockfish)
[ -x "$stockfish" ] || { echo "speed.sh: $stockfish is missing: apt-get install stockfish" >&2; exit 1; }
cargo build --release --package tandem
engine=target/release/tandem
core=$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')

best() { sort -n | tail -n 1; }
ours=() theirs=()
for _ in $(seq "$rounds"); do
    theirs+=("$(taskset -c "$core" "$stockfish" bench 16 1 13 2>&1 | sed -n 's/^Nodes\/second *: //p')")
    ours+=("$(taskset -c "$core" "$engine" bench | sed -n 's/.* nodes \([0-9]*\) nps/\1/p')")
done
a=$(printf '%s\n' "${ours[@]}" | best)
b=$(printf '%s\n' "${theirs[@]}" | best)
awk -v a="$a" -v b="$b" 'BEGIN { printf "tandem %d nps, stockfish %d nps, ratio %.2f\n", a, b, a / b }'

one=$("$engine" speedtest 10 1 64 | sed -n 's/^Nodes\/s *//p')
two=$("$engine" speedtest 10 2 64 | sed -n 's/^Nodes\/s *//p')
awk -v a="$one" -v b="$two" 'BEGIN { printf "one thread %d nps, two %d nps, ratio %.2f\n", a, b, b / a }'
