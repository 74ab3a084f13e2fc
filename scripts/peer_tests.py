#!/usr/bin/env python3
"""Runs the tests that need something which a clean clone does not have: data files, Stockfish, a GPU.

    scripts/peer_tests.py [--require NEEDS] [--summary FILE]

Such a test is marked with `#[ignore = "needs ..."]`, and `cargo test` does not run it. This script looks for
everything that is needed, runs the tests whose need is met, and closes with one line that says how many ran, and
which did not and why. NEEDS is a list with commas, or `all`; if something in it is missing, the script fails.
The default is the environment variable TANDEM_REQUIRE, or nothing. FILE receives the closing line.

The tests are built as `cargo test --workspace` builds them. On GPUs, scripts/check_gpu.sh runs the tests that
need one, and those of libtorch.
"""

import argparse
import collections
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = os.environ.get("TANDEM_PYTHON", "python3")
DATA = pathlib.Path(os.environ.get("TANDEM_DATA", ROOT / "../shared/data"))


def is_folder(path):
    return None if path.is_dir() else f"no folder {path}"


def has_stockfish():
    for program in [os.environ.get("STOCKFISH"), "stockfish", "/usr/games/stockfish"]:
        if program and shutil.which(program):
            answer = subprocess.run([program], input="quit\n", capture_output=True, text=True).stdout
            if "Stockfish 15.1" in answer:
                return None
    return "no Stockfish 15.1"


def has_package(name):
    found = shutil.which(PYTHON) and subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True).returncode == 0
    return None if found else f"{PYTHON} has no package {name.split('.')[0]}"


def has_library(*names):
    for name in names:
        try:
            ctypes.CDLL(name)
            return None
        except OSError:
            pass
    return f"no {names[0]}"


# For each need, a function that returns None if it is met, otherwise the reason why it is not.
NEEDS = {
    "data": lambda: is_folder(DATA),
    "reference values": lambda: is_folder(DATA / "../reference/golden"),
    "Stockfish 15.1": has_stockfish,
    "python-chess": lambda: has_package("chess.pgn"),
    "data and python-chess": lambda: is_folder(DATA) or has_package("chess.syzygy"),
    "TensorBoard": lambda: has_package("tensorboard.backend"),
    "NVRTC": lambda: has_library("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"),
    "a GPU": lambda: has_library("libcuda.so.1"),
    "libtorch with CUDA": lambda: "scripts/check_gpu.sh runs it",
}


def tests_by_need():
    """Names of the ignored tests of all crates, by what they need."""
    pattern = re.compile(r'#\[ignore = "needs ([^"]*)"\]\s*(?:#\[[^\n]*\]\s*)*fn (\w+)')
    tests = collections.defaultdict(list)
    for folder in ["crates", "engine", "lab", "studies"]:
        for file in sorted((ROOT / folder).rglob("*.rs")):
            is_torch = "torch" in file.relative_to(ROOT).parts
            for need, name in pattern.findall(file.read_text()):
                tests["libtorch with CUDA" if is_torch else need].append(name)
    return tests


def run(names):
    """Runs these ignored tests; returns how many passed, and the exit status of cargo."""
    command = ["cargo", "test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--", "--ignored", *names]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    passed = 0
    for line in child.stdout:
        if result := re.match(r"test result: \w+\. (\d+) passed", line):
            passed += int(result[1])
        if re.match(r"test |----|failures:|thread |assertion|\s+(left|right):", line) and not result:
            print(line, end="", flush=True)
    return passed, child.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--require", default=os.environ.get("TANDEM_REQUIRE", ""), metavar="NEEDS")
    parser.add_argument("--summary", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    required = {need.strip() for need in arguments.require.split(",") if need.strip()}

    tests = tests_by_need()
    if unknown := tests.keys() - NEEDS.keys():
        sys.exit(f"NEEDS in scripts/peer_tests.py has no entry for {sorted(unknown)}")
    missing = {need: reason for need in tests if (reason := NEEDS[need]())}
    chosen = [name for need, names in tests.items() if need not in missing for name in names]
    passed, status = run(chosen) if chosen else (0, 0)

    absent = [f"{len(tests[need])} that need {need} ({reason})" for need, reason in missing.items()]
    line = f"tests with outside needs: {passed} of {sum(map(len, tests.values()))} passed"
    line += f"; not run: {', '.join(absent)}" if absent else ""
    print(line)
    if arguments.summary:
        arguments.summary.write_text(line + "\n")
    if status or passed != len(chosen):
        sys.exit(f"{len(chosen)} tests were to pass")
    if refused := [need for need in missing if need in required or "all" in required]:
        sys.exit(f"missing, although required: {', '.join(refused)}")


if __name__ == "__main__":
    main()
