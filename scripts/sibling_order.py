#!/usr/bin/env python3
"""How well evaluations order the children of a position, which is what a search needs first of all.

    scripts/sibling_order.py search POSITIONS.csv CHILDREN.csv [--engine stockfish] [--nodes 4000] [--positions 160]
    scripts/sibling_order.py nets CHILDREN.csv NET... [--tandem target/release/tandem]
    scripts/sibling_order.py labels CHILDREN.csv LABELLED.csv...

`search` takes random positions and has an engine search every child of each;
CHILDREN.csv gets the children, with the score for the side to move. `nets` has
our engine evaluate them with each network, and `labels` reads the scores of
`tandem-lab data label CHILDREN.csv -o LABELLED.csv`, by a search, a transformer
or any other teacher. The output is the fraction of pairs of siblings in the
same order as in CHILDREN.csv, where their scores there differ by 15 centipawns
or more: of all pairs, and of those in which neither child is in check or best
answered by a capture or a promotion. Two equal evaluations count as wrong.
Errors are standard errors over positions. Needs python-chess.
"""

import argparse
import csv
import math
import random
import re
import statistics
import subprocess

FIELDS = ["fen", "move", "score", "parent", "quiet"]
MIN_DIFFERENCE = 15
MATE = 10_000


def search(args):
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
                    info = engine.analyse(board, chess.engine.Limit(nodes=args.nodes))
                    answer = info["pv"][0]
                    noisy = board.is_check() or board.is_capture(answer) or answer.promotion is not None
                    score = info["score"].pov(board.turn).score(mate_score=MATE)
                    out.writerow(dict(zip(FIELDS, [board.fen(), answer.uci(), score, parent, int(not noisy)])))
                board.pop()


def children(path):
    """The children of each position: (fen, score of the search, is quiet)."""
    families = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            families.setdefault(row["parent"], []).append((row["fen"], int(row["score"]), row["quiet"] == "1"))
    return list(families.values())


def evaluations(tandem, net, families):
    """Our engine's evaluation of each child with a network, in centipawns for the side to move."""
    with subprocess.Popen([tandem], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as engine:

        def ask(command, pattern):
            engine.stdin.write(f"{command}\nisready\n")
            found = None
            for line in engine.stdout:
                found = found or re.search(pattern, line)
                if line.startswith("readyok"):
                    return found

        refused = ask(f"setoption name EvalFile value {net}", r"info string .*the evaluation in use stays")
        if refused:
            raise SystemExit(refused[0])
        scores = {}
        for fen in (fen for family in families for fen, *_ in family):
            value = ask(f"position fen {fen}\neval", r"^Evaluation: ([-+][\d.]+)")
            if not value:
                raise SystemExit(f"{tandem}: no evaluation of {fen}")
            scores[fen] = float(value[1]) * (100 if " w " in fen else -100)
        engine.stdin.write("quit\n")
    return scores


def labels(path):
    with open(path, newline="") as file:
        rows = csv.DictReader(file)
        return {row["fen"]: number(row["score"]) for row in rows if row["score"]}


def number(score):
    """Centipawns, a win probability (0.53w) or a mate (#3, #-2) as a number: only the order counts."""
    if score.startswith("#"):
        moves = int(score[1:])
        return math.copysign(MATE, moves) - moves
    if score.endswith("w"):
        win_probability = min(max(float(score[:-1]), 1e-6), 1 - 1e-6)
        return 400 * math.log(win_probability / (1 - win_probability))
    return float(score)


def report(name, families, scores):
    missing = sum(child[0] not in scores for family in families for child in family)
    if missing:
        raise SystemExit(f"{name}: {missing} of the children have no score there; label exactly that file")
    counts = {False: [], True: []}
    for only_quiet, by_position in counts.items():
        for family in families:
            known = [child for child in family if child[2] or not only_quiet]
            pairs = [(a, b) for at, a in enumerate(known) for b in known[:at] if abs(a[1] - b[1]) >= MIN_DIFFERENCE]
            right = sum((scores[a[0]] - scores[b[0]]) * (a[1] - b[1]) > 0 for a, b in pairs)
            by_position.append((right, len(pairs)))
    print(f"{name}: {fraction(counts[False])} of all pairs in order, {fraction(counts[True])} of quiet ones", flush=True)


def fraction(by_position):
    """Fraction of pairs in order, with a standard error over positions."""
    right, pairs = (sum(column) for column in zip(*by_position))
    if not pairs:
        return "none"
    mean = right / pairs
    spread = statistics.pstdev(one - mean * total for one, total in by_position)
    return f"{100 * mean:.1f} ± {100 * spread * math.sqrt(len(by_position)) / pairs:.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("search", aliases=["judge"])  # language: old name
    command.add_argument("positions_file", metavar="POSITIONS.csv")
    command.add_argument("children", metavar="CHILDREN.csv")
    command.add_argument("--engine", default="stockfish")
    command.add_argument("--nodes", type=int, default=4000)
    command.add_argument("--positions", type=int, default=160)
    command.add_argument("--seed", type=int, default=1)
    command = commands.add_parser("nets")
    command.add_argument("children", metavar="CHILDREN.csv")
    command.add_argument("nets", metavar="NET", nargs="+")
    command.add_argument("--tandem", default="target/release/tandem")
    command = commands.add_parser("labels")
    command.add_argument("children", metavar="CHILDREN.csv")
    command.add_argument("labelled", metavar="LABELLED.csv", nargs="+")
    args = parser.parse_args()
    if args.command not in ("nets", "labels"):
        return search(args)
    families = children(args.children)
    for path in args.nets if args.command == "nets" else args.labelled:
        scores = evaluations(args.tandem, path, families) if args.command == "nets" else labels(path)
        report(path, families, scores)


if __name__ == "__main__":
    main()
