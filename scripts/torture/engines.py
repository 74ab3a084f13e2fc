"""Matches against engines that misbehave: each game must end, and no process may stay."""

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import run

HOSTILE = Path(__file__).with_name("hostile.py")
# Faults before the first game, for which the match may end with an error.
AT_START = ["silent", "no-uciok", "no-readyok", "exit-at-start"]
# Faults that must lose the game.
LOSING = ["crash", "exit", "hang", "late", "illegal", "null-move", "no-move", "endless", "endless-line", "close-stdout"]
# Faults with which an engine may go on.
HARMLESS = ["garbage", "twice", "binary", "odd-info", "close-stdin", "exit-after-move", "ignore-quit", "ignore-signals", "child"]


def attack(setup, part):
    random = setup.random
    faults = AT_START + LOSING + HARMLESS
    # Most of the time passes in waiting for answers that do not come.
    with ThreadPoolExecutor(4) as pool:
        while part.has_time():
            random.shuffle(faults)
            limits = random.choices(["tc=0.4+0.05", "st=0.1,margin=200", "nodes=50"], k=len(faults))
            for each in [pool.submit(attack_match, setup, part, *case) for case in zip(faults, limits)]:
                each.result()


def attack_match(setup, part, fault, limit):
    if not part.has_time(2):
        return
    place = Path(tempfile.mkdtemp(dir=setup.folder))
    outcome = run(
        [setup.lab, "match", "--engine", f"cmd={sys.executable},arg={HOSTILE},arg={fault},name=hostile", "--engine", "cmd=@tandem,name=good",
         "--each", limit, "--games", "2", "--max-moves", "8", "--start-timeout", "3", "--move-timeout", "2", "--json", "result.json", "--pgn",
         "games.pgn", "--state", "match.state", "--no-affinity"],
        place, timeout=150)
    part.count("hostile engines")
    case = f"{fault}, {limit}"
    if failure := outcome.failure():
        part.find("hostile engines", f"{case}: {failure}")
    elif outcome.status and fault not in AT_START:
        part.find("hostile engines", f"{case}: the match ended: {outcome.tail()}")
    elif fault in AT_START and outcome.status == 0:
        part.find("hostile engines", f"{case}: the match was played")
    elif outcome.status == 0 and fault in LOSING and not lost(place):
        part.find("hostile engines", f"{case}: the engine did not lose: {outcome.tail()}")
    left = subprocess.run(["pgrep", "-f", f"{HOSTILE} {fault}$"], capture_output=True, text=True).stdout.split()
    if left and fault != "child":
        part.find("hostile engines", f"{case}: {len(left)} processes stayed")
        subprocess.run(["kill", "-9", *left], check=False)


def lost(place):
    """True if every finished game was lost by the engine with the fault."""
    results = [json.loads(line) for line in (place / "match.state").read_text().splitlines()[1:]]
    return bool(results) and all(result.get("culprit") == 0 for result in results)
