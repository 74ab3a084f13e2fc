#!/usr/bin/env python3
"""How well evaluations put the children of a position in order: what a search asks of them first of all.

    scripts/sibling_order.py judge POSITIONS.csv CHILDREN.csv [--engine stockfish] [--nodes 4000] [--positions 160]
    scripts/sibling_order.py nets CHILDREN.csv NET... [--tandem target/release/tandem]
    scripts/sibling_order.py labels CHILDREN.csv LABELLED.csv...

`judge` takes positions at random and has an engine search every child of each;
CHILDREN.csv holds them, with the score for the side to move. `nets` has our
engine evaluate them with each network, and `labels` reads what `tandem-lab data
label CHILDREN.csv -o LABELLED.csv` says of them: by a search, by a transformer,
by anything that is to teach a network. Told is the share of pairs of siblings
that come in the judge's order, where the judge sees at least 15 centipawns
between them: of all pairs, and of those in which neither child is in check or
best answered by taking something. Two that are even count as wrong. Errors are
standard errors from position to position. Needs python-chess.
"""

import argparse
import csv
import math
import random
import re
import statistics
import subprocess

FIELDS = ["fen", "move", "score", "parent", "quiet"]
LEAST = 15
MATE = 10_000


def judge(args):
    import chess
    import chess.engine

    with open(args.positions_file, newline="") as file:
        fens = list(dict.fromkeys(row["fen"] for row in csv.DictReader(file)))
    random.Random(args.seed).shuffle(fens)
    with chess.engine.SimpleEngine.popen_uci(args.engine) as engine, open(args.children, "w", newline="") as file:
        engine.configure({"Threads": 1})
        out = csv.DictWriter(file, FIELDS)
        out.writeheader()
        for parent, fen in enumerate(fens[: args.positions]):
            board = chess.Board(fen)
            for move in list(board.legal_moves):
                board.push(move)
                if not board.is_game_over():
                    said = engine.analyse(board, chess.engine.Limit(nodes=args.nodes))
                    answer = said["pv"][0]
                    noisy = board.is_check() or board.is_capture(answer) or answer.promotion is not None
                    score = said["score"].pov(board.turn).score(mate_score=MATE)
                    out.writerow(dict(zip(FIELDS, [board.fen(), answer.uci(), score, parent, int(not noisy)])))
                board.pop()


def children(path):
    """Families of (fen, the judge's score, whether it is quiet)."""
    families = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            families.setdefault(row["parent"], []).append((row["fen"], int(row["score"]), row["quiet"] == "1"))
    return list(families.values())


def evaluations(tandem, net, families):
    """What our engine says of each child with a network, in centipawns for the side to move."""
    with subprocess.Popen([tandem], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as engine:

        def ask(command, wanted):
            engine.stdin.write(f"{command}\nisready\n")
            found = None
            for line in engine.stdout:
                found = found or re.search(wanted, line)
                if line.startswith("readyok"):
                    return found

        refused = ask(f"setoption name EvalFile value {net}", r"info string .*the evaluation in use stays")
        if refused:
            raise SystemExit(refused[0])
        said = {}
        for fen in (fen for family in families for fen, *_ in family):
            value = ask(f"position fen {fen}\neval", r"^Evaluation: ([-+][\d.]+)")
            if not value:
                raise SystemExit(f"{tandem}: no evaluation of {fen}")
            said[fen] = float(value[1]) * (100 if " w " in fen else -100)
        engine.stdin.write("quit\n")
    return said


def labels(path):
    with open(path, newline="") as file:
        rows = csv.DictReader(file)
        return {row["fen"]: number(row["score"]) for row in rows if row["score"]}


def number(score):
    """Centipawns, a chance to win (0.53w) or a mate (#3, #-2) as a number: only the order counts."""
    if score.startswith("#"):
        moves = int(score[1:])
        return math.copysign(MATE, moves) - moves
    if score.endswith("w"):
        chance = min(max(float(score[:-1]), 1e-6), 1 - 1e-6)
        return 400 * math.log(chance / (1 - chance))
    return float(score)


def tell(name, families, said):
    missing = sum(child[0] not in said for family in families for child in family)
    if missing:
        raise SystemExit(f"{name}: {missing} of the children have no score there; label that very file")
    shares = {False: [], True: []}
    for only_quiet, found in shares.items():
        for family in families:
            known = [child for child in family if child[2] or not only_quiet]
            pairs = [(a, b) for at, a in enumerate(known) for b in known[:at] if abs(a[1] - b[1]) >= LEAST]
            right = sum((said[a[0]] - said[b[0]]) * (a[1] - b[1]) > 0 for a, b in pairs)
            found.append((right, len(pairs)))
    print(f"{name}: {share(shares[False])} of all pairs in order, {share(shares[True])} of quiet ones", flush=True)


def share(found):
    """The share of all pairs, with an error from family to family."""
    right, pairs = (sum(column) for column in zip(*found))
    if not pairs:
        return "none"
    mean = right / pairs
    spread = statistics.pstdev(one - mean * all_of_it for one, all_of_it in found)
    return f"{100 * mean:.1f} ± {100 * spread * math.sqrt(len(found)) / pairs:.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("judge")
    one.add_argument("positions_file", metavar="POSITIONS.csv")
    one.add_argument("children", metavar="CHILDREN.csv")
    one.add_argument("--engine", default="stockfish")
    one.add_argument("--nodes", type=int, default=4000)
    one.add_argument("--positions", type=int, default=160)
    one.add_argument("--seed", type=int, default=1)
    one = what.add_parser("nets")
    one.add_argument("children", metavar="CHILDREN.csv")
    one.add_argument("nets", metavar="NET", nargs="+")
    one.add_argument("--tandem", default="target/release/tandem")
    one = what.add_parser("labels")
    one.add_argument("children", metavar="CHILDREN.csv")
    one.add_argument("labelled", metavar="LABELLED.csv", nargs="+")
    args = parser.parse_args()
    if args.what == "judge":
        return judge(args)
    families = children(args.children)
    for path in args.nets if args.what == "nets" else args.labelled:
        said = evaluations(args.tandem, path, families) if args.what == "nets" else labels(path)
        tell(path, families, said)


if __name__ == "__main__":
    main()
