#!/usr/bin/env bash
# One generation of networks: games by the engine as it is, a network from them, a match that decides.
#
#   scripts/generation.sh FOLDER RECIPE [NET]
#
# FOLDER keeps everything of the generation; RECIPE is trained on FOLDER/train.vf and what else it names; NET plays the games
# and is the rival of the match: a file, the network that ships if left out, the hand-written evaluation if it is the word
# bootstrap. Every step that is done is passed over when the script is run again, and games, training and match go on where
# they were.
#
# FROM=FILE takes games that were played elsewhere. TEACHER=FILE is a transformer: then leaves are not searched, quiet ones are
# kept, and it says what they are worth. recipes/generation.toml is for games of our own, recipes/tandem.toml for a teacher's word.
#
# GAMES (50000), NODES (400), LEAVES (16 of each search, 32 with a teacher, 0 for none), LEAF_NODES (40 for the search and for
# each leaf's score; 16 with a teacher), ROOTS (positions to search for leaves; every fifth of the games' if unset), WORKERS (all
# cores), HELD (0.02 of the games for validation, and for the test), DEVICE (auto), MATCH_GAMES (400), TC (5+0.05), BOOK (no book
# if unset)
set -euo pipefail
folder=$1 recipe=$(realpath "$2") net=${3:-}
case $net in "" | bootstrap) ;; *) net=$(realpath "$net") ;; esac
from=${FROM:+$(realpath "$FROM")} teacher=${TEACHER:+$(realpath "$TEACHER")}
leaves=${LEAVES:-$([ -n "$teacher" ] && echo 32 || echo 16)} leaf_nodes=${LEAF_NODES:-$([ -n "$teacher" ] && echo 16 || echo 40)}
root=$(cd "$(dirname "$0")/.." && pwd)
lab=$root/target/release/tandem-lab engine=$root/target/release/tandem
name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$recipe" | head -n 1)
mkdir -p "$folder" && cd "$folder"

step() { printf '\n== %s\n' "$*"; }

step "Games"
if [ -z "$from" ] && [ ! -e games.done ]; then
    "$lab" data selfplay games --games "${GAMES:-50000}" --nodes "${NODES:-400}" --workers "${WORKERS:-$(nproc)}" \
        ${net:+--net "$net"}
    touch games.done
fi

step "Split by games"
if [ ! -e train.vf ]; then
    "$lab" data split ${from:-games-*.vf} --train part.vf --validation valid.vf --test test.vf \
        --validation-share "${HELD:-0.02}" --test-share "${HELD:-0.02}"
    mv part.vf train.vf
fi
"$lab" data stats train.vf | head -n 12

step "Leaves"
positions() { # NAME ROOTS NODES: positions that searches of the roots have evaluated
    [ ! -e "$1" ] || return 0
    local search=("$lab" data label "$2" --leaves "$leaves" --threads "${WORKERS:-$(nproc)}" ${net:+--net "$net"})
    if [ -z "$teacher" ]; then
        "${search[@]}" -o "$1" --nodes "$3"
    else
        [ -e "quiet-$1" ] || {
            "${search[@]}" -o "all-$1" --nodes "$leaf_nodes" --unsearched
            "$lab" data convert "all-$1" -o "quiet-$1" --filter quiet,max-score=1500
            rm "all-$1"
        }
        "$lab" data label "quiet-$1" -o "$1" --transformer "$teacher" --scale 125 --device "${DEVICE:-cpu}"
        rm "quiet-$1"
    fi
}
if [ "$leaves" -gt 0 ]; then
    [ -e roots.bin ] || "$lab" data convert ${ROOTS:-train.vf} -o roots.bin $([ -n "${ROOTS:-}" ] || echo --filter skip=0.8)
    [ -e valid-roots.bin ] || "$lab" data convert valid.vf -o valid-roots.bin --filter skip=0.95
    positions leaves.bin roots.bin "$leaf_nodes"
    positions valid-leaves.bin valid-roots.bin "${NODES:-400}"
fi

step "Train"
resume=$([ -e "run/recipe.toml" ] && echo --resume || true)
[ -e "run/$name.tnn" ] || "$lab" train "$recipe" --run run --device "${DEVICE:-auto}" $resume

step "Prove"
"$lab" verify "run/$name.tnn" --against "run/$name.safetensors"
proof=(test.vf --filter "no-checks,no-captures,min-ply=16")
[ -z "$teacher" ] || proof=(valid-leaves.bin)
"$lab" evaluate "run/$name.tnn" $([ "$net" = bootstrap ] || printf %s "$net") bootstrap --data "${proof[@]}" --fit-scale

step "Match"
"$lab" match --engine "cmd=$engine,name=new,option.EvalFile=$PWD/run/$name.tnn" \
    --engine "cmd=$engine,name=old${net:+,option.EvalFile=$net}" --each "tc=${TC:-5+0.05},option.Hash=16" \
    --games "${MATCH_GAMES:-400}" --concurrency "${WORKERS:-$(nproc)}" ${BOOK:+--openings "$BOOK"} --pgn match.pgn --state match.state |
    tee match.txt | tail -n 6
