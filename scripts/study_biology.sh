#!/usr/bin/env bash
# Reproduces the study of docs/study-biology.md, with its tables and figures. It measures times, so the
# machine should be idle.
#
#   scripts/study_biology.sh [FOLDER] [DRAWINGS]
#
# DRAWINGS is the folder that receives the figures of the page, for example docs/figures. TANDEM_PYTHON is a
# Python with ViennaRNA, TANDEM_BIN a folder of programs that are built already; STUDY=small runs everything
# on little data, as a test.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-target/study}
drawings=${2:-}
python=${TANDEM_PYTHON:-python3}
"$python" -c 'import RNA' 2>/dev/null || {
    echo "study_biology.sh: $python has no ViennaRNA; install it with: $python -m pip install ViennaRNA" >&2
    exit 1
}
programs=${TANDEM_BIN:-target/release}
[ -n "${TANDEM_BIN:-}" ] || cargo build --release --package tandem-rna --package tandem-protein
rna=$programs/tandem-rna
protein=$programs/tandem-protein
vienna=studies/rna/vienna.py
mkdir -p "$out"
if [ "${STUDY:-whole}" = small ]; then
    train=120 test=20 each=2 epochs=30 chains=1000 folds=2 steps=200
else
    train=3000 test=400 each=20 epochs=30 chains=2000 folds=20 steps=1500
fi
step() { printf '\n## %s\n\n' "$*"; }

step "RNA: energies"
data=$out/rna-$train.tsv held=$out/rna-held-$test.tsv
# The slowest part, and deterministic, so its result is reused.
[ -e "$data" ] || "$python" "$vienna" data "$data" --sequences "$train" --seed 1
[ -e "$held" ] || "$python" "$vienna" data "$held" --sequences "$test" --seed 2
"$python" "$vienna" walks "$out/rna-walks.tsv" --seed 3
"$rna" train --data "$data" --out "$out/rna.safetensors" --epochs "$epochs"
"$rna" evaluate --network "$out/rna.safetensors" --data "$data" --test "$held" --walks "$out/rna-walks.tsv" \
    --plot "$out/rna.svg"

step "RNA: time for a pair more or less"
"$python" "$vienna" time "$out/rna-walks.tsv" "$out/rna-vienna-times.tsv"
"$rna" speed --network "$out/rna.safetensors" --data "$data" --walks "$out/rna-walks.tsv" --vienna "$out/rna-vienna-times.tsv" \
    --plot "$out/rna-speed.svg"

step "RNA: structures of least energy"
"$python" "$vienna" folds "$out/rna-folds.tsv" --each "$each" --seed 4
"$rna" fold --network "$out/rna.safetensors" --data "$out/rna-folds.tsv" --out "$out/rna-found.tsv" --steps "$steps"
"$python" "$vienna" energies "$out/rna-found.tsv" "$out/rna-found-energies.tsv"
"$rna" compare --found "$out/rna-found.tsv" --energies "$out/rna-found-energies.tsv" --plot "$out/rna-fold.svg"

step "Proteins: energies"
# With cooperative contacts a network must be better than a sum of contacts.
declare -A limits=([cooperative]=0.5)
for energy in additive cooperative; do
    network=$out/protein-$energy.safetensors
    "$protein" train --energy "$energy" --out "$network" --sequences "$chains" --epochs "$epochs"
    "$protein" evaluate --energy "$energy" --network "$network" --sequences "$chains" --plot "$out/protein-$energy.svg" \
        ${limits[$energy]:+--at-most "${limits[$energy]}"}
done

step "Proteins: time for a step"
"$protein" speed --network "$out/protein-cooperative.safetensors" --plot "$out/protein-speed.svg"

step "Proteins: folds of least energy"
for energy in additive cooperative; do
    echo "$energy"
    "$protein" fold --energy "$energy" --network "$out/protein-$energy.safetensors" --each "$folds"
done

if [ -n "$drawings" ]; then
    for name in rna rna-speed rna-fold protein-cooperative protein-speed; do
        cp "$out/$name.svg" "$drawings/biology-$name.svg"
    done
fi
