#!/usr/bin/env bash
# Checks that two processes under torchrun, one of them killed on the way, train like a single process.
#
#     scripts/check_torchrun.sh LAB TORCHRUN DATA
#
# LAB is a tandem-lab with libtorch, TORCHRUN that of a whole PyTorch (scripts/libtorch.sh FOLDER --whole),
# DATA any games that the lab reads. A small network is trained by one process; then by two, of which the
# second is killed (-9) after the first checkpoint. torchrun restarts both, they resume, and the validation
# losses of both runs are compared.
set -euo pipefail

usage="usage: scripts/check_torchrun.sh LAB TORCHRUN DATA"
[ $# -ge 3 ] || { echo "$usage" >&2; exit 2; }
lab=$(realpath "$1") torchrun=$(realpath "$2") data=$(realpath "$3")
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
cat >small.toml <<RECIPE
name = "small"
lr = 1e-3
[data]
train = [{ path = "$data" }]
validation_fraction = 0.05
[network]
architecture = "$root/crates/transformer/tests/architectures/squares.toml"
[training]
batch = 64
positions = 38_400
validate_every = 6_400
validation_positions = 500
RECIPE

echo "== one process"
"$lab" train small.toml --run one --device cpu 2>&1 | grep -E 'validation|positions in'

echo "== two processes, one of which is killed"
"$torchrun" --standalone --nproc-per-node 2 --max-restarts 2 --no-python -- \
    "$lab" train small.toml --run two --resume --device cpu >two.log 2>&1 &
until compgen -G 'two/step-*' >/dev/null || ! kill -0 $! 2>/dev/null; do sleep 0.2; done
killed=0
for process in $(pgrep -f "^$lab train small.toml --run two"); do
    if tr '\0' '\n' <"/proc/$process/environ" | grep -qx RANK=1 && kill -9 "$process"; then
        echo "killed process $process, rank 1"
        killed=1
    fi
done
[ $killed = 1 ] || { echo "rank 1 was not found and not killed"; tail -n 20 two.log; exit 1; }
wait $! || { tail -n 20 two.log; exit 1; }
grep -E 'validation|resuming' two.log
grep -q 'resuming' two.log

python3 - one/log.jsonl two/log.jsonl <<'CHECK'
import json, sys
def losses(path):
    lines = [json.loads(line) for line in open(path)]
    return {line["step"]: line["validation/loss"] for line in lines if "validation/loss" in line}
one, two = map(losses, sys.argv[1:])
differences = [abs(one[step] - two[step]) / one[step] for step in sorted(one)]
print("relative differences of the validation losses:", ", ".join(f"{value:.1e}" for value in differences))
# Sums in another order drift apart with the number of steps.
sys.exit(sorted(one) != sorted(two) or differences[0] > 1e-3 or max(differences) > 1e-2)
CHECK
