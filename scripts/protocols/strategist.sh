#!/usr/bin/env bash
# Strength of the strategist without search, which plays the move of a single forward pass. Opponents are
# Debian's Stockfish at several strengths, with 0.1 s a move, and Maia, which plays without search as well:
# lc0 with one node a move. Games are played to their end. Fails if a game was forfeited.
#
#   scripts/protocols/strategist.sh [NAME]     BY=policy STEPS="1500 1900 2300" MAIA="1100 1900" GAMES=200
#                                              LC0=lc0 WEIGHTS=folder
source "$(dirname "$0")/common.sh"
BY=${BY:-policy}
name=${1:-strategist-$BY-$(build "$ENGINE")}
engines=(--engine "cmd=$ENGINE,name=Strategist by $BY,option.SearchMode=$BY,nodes=1")
need "$STOCKFISH" "apt-get install stockfish"
for elo in ${STEPS:-1500 1900 2300}; do
    engines+=(--engine "cmd=$STOCKFISH,name=Stockfish $elo,option.UCI_LimitStrength=true,option.UCI_Elo=$elo,st=0.1,margin=2000")
done
for elo in ${MAIA-1100 1900}; do
    weights=${WEIGHTS:-$DATA/nets/lc0}/maia-$elo.pb.gz
    need "$weights" "set WEIGHTS to a folder with Maia's networks"
    engines+=(--engine "cmd=${LC0:-lc0},arg=--weights=$weights,arg=--threads=1,arg=--backend=${BACKEND:-eigen},name=Maia $elo,nodes=1")
done
outputs "$name"
"$LAB" match --gauntlet 1 "${engines[@]}" "${BALANCED[@]}" --games "${GAMES:-200}" --concurrency "$CONCURRENCY" \
    --max-moves 250 "${OUTPUTS[@]}"
no_forfeits "$name"
