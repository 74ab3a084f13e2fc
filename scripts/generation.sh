#!/usr/bin/env bash
# One generation of networks: games by the current engine, a network trained on them, and a match between the
# two.
#
#   scripts/generation.sh FOLDER RECIPE [NET]
#
# FOLDER keeps everything of the generation. RECIPE is trained on FOLDER/train.vf and any other data that it
# names. NET plays the games and is the opponent in the match: a file, the network that ships if omitted, or
# the word bootstrap for the hand-written evaluation. Steps that are done are skipped when the script is run
# again, and games, leaves, training and match resume.
#
# FROM=FILE uses games that were played elsewhere. TEACHER=FILE is a transformer that scores the leaves: they
# are not searched, and only quiet ones are kept. recipes/generation.toml is meant for self-play,
# recipes/tandem.toml for a teacher.
#
# Environment, with defaults:
#   GAMES=50000         self-play games
#   NODES=400           nodes of each move in self-play, and of searches for validation leaves
#   LEAVES=16           leaves of each search; 128 with a teacher; 0 disables leaves
#   LEAF_NODES=40       nodes of the search and of each leaf's score; 32 with a teacher
#   ROOTS=              positions to search for leaves; if unset 20 % of the games' positions, 3 % with a teacher
#   PART=30000          roots in a part; a teacher scores one part while the leaves of the next are found
#   DEEP_NODES=0        with a teacher: the leaves of every fourth part are also searched with this many nodes,
#                       and the search's score counts for one half. For a NET on the teacher's scale, 125
#                       centipawns to a logit, as networks trained on its scores are.
#   WORKERS=            threads; all cores if unset
#   HELD=0.02           fraction of the games for validation, and the same for the test
#   DEVICE=auto         device for training; a teacher runs on the CPU unless DEVICE is set
#   MATCH_GAMES=400     games of the match
#   TC=5+0.05           time control of the match
#   BOOK=               opening book of the match; none if unset
set -euo pipefail
usage="usage: scripts/generation.sh FOLDER RECIPE [NET]"
[ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }
folder=$1 net=${3:-}
existing() { [ -e "$1" ] && realpath "$1" || { echo "$1: no such file" >&2; return 1; }; }
recipe=$(existing "$2")
case $net in "" | bootstrap) ;; *) net=$(existing "$net") ;; esac
from= teacher= book= roots=
[ -z "${FROM:-}" ] || from=$(existing "$FROM")
[ -z "${BOOK:-}" ] || book=$(existing "$BOOK")
[ -z "${ROOTS:-}" ] || roots=$(existing "$ROOTS")
[ -z "${TEACHER:-}" ] || teacher=$(existing "$TEACHER")
[ -n "$teacher" ] && defaults=(128 32 0.97) || defaults=(16 40 0.8)
leaves=${LEAVES:-${defaults[0]}} leaf_nodes=${LEAF_NODES:-${defaults[1]}} deep_nodes=${DEEP_NODES:-0}
[ -z "$teacher" ] || [ "$leaves" -gt 0 ] || { echo "a teacher needs leaves to score, so LEAVES=0 is not possible" >&2; exit 2; }
workers=${WORKERS:-$(nproc)}
root=$(cd "$(dirname "$0")/.." && pwd)
lab=$root/target/release/tandem-lab engine=$root/target/release/tandem
name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$recipe" | head -n 1)
mkdir -p "$folder" && cd "$folder"

step() { printf '\n== %s\n' "$*"; }

step "Games"
if [ -z "$from" ] && [ ! -e train.vf ]; then
    if [ ! -e games.done ]; then
        "$lab" data selfplay games --games "${GAMES:-50000}" --nodes "${NODES:-400}" --workers "$workers" ${net:+--net "$net"}
        touch games.done
    fi
fi

step "Split by games"
if [ ! -e train.vf ]; then
    games=("$from")
    [ -n "$from" ] || games=(games-*.vf)
    "$lab" data split "${games[@]}" --train part.vf --validation valid.vf --test test.vf \
        --validation-fraction "${HELD:-0.02}" --test-fraction "${HELD:-0.02}"
    mv part.vf train.vf
fi
"$lab" data stats train.vf | head -n 12

step "Leaves"
search=("$lab" data label --leaves "$leaves" --threads "$workers" ${net:+--net "$net"})

