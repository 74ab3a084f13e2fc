#!/usr/bin/env bash
# Checks the C interface as its users would use it: builds the examples with every compiler at hand, and
# compares their values with those of Rust.
#
#   scripts/check_c.sh NETWORK FENS
set -euo pipefail
usage="usage: scripts/check_c.sh NETWORK FENS"
[ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }
network=$(realpath "$1") fens=$(realpath "$2")
cd "$(dirname "$0")/.."

cargo build --release --package tandem-nnue-c
cargo build --release --package tandem-nnue --example evaluate
out=target/c-examples
mkdir -p "$out"

target/release/examples/evaluate "$network" <"$fens" 2>/dev/null | cut -d' ' -f4 >"$out/rust.txt"
include=crates/nnue-c/include
library=target/release/libtandem_nnue_c.a
for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null || { echo "not run: $compiler is missing"; continue; }
    "$compiler" -std=c++17 -O2 -Wall -Wextra -Werror -I"$include" -o "$out/evaluate-$compiler" \
        crates/nnue-c/examples/cpp/main.cpp "$library" -lpthread -ldl -lm
    "$out/evaluate-$compiler" "$network" "$fens" >"$out/$compiler.txt"
    cmp "$out/rust.txt" "$out/$compiler.txt"
    echo "$compiler: $(wc -l <"$out/$compiler.txt") positions, the same values"
done
make -s -C crates/nnue-c/examples/c TANDEM_LIB="$PWD/target/release" clean follow
crates/nnue-c/examples/c/follow "$network" e2e4 e7e5 g1f3 | cut -d' ' -f2 >"$out/follow.txt"
target/release/examples/evaluate "$network" 2>/dev/null <<'FENS' | cut -d' ' -f4 | cmp - "$out/follow.txt"
rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1
rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2
rnbqkbnr/pppp1ppp/8/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R b KQkq - 1 2
FENS
echo "follow: the same values after each move"
refused() { # WHAT FOLLOW'S-ARGUMENTS...
    if crates/nnue-c/examples/c/follow "${@:2}" >/dev/null 2>&1; then
        echo "follow took $1" >&2
        exit 1
    fi
}
refused "an illegal move" "$network" e2e5
refused "a file that is not a network" Cargo.toml
if command -v cmake >/dev/null; then
    cmake -S crates/nnue-c/examples/cpp -B "$out/cmake" -DTANDEM_LIB="$PWD/target/release" >/dev/null
    cmake --build "$out/cmake" >/dev/null && echo "cmake: built"
fi
if command -v valgrind >/dev/null; then
    # Valgrind does not support AVX-512, so the library is built for x86-64-v2.
    RUSTFLAGS="-C target-cpu=x86-64-v2" cargo build --release --package tandem-nnue-c --target-dir target/portable
    g++ -std=c++17 -O2 -I"$include" -o "$out/evaluate-valgrind" crates/nnue-c/examples/cpp/main.cpp \
        target/portable/release/libtandem_nnue_c.a -lpthread -ldl -lm
    valgrind -q --leak-check=full --error-exitcode=9 "$out/evaluate-valgrind" "$network" "$fens" >"$out/valgrind.txt"
    cmp "$out/rust.txt" "$out/valgrind.txt"
    echo "valgrind: clean, the same values"
fi
