#!/usr/bin/env bash
# Elo of the strategist in the search: the engine with it against itself without it, on one core each. USES
# selects the parts of the search that use it: order, lmr, value, time; the default is all. Fails if a game
# was forfeited.
#
#   scripts/protocols/hybrid.sh [NAME]     USES="order" HYBRID=file.hybrid TC=2+0.02 GAMES=1000 THREADS=0 MARGIN=20
#
# MARGIN is the time in milliseconds by which a move may exceed its limit; it should be larger on a shared
# machine, which may pause. ENGINE must be a build with --features tune, whose switches are options
# (target/tune/release/tandem if unset).
BUILD="cargo build --release -p tandem --features tune --target-dir target/tune"
ENGINE=${ENGINE:-$(cd "$(dirname "$0")/../.." && pwd)/target/tune/release/tandem}
source "$(dirname "$0")/common.sh"
USES=${USES:-order lmr value time}
name=${1:-hybrid-${USES// /-}-$(build "$ENGINE")}
with="option.Strategist=auto,option.StrategistThreads=${THREADS:-0}${HYBRID:+,option.HybridFile=$HYBRID}"
for use in order lmr value time; do
    [[ " $USES " == *" $use "* ]] && on=1 || on=0
    with+=",option.use_strategist_$use=$on"
done
outputs "$name"
"$LAB" match --engine "cmd=$ENGINE,name=With ${USES// / and },$with" --engine "cmd=$ENGINE,name=Without,option.Strategist=off" \
    --each "tc=${TC:-2+0.02},margin=${MARGIN:-20},option.Hash=16" "${UNBALANCED[@]}" "${ADJUDICATE[@]}" --games "${GAMES:-1000}" \
    --concurrency "$CONCURRENCY" "${OUTPUTS[@]}"
no_forfeits "$name"
