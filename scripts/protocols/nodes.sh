#!/usr/bin/env bash
# Fixed nodes: is NEW's evaluation better, whatever it costs? For networks and evaluation; the machine may be
# busy.
#
#   scripts/protocols/nodes.sh OLD [NEW] [NAME]     NODES=20000
source "$(dirname "$0")/common.sh"
usage="usage: scripts/protocols/nodes.sh OLD [NEW]"
[ $# -ge 1 ] || { echo "$usage" >&2; exit 2; }
old=$1 new=${2:-$ENGINE}
name=${3:-nodes-$(build "$new")-$(build "$old")}
outputs "$name"
exec "$LAB" sprt --elo0 0 --elo1 5 --model normalised \
    --engine "cmd=$new,name=new" --engine "cmd=$old,name=old" --each "nodes=${NODES:-20000},option.Hash=16" \
    "${UNBALANCED[@]}" "${ADJUDICATE[@]}" --games "${GAMES:-40000}" --concurrency "$CONCURRENCY" "${OUTPUTS[@]}"