# Finds the quiet leaves of each part of the roots in FOLDER, at low priority, because the teacher needs the
# CPU first. Files of leaves that were searched as well are named deep-*.
find_leaves() { # FOLDER
    local roots part
    # An earlier run that was killed may have left a finder, which ends after its part.
    exec 9>"$1/finder.lock"
    flock 9
    for roots in "$1"/roots-*.bin; do
        kill -0 $$ 2>/dev/null || exit 130
        part=${roots##*roots-}
        [ -z "$(leaves_of "$1" "$part")" ] && [ ! -e "$1/taught-$part" ] || continue
        if [ ! -e "$1/filtered-$part" ]; then
            nice -n 19 "${search[@]}" "$roots" -o "$1/all-$part" --nodes "$leaf_nodes" --unsearched
            nice -n 19 "$lab" data convert "$1/all-$part" -o "$1/filtered-$part" --filter quiet,max-score=1500
            rm "$1/all-$part"
        fi
        # The last of every four, so that data with few parts, such as the validation, is scored by the
        # teacher only.
        if [ "$deep_nodes" -gt 0 ] && [ $((10#${part%.bin} % 4)) -eq 3 ]; then
            nice -n 19 "$lab" data label --threads "$workers" ${net:+--net "$net"} "$1/filtered-$part" -o "$1/searched-$part" \
                --nodes "$deep_nodes"
            rm "$1/filtered-$part"
            mv "$1/searched-$part" "$1/deep-$part"
        else
            mv "$1/filtered-$part" "$1/quiet-$part"
        fi
    done
}

# Prints the file with the leaves of a part, if it exists.
leaves_of() { # FOLDER PART
    ls "$1/quiet-$2" "$1/deep-$2" 2>/dev/null || true
}

# The leaves of a part are found while those of the part before are scored.
score_with_teacher() { # NAME ROOTS
    local parts=$1.parts roots part keep file
    [ -s "$2" ] || { echo "$2 has no positions" >&2; exit 1; }
    mkdir -p "$parts"
    if [ ! -e "$parts/dealt" ]; then
        rm -f "$parts"/roots-*
        # Records of this format have 40 bytes, and its files can be concatenated.
        split --bytes=$((40 * ${PART:-30000})) --numeric-suffixes --suffix-length=5 --additional-suffix=.bin "$2" "$parts/roots-"
        touch "$parts/dealt"
    fi
    # A process group of its own, so that the trap below ends its children too.
    set -m
    find_leaves "$parts" >>"$parts/find.log" 2>&1 </dev/null &
    finder=$!
    set +m
    trap 'kill -- -"$finder" 2>/dev/null || true' EXIT
    trap 'exit 130' INT TERM
    for roots in "$parts"/roots-*.bin; do
        part=${roots##*roots-}
        [ ! -e "$parts/taught-$part" ] || continue
        until file=$(leaves_of "$parts" "$part") && [ -n "$file" ]; do
            kill -0 "$finder" 2>/dev/null || [ -n "$(leaves_of "$parts" "$part")" ] || { tail -n 3 "$parts/find.log" >&2; exit 1; }
            sleep 0.2
        done
        keep=0
        case $file in */deep-*) keep=0.5 ;; esac
        "$lab" data label "$file" -o "$parts/taught-$part" --transformer "$teacher" --scale 125 --keep "$keep" \
            --device "${DEVICE:-cpu}"
        rm "$file"
    done
    wait "$finder"
    trap - EXIT INT TERM
    cat "$parts"/taught-*.bin >"$1.part"
    mv "$1.part" "$1"
}

positions() { # NAME ROOTS NODES: positions that searches of the roots have evaluated
    if [ ! -e "$1" ]; then
        if [ -n "$teacher" ]; then
            score_with_teacher "$1" "$2"
        else
            "${search[@]}" "$2" -o "$1" --nodes "$3"
        fi
    fi
    rm -rf "$1.parts"
}
if [ "$leaves" -gt 0 ]; then
    sources=("$roots")
    [ -n "$roots" ] || sources=(train.vf --filter "skip=${defaults[2]}")
    [ -e roots.bin ] || "$lab" data convert "${sources[@]}" -o roots.bin
    [ -e valid-roots.bin ] || "$lab" data convert valid.vf -o valid-roots.bin --filter skip=0.95
    positions leaves.bin roots.bin "$leaf_nodes"
    positions valid-leaves.bin valid-roots.bin "${NODES:-400}"
fi

step "Train"
resume=$([ -e "run/recipe.toml" ] && echo --resume || true)
[ -e "run/$name.tnn" ] || "$lab" train "$recipe" --run run --device "${DEVICE:-auto}" $resume

step "Evaluate"
"$lab" verify "run/$name.tnn" --against "run/$name.safetensors"
# Games from elsewhere may have no scores; then the recipe's validation positions are used.
test_data=(test.vf --filter "no-checks,no-captures,min-ply=16")
[ -z "$from" ] || [ "$leaves" -eq 0 ] || test_data=(valid-leaves.bin)
baselines=(bootstrap)
case $net in "" | bootstrap) ;; *) baselines=("$net" bootstrap) ;; esac
"$lab" evaluate "run/$name.tnn" "${baselines[@]}" --data "${test_data[@]}" --fit-scale

step "Match"
"$lab" match --engine "cmd=$engine,name=new,option.EvalFile=$PWD/run/$name.tnn" \
    --engine "cmd=$engine,name=old${net:+,option.EvalFile=$net}" --each "tc=${TC:-5+0.05},option.Hash=16" \
    --games "${MATCH_GAMES:-400}" --concurrency "$workers" ${book:+--openings "$book"} --pgn match.pgn --state match.state |
    tee match.txt | tail -n 6
