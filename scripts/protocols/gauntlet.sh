#!/usr/bin/env bash
# Absolute strength: a gauntlet against Debian's Stockfish, limited to several strengths and unlimited. The
# rating list is anchored to Stockfish's own scale by `tandem-lab elo --anchor`. Fails if a stronger Stockfish
# is rated below a weaker one, or if any game was forfeited.
#
#   scripts/protocols/gauntlet.sh [NAME]     STEPS="1800 2200 2600" TC=5+0.05 GAMES=100 FULL=no
source "$(dirname "$0")/common.sh"
name=${1:-gauntlet-$(build "$ENGINE")}
need "$STOCKFISH" "apt-get install stockfish"
steps=${STEPS:-1800 2200 2600}
engines=(--engine "cmd=$ENGINE,name=Tandem")
for elo in $steps; do
    engines+=(--engine "cmd=$STOCKFISH,name=Stockfish $elo,option.UCI_LimitStrength=true,option.UCI_Elo=$elo")
done
[ "${FULL:-yes}" = no ] || engines+=(--engine "cmd=$STOCKFISH,name=Stockfish full")
outputs "$name"
"$LAB" match --gauntlet 1 "${engines[@]}" --each "tc=${TC:-5+0.05},option.Hash=16" \
    "${BALANCED[@]}" "${ADJUDICATE[@]}" --games "${GAMES:-100}" --concurrency "$CONCURRENCY" "${OUTPUTS[@]}"
"$LAB" elo "$RESULTS/$name/games.pgn" --anchor "Stockfish ${steps%% *}=${steps%% *}"

no_forfeits "$name"
python3 - "$RESULTS/$name/match.json" <<'CHECK'
import json, sys

match = json.load(open(sys.argv[1]))
names = [engine["name"] for engine in match["engines"]]
ratings = {names[rating["engine"]]: rating["elo"] for rating in match["ratings"]["list"]} if match["ratings"] else {}
problems = []
strength = lambda name: float("inf") if name.endswith(" full") else float(name.rsplit(" ", 1)[1])
ladder = sorted((name for name in ratings if name.startswith("Stockfish ")), key=strength)
for weak, strong in zip(ladder, ladder[1:]):
    if ratings[weak] >= ratings[strong]:
        problems.append(f"{weak} ({ratings[weak]:.0f}) is rated above {strong} ({ratings[strong]:.0f})")
if problems:
    sys.exit("gauntlet.sh: " + "; ".join(problems))
print("passed: no forfeits, and the opponents are rated in the order of their strength")
CHECK
