#!/usr/bin/env python3
"""How well an engine's score at fixed nodes predicts results, as a standard for the value of a network.

    scripts/stockfish_values.py POSITIONS.csv [--engine stockfish] [--nodes 30000] [--positions 24000] [--every 10]

POSITIONS.csv has a header with fen and result (`tandem-lab data convert
games-test.pgn.zst -o games-test.csv`). Of the first --positions positions every
tenth is searched. A score becomes a value from -1 to 1 by 2 / (1 +
exp(-score / s)) - 1, with the s that has the least error on these positions,
because the engine's scale is unknown. Prints the mean square errors of that
and of the best constant, with standard errors over games. Needs python-chess.
"""

import argparse
import csv
import math
import shutil
import statistics

import chess
import chess.engine

RESULTS = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}


def positions(path, count, every):
    """Yields the board, the result for the side to move, and the number of the game."""
    game, last = 0, 0
    with open(path, newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            if number == count:
                return
            board = chess.Board(row["fen"])
            game += board.ply() < last
            last = board.ply()
            if number % every == 0 and row["result"] in RESULTS:
                result = RESULTS[row["result"]]
                yield board, result if board.turn else -result, game


def error(rows, value):
    """Returns the mean square error, and its standard error over games."""
    games = {}
    for score, result, game in rows:
        games.setdefault(game, []).append((value(score) - result) ** 2)
    mean = sum(map(sum, games.values())) / len(rows)
    residuals = [sum(errors) - mean * len(errors) for errors in games.values()]
    return mean, math.sqrt(len(residuals)) * statistics.stdev(residuals) / len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("positions_file")
    parser.add_argument("--engine", default=shutil.which("stockfish") or "/usr/games/stockfish")
    parser.add_argument("--nodes", type=int, default=30_000)
    parser.add_argument("--positions", type=int, default=24_000)
    parser.add_argument("--every", type=int, default=10)
    options = parser.parse_args()
    rows = []
    with chess.engine.SimpleEngine.popen_uci(options.engine) as engine:
        engine.configure({"Hash": 16, "Threads": 1})
        name = engine.id["name"]
        for board, result, game in positions(options.positions_file, options.positions, options.every):
            info = engine.analyse(board, chess.engine.Limit(nodes=options.nodes), game=object())
            rows.append((info["score"].relative.score(mate_score=10_000), result, game))
    logistic = lambda scale: lambda score: 2 / (1 + math.exp(-max(min(score / scale, 40), -40))) - 1
    scale = min(range(40, 1000, 5), key=lambda scale: error(rows, logistic(scale))[0])
    constant = sum(result for _, result, _ in rows) / len(rows)
    print(f"{len(rows)} positions of {len({game for _, _, game in rows})} games")
    for what, value in [(f"{name}, {options.nodes} nodes, s {scale}", logistic(scale)), ("the best constant", lambda _: constant)]:
        mean, deviation = error(rows, value)
        print(f"{what}: {mean:.4f} +- {deviation:.4f}")


if __name__ == "__main__":
    main()
