#!/usr/bin/env bash
# What the second mind is worth in the search: the engine with the strategist against itself without it, one core a side. USES
# names what its word may serve: order, lmr, value, time, or all of them together. No game may be forfeited.
#   scripts/protocols/hybrid.sh [NAME]     USES="order" HYBRID=file.hybrid TC=2+0.02 GAMES=1000 THREADS=0 MARGIN=20
# MARGIN, in milliseconds, is what a move may overstep its time: more where the machine is shared and may stand still.
# ENGINE must be a build with --features tune, whose switches can be turned (target/tune/release/tandem if unset).
BUILD="cargo build --release -p tandem --features tune --target-dir target/tune"
ENGINE=${ENGINE:-$(cd "$(dirname "$0")/../.." && pwd)/target/tune/release/tandem}
source "$(dirname "$0")/common.sh"
USES=${USES:-order lmr value time}
name=${1:-hybrid-${USES// /-}-$(build "$ENGINE")}
with="option.Strategist=auto,option.StrategistThreads=${THREADS:-0}${HYBRID:+,option.HybridFile=$HYBRID}"
for use in order lmr value time; do
    [[ " $USES " == *" $use "* ]] && on=1 || on=0
    with+=",option.use_counsel_$use=$on"
done
outputs "$name"
"$LAB" match --engine "cmd=$ENGINE,name=With ${USES// / and },$with" --engine "cmd=$ENGINE,name=Without,option.Strategist=off" \
    --each "tc=${TC:-2+0.02},margin=${MARGIN:-20},option.Hash=16" "${UNBALANCED[@]}" "${ADJUDICATE[@]}" --games "${GAMES:-1000}" \
    --concurrency "$CONCURRENCY" "${OUTPUTS[@]}"
no_forfeits "$name"
