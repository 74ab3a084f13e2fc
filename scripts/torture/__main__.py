"""Runs the parts of scripts/torture.sh, each for its fraction of the time, and prints a table."""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import engines
import files
import kills
import limits
import uci
from common import Part, Setup

# Functions of the parts, with the fraction of the time that each gets.
PARTS = {
    "uci": (uci.attack, 0.25),
    "files": (files.attack, 0.25),
    "engines": (engines.attack, 0.1),
    "kills": (kills.attack, 0.3),
    "limits": (limits.attack, 0.1),
}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/torture.sh", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="time for all parts together (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="seed of all random choices (default: 1)")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"parts to run (default: {','.join(PARTS)})")
    parser.add_argument("--json", type=Path, help="file to which the results are also written")
    parser.add_argument("--keep", action="store_true", help="keep the working folder, and print its path")
    given = parser.parse_args()
    unknown = [name for name in given.parts.split(",") if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]}; the parts are {', '.join(PARTS)}")
    return given


def programs():
    root = Path(__file__).resolve().parents[2]
    folders = [Path(os.environ["TANDEM_BIN"])] if "TANDEM_BIN" in os.environ else [root / "target" / kind for kind in ("release", "debug")]
    for folder in folders:
        if (folder / "tandem").exists() and (folder / "tandem-lab").exists():
            return root, (folder / "tandem").resolve(), (folder / "tandem-lab").resolve()
    sys.exit(f"no programs in {' or '.join(map(str, folders))}: build tandem and tandem-lab, or set TANDEM_BIN")


def main():
    given = arguments()
    root, tandem, lab = programs()
    work = Path(tempfile.mkdtemp(prefix="tandem-torture-"))
    names = given.parts.split(",")
    total = sum(PARTS[name][1] for name in names)
    parts = []
    try:
        for name in names:
            attack, fraction = PARTS[name]
            folder = work / name
            folder.mkdir()
            seconds = given.minutes * 60 * fraction / total
            part = Part(name, seconds)
            print(f"== {name}: {seconds:.0f} s", flush=True)
            attack(Setup(root, tandem, lab, folder, random.Random(f"{given.seed} {name}")), part)
            part.finish()
            parts.append(part)
    finally:
        if given.keep:
            print(f"working folder: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    report(parts)
    if given.json:
        result = {"minutes": given.minutes, "seed": given.seed, "finished": time.strftime("%Y-%m-%d"), "parts": [part.summary() for part in parts]}
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(part.findings for part in parts) else 0


def report(parts):
    print("\n| part | attack | amount | findings |\n|---|---|---:|---:|")
    for part in parts:
        for attack, amount in part.amounts.items():
            print(f"| {part.name} | {attack} | {amount:,} | {part.found_in(attack)} |")
    for part in parts:
        for text in part.not_run:
            print(f"\nnot run: {part.name}: {text}")


sys.exit(main())
