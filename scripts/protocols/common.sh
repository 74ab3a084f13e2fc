# Settings and functions that the protocols share. Sourced by them, not run by itself.
#
# Environment, with defaults:
#   LAB        the tandem-lab program   (target/release/tandem-lab)
#   ENGINE     the engine under test    (target/release/tandem)
#   STOCKFISH  Debian's Stockfish       (/usr/games/stockfish)
#   BOOKS      folder of opening books  (books in TANDEM_DATA, or in ../shared/data)
#   RESULTS    folder for results       (target/matches)
#   GAMES, CONCURRENCY                  override the protocol's own

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

LAB=${LAB:-$ROOT/target/release/tandem-lab}
ENGINE=${ENGINE:-$ROOT/target/release/tandem}
STOCKFISH=${STOCKFISH:-/usr/games/stockfish}
DATA=${TANDEM_DATA:-$(cd "$ROOT/.." && pwd)/shared/data}
BOOKS=${BOOKS:-$DATA/books}
RESULTS=${RESULTS:-$ROOT/target/matches}
CONCURRENCY=${CONCURRENCY:-$(nproc)}

need() {
    [ -e "$1" ] || { echo "$(basename "$0"): $1 is missing: $2" >&2; exit 1; }
}

need "$LAB" "cargo build --release -p tandem-lab"
need "$ENGINE" "${BUILD:-cargo build --release}"
need "$BOOKS" "set BOOKS to a folder with opening books"

# Prefix of a build's hash, part of every default NAME, so that each build gets a folder of its own.
build() {
    sha256sum "$1" | cut -c 1-12
}

# Creates the folder of a run and sets OUTPUTS to its files. A run with the same NAME and the same builds
# resumes.
outputs() { # NAME
    local folder=$RESULTS/$1
    mkdir -p "$folder"
    OUTPUTS=(--pgn "$folder/games.pgn" --state "$folder/match.state" --json "$folder/match.json"
        --html "$folder/report.html" --event "$1")
}

# Fails if an engine forfeited a game of the run.
no_forfeits() { # NAME
    python3 - "$RESULTS/$1/match.json" <<'CHECK'
import json, sys

engines = json.load(open(sys.argv[1]))["engines"]
problems = [f"{engine['name']} forfeited {engine['forfeits']}" for engine in engines if any(engine["forfeits"].values())]
if problems:
    sys.exit("; ".join(problems))
CHECK
}

BALANCED=(--openings "$BOOKS/noob_3moves.epd.zst" --order random --seed 1)
UNBALANCED=(--openings "$BOOKS/UHO_4060_v3.epd.zst" --order random --seed 1)
ADJUDICATE=(--resign moves=3,score=600 --draw number=34,moves=8,score=20)
