#!/usr/bin/env bash
# One generation of networks: games by the engine as it is, a network from them, a match that decides.
#
#   scripts/generation.sh FOLDER RECIPE [NET]
#
# FOLDER keeps everything of the generation; RECIPE is trained on FOLDER/train.vf and what else it names; NET plays the games
# and is the rival of the match: a file, the network that ships if left out, the hand-written evaluation if it is the word
# bootstrap. Every step that is done is passed over when the script is run again, and games, leaves, training and match go on
# where they were.
#
# FROM=FILE takes games that were played elsewhere. TEACHER=FILE is a transformer: then leaves are not searched, quiet ones are
# kept, and it says what they are worth. recipes/generation.toml is for games of our own, recipes/tandem.toml for a teacher's word.
#
# GAMES (50000), NODES (400), LEAVES (16 of each search, 128 with a teacher, 0 for none), LEAF_NODES (40 for the search and for
# each leaf's score; 32 with a teacher), ROOTS (a file of positions to search for leaves; if unset every fifth of the games', or three of
# a hundred with a teacher), PART (30000 roots, whose leaves a teacher judges while those of the next are found), DEEP_NODES (0:
# the leaves of every fourth part are searched with so many nodes as well, and half of their score is the search's; for a NET
# whose centipawns are the teacher's, 125 to a logit, as those of its pupils are), WORKERS (all cores), HELD (0.02 of the games
# for validation, and for the test), DEVICE (auto; the teacher takes the processor unless told), MATCH_GAMES (400), TC (5+0.05),
# BOOK (no book if unset)
set -euo pipefail
usage="usage: scripts/generation.sh FOLDER RECIPE [NET]"
folder=${1:?$usage} net=${3:-}
there() { [ -e "$1" ] && realpath "$1" || { echo "$1: no such file" >&2; return 1; }; }
recipe=$(there "${2:?$usage}")
case $net in "" | bootstrap) ;; *) net=$(there "$net") ;; esac
from= teacher= book= roots=
[ -z "${FROM:-}" ] || from=$(there "$FROM")
[ -z "${BOOK:-}" ] || book=$(there "$BOOK")
[ -z "${ROOTS:-}" ] || roots=$(there "$ROOTS")
[ -z "${TEACHER:-}" ] || teacher=$(there "$TEACHER")
[ -n "$teacher" ] && usual=(128 32 0.97) || usual=(16 40 0.8)
leaves=${LEAVES:-${usual[0]}} leaf_nodes=${LEAF_NODES:-${usual[1]}} deep_nodes=${DEEP_NODES:-0}
[ -z "$teacher" ] || [ "$leaves" -gt 0 ] || { echo "a teacher judges leaves: LEAVES=0 leaves it none" >&2; exit 2; }
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
        --validation-share "${HELD:-0.02}" --test-share "${HELD:-0.02}"
    mv part.vf train.vf
fi
"$lab" data stats train.vf | head -n 12

step "Leaves"
search=("$lab" data label --leaves "$leaves" --threads "$workers" ${net:+--net "$net"})

# Quiet leaves of each part of the roots in FOLDER, at low priority: whoever judges them needs the processor first. Those that were
# searched as well are called deep.
find_leaves() { # FOLDER
    local roots part
    # A script that was killed may have left its finder behind, which goes when its part is done.
    exec 9>"$1/finder.lock"
    flock 9
    for roots in "$1"/roots-*.bin; do
        kill -0 $$ 2>/dev/null || exit 130
        part=${roots##*roots-}
        [ -z "$(found "$1" "$part")" ] && [ ! -e "$1/taught-$part" ] || continue
        if [ ! -e "$1/filtered-$part" ]; then
            nice -n 19 "${search[@]}" "$roots" -o "$1/all-$part" --nodes "$leaf_nodes" --unsearched
            nice -n 19 "$lab" data convert "$1/all-$part" -o "$1/filtered-$part" --filter quiet,max-score=1500
            rm "$1/all-$part"
        fi
        # The last of four, so that few parts, as those of the validation, are the teacher's alone.
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

# The leaves of a part, once they are there.
found() { # FOLDER PART
    ls "$1/quiet-$2" "$1/deep-$2" 2>/dev/null || true
}

# Leaves of a part are found while those of the part before are judged.
taught() { # NAME ROOTS
    local parts=$1.parts roots part keep file
    [ -s "$2" ] || { echo "$2 has no positions" >&2; exit 1; }
    mkdir -p "$parts"
    if [ ! -e "$parts/dealt" ]; then
        rm -f "$parts"/roots-*
        # A record of this format has 40 bytes, and files of it can be joined.
        split --bytes=$((40 * ${PART:-30000})) --numeric-suffixes --suffix-length=5 --additional-suffix=.bin "$2" "$parts/roots-"
        touch "$parts/dealt"
    fi
    # In a group of its own, so that it ends with all that it has started.
    set -m
    find_leaves "$parts" >>"$parts/find.log" 2>&1 </dev/null &
    finder=$!
    set +m
    trap 'kill -- -"$finder" 2>/dev/null || true' EXIT
    trap 'exit 130' INT TERM
    for roots in "$parts"/roots-*.bin; do
        part=${roots##*roots-}
        [ ! -e "$parts/taught-$part" ] || continue
        until file=$(found "$parts" "$part") && [ -n "$file" ]; do
            kill -0 "$finder" 2>/dev/null || [ -n "$(found "$parts" "$part")" ] || { tail -n 3 "$parts/find.log" >&2; exit 1; }
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
            taught "$1" "$2"
        else
            "${search[@]}" "$2" -o "$1" --nodes "$3"
        fi
    fi
    rm -rf "$1.parts"
}
if [ "$leaves" -gt 0 ]; then
    chosen=("$roots")
    [ -n "$roots" ] || chosen=(train.vf --filter "skip=${usual[2]}")
    [ -e roots.bin ] || "$lab" data convert "${chosen[@]}" -o roots.bin
    [ -e valid-roots.bin ] || "$lab" data convert valid.vf -o valid-roots.bin --filter skip=0.95
    positions leaves.bin roots.bin "$leaf_nodes"
    positions valid-leaves.bin valid-roots.bin "${NODES:-400}"
fi

step "Train"
resume=$([ -e "run/recipe.toml" ] && echo --resume || true)
[ -e "run/$name.tnn" ] || "$lab" train "$recipe" --run run --device "${DEVICE:-auto}" $resume

step "Prove"
"$lab" verify "run/$name.tnn" --against "run/$name.safetensors"
# Games from elsewhere may have no scores; then there are those that the recipe was validated on.
proof=(test.vf --filter "no-checks,no-captures,min-ply=16")
[ -z "$from" ] || [ "$leaves" -eq 0 ] || proof=(valid-leaves.bin)
rivals=(bootstrap)
case $net in "" | bootstrap) ;; *) rivals=("$net" bootstrap) ;; esac
"$lab" evaluate "run/$name.tnn" "${rivals[@]}" --data "${proof[@]}" --fit-scale

step "Match"
"$lab" match --engine "cmd=$engine,name=new,option.EvalFile=$PWD/run/$name.tnn" \
    --engine "cmd=$engine,name=old${net:+,option.EvalFile=$net}" --each "tc=${TC:-5+0.05},option.Hash=16" \
    --games "${MATCH_GAMES:-400}" --concurrency "$workers" ${book:+--openings "$book"} --pgn match.pgn --state match.state |
    tee match.txt | tail -n 6
