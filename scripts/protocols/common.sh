# What the protocols share. Not to be run by itself.
#
# Set in the environment:
#   LAB        the tandem-lab program   (target/release/tandem-lab)
#   ENGINE     the engine under test    (target/release/tandem)
#   STOCKFISH  Debian's Stockfish       (/usr/games/stockfish)
#   BOOKS      folder of opening books  (../shared/data/books)
#   RESULTS    where results go         (target/matches)
#   GAMES, CONCURRENCY                  to override what a protocol says

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

LAB=${LAB:-target/release/tandem-lab}
ENGINE=${ENGINE:-target/release/tandem}
STOCKFISH=${STOCKFISH:-/usr/games/stockfish}
BOOKS=${BOOKS:-../shared/data/books}
RESULTS=${RESULTS:-target/matches}
CONCURRENCY=${CONCURRENCY:-$(nproc)}

need() {
    [ -e "$1" ] || { echo "$(basename "$0"): $1 is missing: $2" >&2; exit 1; }
}

need "$LAB" "cargo build --release -p tandem-lab"
need "$ENGINE" "cargo build --release"
need "$BOOKS" "set BOOKS to a folder with opening books"

# What tells builds apart: part of every NAME that is not given, so that another build gets a folder of its own.
build() {
    sha256sum "$1" | cut -c 1-12
}

# Every run has a folder of its own; the same NAME goes on where it was stopped, if the builds are the same.
outputs() {
    mkdir -p "$RESULTS/$1"
    echo --pgn "$RESULTS/$1/games.pgn" --state "$RESULTS/$1/match.state" \
        --json "$RESULTS/$1/match.json" --html "$RESULTS/$1/report.html" --event "$1"
}

BALANCED=(--openings "$BOOKS/noob_3moves.epd.zst" --order random --seed 1)
UNBALANCED=(--openings "$BOOKS/UHO_4060_v3.epd.zst" --order random --seed 1)
ADJUDICATE=(--resign moves=3,score=600 --draw number=34,moves=8,score=20)
