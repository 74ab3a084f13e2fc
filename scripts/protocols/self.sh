#!/usr/bin/env bash
# Test of the arena itself: the engine against a copy. If the copy has 30 % fewer nodes, the SPRT must accept
# the original; if they are equal, at a time control, it must not.
#
#   scripts/protocols/self.sh [NAME]     NODES=3000 TC=0.2+0.002
source "$(dirname "$0")/common.sh"
name=${1:-self-$(build "$ENGINE")} nodes=${NODES:-3000}
common=("${UNBALANCED[@]}" "${ADJUDICATE[@]}" --games "${GAMES:-40000}" --concurrency "$CONCURRENCY")

verdict() {
    python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["sprt"]["state"]["verdict"])' \
        "$RESULTS/$1/match.json"
}

outputs "$name-fewer-nodes"
"$LAB" sprt --elo0 0 --elo1 20 --quiet --engine "cmd=$ENGINE,name=full,nodes=$nodes" \
    --engine "cmd=$ENGINE,name=less,nodes=$((nodes * 7 / 10))" --each option.Hash=16 \
    "${common[@]}" "${OUTPUTS[@]}"
outputs "$name-unchanged"
"$LAB" sprt --elo0 0 --elo1 20 --quiet --engine "cmd=$ENGINE,name=one" --engine "cmd=$ENGINE,name=other" \
    --each "tc=${TC:-0.2+0.002},option.Hash=16" "${common[@]}" "${OUTPUTS[@]}"

[ "$(verdict "$name-fewer-nodes")" = accepted ] || { echo "self.sh: 30 % more nodes were not accepted" >&2; exit 1; }
[ "$(verdict "$name-unchanged")" = rejected ] || { echo "self.sh: no difference was not rejected" >&2; exit 1; }
echo "passed: more nodes accepted, no difference rejected"
