#!/usr/bin/env python3
"""Computes the data of the RNA study with ViennaRNA: energies, walks, times, and structures of minimum energy.

    vienna.py data OUT --sequences N --seed S     structures of random and of structured sequences, with their energies
    vienna.py walks OUT                           structures, pairs that a walk toggles, and energies after each step
    vienna.py time WALKS OUT                      ViennaRNA's time for each step of the walks
    vienna.py folds OUT                           sequences with their structure of minimum energy
    vienna.py energies FOUND OUT                  the energies of structures that a search found

The output depends on the seed alone, except for times. Files are written under another name and renamed when complete.
"""

import argparse
import ctypes
import math
import os
import random
import subprocess
import sys
import tempfile
import time

try:
    import RNA
except ImportError:
    sys.exit("vienna.py: ViennaRNA is missing; install it with: python3 -m pip install ViennaRNA")

PAIRS = {"AU", "UA", "CG", "GC", "GU", "UG"}
MIN_HAIRPIN = 3
# Gas constant times 310.15 kelvin, in kilocalories per mole.
RT = 0.61632
# ViennaRNA's VRNA_OPTION_EVAL_ONLY: prepare only what energy evaluation needs.
EVALUATE_ONLY = 1 << 3
# Number of steps in a walk that is timed.
STEPS = 1000


def write_atomically(path, lines):
    part = path + ".part"
    with open(part, "w") as file:
        file.writelines(line + "\n" for line in lines)
    os.replace(part, path)


def random_sequence(rng, bases):
    return "".join(rng.choice("ACGU") for _ in range(bases))


def structured_sequence(rng, bases):
    """A sequence with a stable structure: stems of mostly G and C, loops of mostly A, as in natural molecules."""
    letters = [rng.choices("ACGU", (4, 2, 2, 2))[0] for _ in range(bases)]
    structure, _ = RNA.fold(random_sequence(rng, bases))
    table = RNA.ptable(structure)
    for first in range(1, bases + 1):
        if table[first] > first:
            pair = rng.choices(("GC", "CG", "AU", "UA", "GU", "UG"), (30, 30, 15, 15, 5, 5))[0]
            letters[first - 1], letters[table[first] - 1] = pair
    return "".join(letters)


KINDS = {"random": random_sequence, "structured": structured_sequence}


class Molecule:
    """A sequence with a structure in which pairs are toggled."""

    def __init__(self, sequence, structure=None):
        self.sequence, self.compound = sequence, RNA.fold_compound(sequence)
        bases = len(sequence)
        self.partners = [
            [
                other
                for other in range(bases)
                if abs(base - other) > MIN_HAIRPIN and sequence[base] + sequence[other] in PAIRS
            ]
            for base in range(bases)
        ]
        self.fold_to(structure or "." * bases)

    def fold_to(self, structure):
        self.table = [partner - 1 for partner in list(RNA.ptable(structure))[1:]]

    def structure(self):
        signs = (("." if other < 0 else "(" if other > base else ")") for base, other in enumerate(self.table))
        return "".join(signs)

    def energy(self):
        return self.compound.eval_structure(self.structure())

    def is_free(self, first, last):
        if self.table[first] >= 0 or self.table[last] >= 0:
            return False
        at = first + 1
        while at < last:
            other = self.table[at]
            if other < 0:
                at += 1
            elif at < other < last:
                at = other + 1
            else:
                return False
        return True

    def propose(self, rng):
        """A random pair to toggle, or None if the chosen one is not possible."""
        base = rng.randrange(len(self.sequence))
        other = self.table[base]
        if other >= 0:
            first, last = min(base, other), max(base, other)
            step = rng.randrange(4)
            if step == 0 and first > 0 and last + 1 < len(self.sequence):
                first, last = first - 1, last + 1
            elif step == 1:
                first, last = first + 1, last - 1
        elif self.partners[base]:
            other = rng.choice(self.partners[base])
            first, last = min(base, other), max(base, other)
        else:
            return None
        if self.table[first] == last:
            return first, last
        if last - first <= MIN_HAIRPIN or self.sequence[first] + self.sequence[last] not in PAIRS:
            return None
        return (first, last) if self.is_free(first, last) else None

    def toggle(self, first, last):
        on = self.table[first] == last
        self.table[first], self.table[last] = (-1, -1) if on else (last, first)

    def walk(self, rng, temperature, steps):
        """Metropolis steps at a temperature in kcal/mol; yields the pairs that are toggled by accepted ones."""
        energy = self.energy()
        for _ in range(steps):
            pair = self.propose(rng)
            if pair is None:
                continue
            self.toggle(*pair)
            after = self.energy()
            if after <= energy or rng.random() < math.exp((energy - after) / temperature):
                energy = after
                yield pair
            else:
                self.toggle(*pair)


