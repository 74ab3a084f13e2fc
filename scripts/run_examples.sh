#!/usr/bin/env bash
# Runs every example of examples/ by the commands in its head comment, and checks that each is one a reader would
# copy: fewer than 100 lines, and listed in examples/README.md.
#
#     scripts/run_examples.sh
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p target
declare -A done=()
for file in examples/*.rs; do
    name=$(basename "$file" .rs)
    lines=$(wc -l <"$file")
    [ "$lines" -lt 100 ] || { echo "$file has $lines lines: an example has fewer than 100" >&2; exit 1; }
    grep -q "\`$name\`" examples/README.md || { echo "examples/README.md does not list $name" >&2; exit 1; }
    commands=$(sed -n 's,^//! \(cargo run .*\)$,\1,p' "$file")
    [ -n "$commands" ] || { echo "$file: no command in the head comment" >&2; exit 1; }
    while IFS= read -r command; do
        # Several examples begin with the same data, which is made once.
        [ -z "${done[$command]:-}" ] || continue
        done[$command]=1
        printf '\n$ %s\n' "$command"
        bash -c "${command/cargo run/cargo run -q}" </dev/null
    done <<<"$commands"
done
printf '\n%d commands of %d examples passed\n' "${#done[@]}" "$(ls examples/*.rs | wc -l)"
