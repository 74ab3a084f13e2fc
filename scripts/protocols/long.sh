#!/usr/bin/env bash
# Long time control: confirms a change that passed the short test.
#
#   scripts/protocols/long.sh OLD [NEW] [NAME]
source "$(dirname "$0")/common.sh"
usage="usage: scripts/protocols/long.sh OLD [NEW]"
[ $# -ge 1 ] || { echo "$usage" >&2; exit 2; }
old=$1 new=${2:-$ENGINE}
name=${3:-long-$(build "$new")-$(build "$old")}
outputs "$name"
exec "$LAB" sprt --elo0 0 --elo1 5 --model normalised \
    --engine "cmd=$new,name=new" --engine "cmd=$old,name=old" --each tc=40+0.4,option.Hash=64 \
    "${UNBALANCED[@]}" "${ADJUDICATE[@]}" --games "${GAMES:-40000}" --concurrency "$CONCURRENCY" "${OUTPUTS[@]}"
