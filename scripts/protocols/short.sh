#!/usr/bin/env bash
# Short time control: is NEW stronger than OLD? The first test of every change to the search.
#
#   scripts/protocols/short.sh OLD [NEW] [NAME]
source "$(dirname "$0")/common.sh"
usage="usage: scripts/protocols/short.sh OLD [NEW]"
[ $# -ge 1 ] || { echo "$usage" >&2; exit 2; }
old=$1 new=${2:-$ENGINE}
name=${3:-short-$(build "$new")-$(build "$old")}
outputs "$name"
exec "$LAB" sprt --elo0 0 --elo1 5 --model normalised \
    --engine "cmd=$new,name=new" --engine "cmd=$old,name=old" --each tc=8+0.08,option.Hash=16 \
    "${UNBALANCED[@]}" "${ADJUDICATE[@]}" --games "${GAMES:-40000}" --concurrency "$CONCURRENCY" "${OUTPUTS[@]}"
