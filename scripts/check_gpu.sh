#!/usr/bin/env bash
# The checks of transformer training that need a GPU: unit tests, speed against PyTorch, a run as the
# documentation describes it, running out of memory, and distributed training.
#
#     scripts/check_gpu.sh LAB TESTS GAMES [OUT]
#
# LAB is a tandem-lab with libtorch, TESTS the test binary of crates/torch (`cargo test --release --package
# tandem-torch --features torch --no-run` prints its path), GAMES any games that the lab reads. TRAIN_TESTS may name
# the test binary of crates/train (`--package tandem-train --lib`), whose CUDA trainer is then tested too. Nothing
# is compiled here, so all may come from another machine; `python3` must have PyTorch. Each part writes its own
# log to OUT, and a part that fails does not stop the others. PARTS selects parts, for example PARTS="train
# step"; the default is all. The exit status is 1 if a part failed.
set -uo pipefail
usage="usage: scripts/check_gpu.sh LAB TESTS GAMES [OUT]"
[ $# -ge 3 ] || { echo "$usage" >&2; exit 2; }
lab=$(realpath "$1") tests=$(realpath "$2") games=$(realpath "$3")
out=$(mkdir -p "${4:-gpu}" && realpath "${4:-gpu}")
root=$(cd "$(dirname "$0")/.." && pwd)
torch=$(python3 -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent / "lib")') || exit 1
export LD_LIBRARY_PATH=$torch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

failed=() ran=0
part() { # NAME COMMAND...
    local name=$1 start=$SECONDS
    [[ " ${PARTS:-$name} " == *" $name "* ]] || return
    shift
    "$@" >"$out/$name.log" 2>&1
    local status=$?
    echo "$name: exit $status, $((SECONDS - start)) s"
    [ $status = 0 ] || failed+=("$name")
    ran=$((ran + 1))
    tail -n 3 "$out/$name.log" | sed 's/^/    /'
}

recipe() { # NAME, then lines of [training] on standard input
    cat >"$1.toml" <<RECIPE
name = "$1"
lr = 1e-3
[data]
train = [{ path = "$games" }]
validation_fraction = 0.02
[network]
preset = "byte"
[training]
$(cat)
RECIPE
}

# With the tests that need a GPU, which `cargo test` ignores.
part tests "$tests" --include-ignored --test-threads 1
[ -z "${TRAIN_TESTS:-}" ] || part cuda "$(realpath "$TRAIN_TESTS")" --include-ignored --test-threads 1 cuda::
part speed python3 "$root/scripts/training_speed.py" "$lab" "$games" --device cuda --batch 256 4096 --attention plain smolgen
recipe byte <<<'batch = 1024
positions = 1_000_000
validate_every = 500_000
validation_positions = 5_000
precision = "bf16"
cuda_graph = true'
part train "$lab" train byte.toml --device cuda --run runs/byte-cuda
part step "$lab" train-speed --recipe byte.toml --device cuda --steps 40
recipe endless <<<'batch = 1_000_000
positions = 2_000_000
precision = "bf16"'
part memory "$lab" train endless.toml --device cuda --run runs/endless
part nccl "$(command -v torchrun || echo torchrun)" --standalone --nproc-per-node 1 --no-python -- \
    "$lab" train byte.toml --device cuda --run runs/byte-nccl --set training.positions=200_000 --set training.cuda_graph=false
part processes bash "$root/scripts/check_torchrun.sh" "$lab" "$(command -v torchrun || echo torchrun)" "$games"

echo "$ran parts ran, ${#failed[@]} failed: ${failed[*]:-none}"
[ ${#failed[@]} = 0 ]