def data(options):
    rng = random.Random(options.seed)
    lines = []
    for number in range(options.sequences):
        kind = ("random", "structured")[number % 2]
        sequence = KINDS[kind](rng, rng.randint(40, 200))
        molecule = Molecule(sequence)
        minimum, _ = molecule.compound.mfe()
        seen = set()

        def note():
            structure = molecule.structure()
            if structure not in seen:
                seen.add(structure)
                lines.append(f"{kind}\t{sequence}\t{structure}\t{molecule.energy():.2f}")

        molecule.fold_to(minimum)
        note()
        # Hot and cold walks from the best structure and from the open chain visit what a search meets.
        for start in (minimum, "." * len(sequence)):
            for temperature in (8 * RT, 3 * RT, RT):
                molecule.fold_to(start)
                for _ in range(options.each):
                    for _ in molecule.walk(rng, temperature, len(sequence) // 3):
                        pass
                    note()
    rng.shuffle(lines)
    write_atomically(options.out, lines)
    print(f"{options.sequences} sequences, {len(lines)} structures")


def walks(options):
    rng = random.Random(options.seed)
    lines = []
    for bases in (50, 100, 200):
        for number in range(10):
            molecule = Molecule(KINDS[("random", "structured")[number % 2]](rng, bases))
            molecule.fold_to(molecule.compound.mfe()[0])
            start, toggled = molecule.structure(), []
            energies = [molecule.energy()]
            while len(toggled) < STEPS:
                for pair in molecule.walk(rng, 3 * RT, STEPS):
                    toggled.append(pair)
                    energies.append(molecule.energy())
            pairs = " ".join(f"{first}-{last}" for first, last in toggled[:STEPS])
            text = " ".join(f"{energy:.2f}" for energy in energies[: STEPS + 1])
            lines.append(f"{molecule.sequence}\t{start}\t{pairs}\t{text}")
    write_atomically(options.out, lines)


def compiled():
    """The timing loops in C, and ViennaRNA's functions from the shared library in its Python package."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "time_vienna.c")
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "time_vienna.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        loops = ctypes.CDLL(library)
    package = os.path.dirname(RNA.__file__)
    name = next(name for name in os.listdir(package) if name.startswith("_RNA") and name.endswith(".so"))
    vienna = ctypes.CDLL(os.path.join(package, name))
    vienna.vrna_fold_compound.restype = ctypes.c_void_p
    vienna.vrna_fold_compound.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint]
    for loop in (loops.time_structures, loops.time_moves):
        loop.restype = ctypes.c_double
    return loops, vienna


def times(options):
    loops, vienna = compiled()
    methods = {
        "structure": (loops.time_structures, vienna.vrna_eval_structure_pt),
        "move": (loops.time_moves, vienna.vrna_eval_move_pt),
    }
    with open(options.walks) as file:
        walked = [line.rstrip("\n").split("\t") for line in file]
    walked = [
        (
            len(sequence),
            vienna.vrna_fold_compound(sequence.encode(), None, EVALUATE_ONLY),
            list(RNA.ptable(structure))[: len(sequence) + 1],
            [int(base) + 1 for pair in pairs.split(" ") for base in pair.split("-")],
            [float(energy) for energy in energies.split(" ")],
        )
        for sequence, structure, pairs, energies in walked
    ]
    # Time of each walk without interference: the fastest of several rounds in which the walks alternate.
    fastest = {}
    for _ in range(options.repeat):
        for number, (bases, compound, table, flat, energies) in enumerate(walked):
            if not compound:
                sys.exit("vienna.py: ViennaRNA refused a sequence")
            steps, num_steps = (ctypes.c_int * len(flat))(*flat), len(flat) // 2
            # ViennaRNA must compute the same energies as when the walk was made.
            expected = {"structure": sum(energies[1:]), "move": energies[-1] - energies[0]}
            for method, (loop, energy) in methods.items():
                copy, total = (ctypes.c_short * (bases + 1))(*table), ctypes.c_long(0)
                seconds = loop(energy, ctypes.c_void_p(compound), copy, steps, num_steps, ctypes.byref(total))
                if abs(total.value / 100 - expected[method]) > 0.01 * len(energies):
                    sys.exit(f"vienna.py: {method}: {total.value / 100} is not {expected[method]}")
                key = bases, method, number
                fastest[key] = min(fastest.get(key, math.inf), seconds / num_steps)
    lines = []
    for bases in sorted({row[0] for row in walked}):
        for method in methods:
            times_taken = [fastest[key] for key in fastest if key[:2] == (bases, method)]
            lines.append(f"{bases}\t{method}\t{sum(times_taken) / len(times_taken) * 1e9:.1f}")
    write_atomically(options.out, lines)


def folds(options):
    rng = random.Random(options.seed)
    lines = []
    for bases in (50, 100, 200):
        for number in range(2 * options.each):
            kind = ("random", "structured")[number % 2]
            sequence = KINDS[kind](rng, bases)
            started = time.perf_counter()
            structure, energy = RNA.fold_compound(sequence).mfe()
            seconds = time.perf_counter() - started
            lines.append(f"{kind}\t{sequence}\t{structure}\t{energy:.2f}\t{seconds:.6f}")
    write_atomically(options.out, lines)


def energies(options):
    with open(options.found) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    write_atomically(options.out, [f"{RNA.fold_compound(row[1]).eval_structure(row[5]):.2f}" for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(name, run, *files):
        added = commands.add_parser(name)
        for file in files:
            added.add_argument(file)
        added.add_argument("--seed", type=int, default=1)
        added.set_defaults(run=run)
        return added

    making = command("data", data, "out")
    making.add_argument("--sequences", type=int, default=1000)
    making.add_argument("--each", type=int, default=8, help="structures of each of six walks")
    command("walks", walks, "out")
    command("time", times, "walks", "out").add_argument("--repeat", type=int, default=200)
    command("folds", folds, "out").add_argument("--each", type=int, default=20, help="sequences of a length and kind")
    command("energies", energies, "found", "out")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
