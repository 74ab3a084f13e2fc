#!/usr/bin/env python3
"""Asks ViennaRNA for what the study of RNA needs: energies to learn from, walks, times, and structures of least energy.

    vienna.py data OUT --sequences N --seed S     structures of random and of structured sequences, with their energies
    vienna.py walks OUT                           structures, pairs that a walk turns, and energies on the way
    vienna.py time WALKS OUT                      what ViennaRNA takes for each turn of the walks
    vienna.py folds OUT                           sequences with their structure of least energy
    vienna.py energies FOUND OUT                  the energies of structures that a search found

Everything depends on the seed alone, times apart. Files appear whole.
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
TURN = 3
# Gas constant times 310.15 kelvin, in kilocalories per mole.
RT = 0.61632
# ViennaRNA's own number for: prepare nothing but what energies need.
EVALUATE_ONLY = 1 << 3
# Turns of a walk that is timed.
STEPS = 1000


def write_whole(path, lines):
    part = path + ".part"
    with open(part, "w") as file:
        file.writelines(line + "\n" for line in lines)
    os.replace(part, path)


def random_sequence(chance, bases):
    return "".join(chance.choice("ACGU") for _ in range(bases))


def structured_sequence(chance, bases):
    """A sequence that has something to fold into: stems of mostly G and C, loops of mostly A, as natural ones have."""
    letters = [chance.choices("ACGU", (4, 2, 2, 2))[0] for _ in range(bases)]
    structure, _ = RNA.fold(random_sequence(chance, bases))
    table = RNA.ptable(structure)
    for first in range(1, bases + 1):
        if table[first] > first:
            pair = chance.choices(("GC", "CG", "AU", "UA", "GU", "UG"), (30, 30, 15, 15, 5, 5))[0]
            letters[first - 1], letters[table[first] - 1] = pair
    return "".join(letters)


KINDS = {"random": random_sequence, "structured": structured_sequence}


class Molecule:
    """A sequence with a structure that pairs are turned in."""

    def __init__(self, sequence, structure=None):
        self.sequence, self.compound = sequence, RNA.fold_compound(sequence)
        bases = len(sequence)
        self.partners = [
            [other for other in range(bases) if abs(base - other) > TURN and sequence[base] + sequence[other] in PAIRS]
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

    def has_room(self, first, last):
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

    def propose(self, chance):
        """A pair to turn, or nothing."""
        base = chance.randrange(len(self.sequence))
        other = self.table[base]
        if other >= 0:
            first, last = min(base, other), max(base, other)
            step = chance.randrange(4)
            if step == 0 and first > 0 and last + 1 < len(self.sequence):
                first, last = first - 1, last + 1
            elif step == 1:
                first, last = first + 1, last - 1
        elif self.partners[base]:
            other = chance.choice(self.partners[base])
            first, last = min(base, other), max(base, other)
        else:
            return None
        if self.table[first] == last:
            return first, last
        if last - first <= TURN or self.sequence[first] + self.sequence[last] not in PAIRS:
            return None
        return (first, last) if self.has_room(first, last) else None

    def turn(self, first, last):
        on = self.table[first] == last
        self.table[first], self.table[last] = (-1, -1) if on else (last, first)

    def walk(self, chance, heat, steps):
        """Steps as a search at some heat keeps them; yields the pairs that are turned."""
        energy = self.energy()
        for _ in range(steps):
            pair = self.propose(chance)
            if pair is None:
                continue
            self.turn(*pair)
            after = self.energy()
            if after <= energy or chance.random() < math.exp((energy - after) / heat):
                energy = after
                yield pair
            else:
                self.turn(*pair)


def data(options):
    chance = random.Random(options.seed)
    lines = []
    for number in range(options.sequences):
        kind = ("random", "structured")[number % 2]
        sequence = KINDS[kind](chance, chance.randint(40, 200))
        molecule = Molecule(sequence)
        least, _ = molecule.compound.mfe()
        seen = set()

        def note():
            structure = molecule.structure()
            if structure not in seen:
                seen.add(structure)
                lines.append(f"{kind}\t{sequence}\t{structure}\t{molecule.energy():.2f}")

        molecule.fold_to(least)
        note()
        # From the best structure and from none, hot and cold: what a search meets on its way.
        for start in (least, "." * len(sequence)):
            for heat in (8 * RT, 3 * RT, RT):
                molecule.fold_to(start)
                for _ in range(options.each):
                    for _ in molecule.walk(chance, heat, len(sequence) // 3):
                        pass
                    note()
    chance.shuffle(lines)
    write_whole(options.out, lines)
    print(f"{options.sequences} sequences, {len(lines)} structures")


def walks(options):
    chance = random.Random(options.seed)
    lines = []
    for bases in (50, 100, 200):
        for number in range(10):
            molecule = Molecule(KINDS[("random", "structured")[number % 2]](chance, bases))
            molecule.fold_to(molecule.compound.mfe()[0])
            start, turned = molecule.structure(), []
            energies = [molecule.energy()]
            while len(turned) < STEPS:
                for pair in molecule.walk(chance, 3 * RT, STEPS):
                    turned.append(pair)
                    energies.append(molecule.energy())
            pairs = " ".join(f"{first}-{last}" for first, last in turned[:STEPS])
            told = " ".join(f"{energy:.2f}" for energy in energies[: STEPS + 1])
            lines.append(f"{molecule.sequence}\t{start}\t{pairs}\t{told}")
    write_whole(options.out, lines)


def compiled():
    """The loops in C, and ViennaRNA's functions as the Python package carries them."""
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
    ways = {
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
    # What each walk takes when nobody is in its way: the fastest of rounds in which all take turns.
    fastest = {}
    for _ in range(options.repeat):
        for number, (bases, compound, table, flat, energies) in enumerate(walked):
            if not compound:
                sys.exit("vienna.py: ViennaRNA refused a sequence")
            steps, turns = (ctypes.c_int * len(flat))(*flat), len(flat) // 2
            # What ViennaRNA says here must be what it said when the walk was made.
            expected = {"structure": sum(energies[1:]), "move": energies[-1] - energies[0]}
            for way, (loop, energy) in ways.items():
                copy, total = (ctypes.c_short * (bases + 1))(*table), ctypes.c_long(0)
                seconds = loop(energy, ctypes.c_void_p(compound), copy, steps, turns, ctypes.byref(total))
                if abs(total.value / 100 - expected[way]) > 0.01 * len(energies):
                    sys.exit(f"vienna.py: {way}: {total.value / 100} is not {expected[way]}")
                place = bases, way, number
                fastest[place] = min(fastest.get(place, math.inf), seconds / turns)
    lines = []
    for bases in sorted({row[0] for row in walked}):
        for way in ways:
            taken = [fastest[place] for place in fastest if place[:2] == (bases, way)]
            lines.append(f"{bases}\t{way}\t{sum(taken) / len(taken) * 1e9:.1f}")
    write_whole(options.out, lines)


def folds(options):
    chance = random.Random(options.seed)
    lines = []
    for bases in (50, 100, 200):
        for number in range(2 * options.each):
            kind = ("random", "structured")[number % 2]
            sequence = KINDS[kind](chance, bases)
            started = time.perf_counter()
            structure, energy = RNA.fold_compound(sequence).mfe()
            seconds = time.perf_counter() - started
            lines.append(f"{kind}\t{sequence}\t{structure}\t{energy:.2f}\t{seconds:.6f}")
    write_whole(options.out, lines)


def energies(options):
    with open(options.found) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    write_whole(options.out, [f"{RNA.fold_compound(row[1]).eval_structure(row[5]):.2f}" for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(name, work, *files):
        added = commands.add_parser(name)
        for file in files:
            added.add_argument(file)
        added.add_argument("--seed", type=int, default=1)
        added.set_defaults(work=work)
        return added

    making = command("data", data, "out")
    making.add_argument("--sequences", type=int, default=1000)
    making.add_argument("--each", type=int, default=8, help="structures of each of six walks")
    command("walks", walks, "out")
    command("time", times, "walks", "out").add_argument("--repeat", type=int, default=200)
    command("folds", folds, "out").add_argument("--each", type=int, default=20, help="sequences of a length and kind")
    command("energies", energies, "found", "out")
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()
