#!/usr/bin/env bash
# Where the engine stands: a gauntlet against Debian's Stockfish, limited to some strengths and unlimited. The rating
# list is anchored at Stockfish's own scale by `tandem-lab elo --anchor`.
#   scripts/protocols/gauntlet.sh [NAME]     STEPS="1800 2200 2600" TC=5+0.05 GAMES=100 FULL=no
source "$(dirname "$0")/common.sh"
name=${1:-gauntlet}
need "$STOCKFISH" "apt-get install stockfish"
steps=${STEPS:-1800 2200 2600}
engines=(--engine "cmd=$ENGINE,name=Tandem")
for elo in $steps; do
    engines+=(--engine "cmd=$STOCKFISH,name=Stockfish $elo,option.UCI_LimitStrength=true,option.UCI_Elo=$elo")
done
[ "${FULL:-yes}" = no ] || engines+=(--engine "cmd=$STOCKFISH,name=Stockfish full")
# shellcheck disable=SC2046
"$LAB" match --gauntlet 1 "${engines[@]}" --each "tc=${TC:-5+0.05},option.Hash=16" \
    "${BALANCED[@]}" "${ADJUDICATE[@]}" --games "${GAMES:-100}" --concurrency "$CONCURRENCY" $(outputs "$name")
"$LAB" elo "$RESULTS/$name/games.pgn" --anchor "Stockfish ${steps%% *}=${steps%% *}"
