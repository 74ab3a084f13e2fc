#!/usr/bin/env bash
# What only a card can show of transformers' training: the tests there, steps against PyTorch's, one command as the page has it,
# and what happens where memory ends.
#
#     scripts/check_card.sh LAB TESTS GAMES [OUT]
#
# LAB is a tandem-lab with libtorch, TESTS the program of crates/torch's tests (`cargo test --release --package tandem-torch
# --features torch --no-run` names it), GAMES any games that the lab reads. Nothing is compiled here, so both may come from
# another machine; `python3` must have PyTorch. Each part writes its own log into OUT, and a part that fails stops no other.
# PARTS names those that are wanted, where it is not all: PARTS="train step".
set -uo pipefail
lab=$(realpath "${1:?usage: scripts/check_card.sh LAB TESTS GAMES [OUT]}") tests=$(realpath "$2") games=$(realpath "$3")
out=$(mkdir -p "${4:-card}" && realpath "${4:-card}")
root=$(cd "$(dirname "$0")/.." && pwd)
torch=$(python3 -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent / "lib")') || exit 1
export LD_LIBRARY_PATH=$torch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

part() { # NAME COMMAND...
    local name=$1 began=$SECONDS
    [[ " ${PARTS:-$name} " == *" $name "* ]] || return
    shift
    "$@" >"$out/$name.log" 2>&1
    echo "$name: exit $?, $((SECONDS - began)) s"
    tail -n 3 "$out/$name.log" | sed 's/^/    /'
}

recipe() { # NAME, then lines of [training] on standard input
    cat >"$1.toml" <<RECIPE
name = "$1"
rate = 1e-3
[data]
train = [{ path = "$games" }]
validation_share = 0.02
[network]
preset = "byte"
[training]
$(cat)
RECIPE
}

part tests "$tests" --test-threads 1
part speed python3 "$root/scripts/training_speed.py" "$lab" "$games" --device cuda --batch 256 4096 --attention plain smolgen
recipe byte <<<'batch = 1024
positions = 1_000_000
validate_every = 500_000
validation_positions = 5_000
precision = "bf16"
graph = true'
part train "$lab" train byte.toml --device cuda --run runs/byte-cuda
part step "$lab" train-speed --recipe byte.toml --device cuda --steps 40
recipe endless <<<'batch = 1_000_000
positions = 2_000_000
precision = "bf16"'
part memory "$lab" train endless.toml --device cuda --run runs/endless
part nccl "$(command -v torchrun || echo torchrun)" --standalone --nproc-per-node 1 --no-python -- \
    "$lab" train byte.toml --device cuda --run runs/byte-nccl --set training.positions=200_000
part processes bash "$root/scripts/check_torchrun.sh" "$lab" "$(command -v torchrun || echo torchrun)" "$games"
