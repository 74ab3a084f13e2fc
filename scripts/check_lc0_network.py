#!/usr/bin/env python3
"""Check a network that was written for lc0 against a plain forward pass.

    scripts/check_lc0_network.py LC0 NETWORK.pb.gz NETWORK.safetensors

LC0 is the program itself, with a CPU backend. It evaluates positions with one
visit each; its policy of legal moves, win minus loss, draw and moves left are
compared with `transformer_reference.py`, for every policy and value head of the
network. Positions have no history; some are listed here, the others come from
games of random moves.

It needs numpy and python-chess, and ends with status 1 at a difference.
"""

import argparse
import random
import re
import subprocess
import sys

import chess
import numpy as np

from transformer_reference import Network, softmax

POSITIONS = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 7 20",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b Kq - 31 20",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 99 70",
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8",
    "8/P6k/8/8/8/8/p6K/1R6 b - - 12 60",
    "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3",
]


def random_positions(count, seed):
    """One position of each of `count` random games, none of them over."""
    choose = random.Random(seed)
    fens = []
    while len(fens) < count:
        board = chess.Board()
        for _ in range(choose.randrange(120)):
            if board.is_game_over():
                break
            board.push(choose.choice(list(board.legal_moves)))
        if not board.is_game_over() and board.halfmove_clock < 100:
            fens.append(board.fen())
    return fens


# Names of lc0's heads and of ours.
POLICIES = {"vanilla": "policy", "soft": "soft_policy", "optimistic": "optimistic_policy", "opponent": "opponent_policy"}
VALUES = {"winner": "value", "q": "search_value", "st": "short_term"}

CLOCK_PLANE = 109
CLOCK = 99.0


def put_pieces(squares, pieces, us, first):
    """Sets the twelve planes of a board from plane `first` on, as `us` sees it."""
    for square, piece in pieces.items():
        relative = square if us == chess.WHITE else chess.square_mirror(square)
        squares[relative, first + piece.piece_type - 1 + (0 if piece.color == us else 6)] = 1


def planes(board):
    """lc0's 112 planes of a position without history, as our networks read them: [64, 112], a1 first."""
    us = board.turn
    squares = np.zeros((64, 112), np.float32)
    pieces = board.piece_map()
    put_pieces(squares, pieces, us, 0)
    if board.ep_square is not None:
        # The pawn that can be taken en passant has just moved, so lc0 knows the board before.
        step = 8 if us == chess.BLACK else -8
        pieces[board.ep_square - step] = pieces.pop(board.ep_square + step)
        put_pieces(squares, pieces, us, 13)
    rights = [
        board.has_queenside_castling_rights(us),
        board.has_kingside_castling_rights(us),
        board.has_queenside_castling_rights(not us),
        board.has_kingside_castling_rights(not us),
    ]
    squares[:, 104:108] = rights
    squares[:, 108] = us == chess.BLACK
    squares[:, CLOCK_PLANE] = board.halfmove_clock / CLOCK
    squares[:, 111] = 1
    return squares


def rescaled(wdl):
    """Win minus loss, and draw, after lc0's search has passed them through its fast logarithms and back."""

    def log(x):
        exponent = np.floor(np.log2(x))
        part = x / 2**exponent - 1
        return (part * (1.3465552 - 0.34655523 * part) + exponent) * np.log(2)

    def logistic(x):
        x = -x / np.log(2)
        part = x - np.floor(x)
        return 1 / (1 + (1 + part * (0.6602339 + 0.33976606 * part)) * 2 ** np.floor(x))

    win, _, loss = wdl
    # lc0 fits a logistic distribution, and recomputes win and loss from its mean and scale.
    a, b = log(1 / loss - 1), log(1 / win - 1)
    win, loss = logistic(-b), logistic(-a)
    return win - loss, 1 - win - loss


def evaluate(lc0, network, policy, value, positions):
    """lc0's output for each position: move probabilities by index, and (W - L, D, plies left)."""
    commands = [
        lc0, f"--weights={network}", f"--backend-opts=policy_head={policy},value_head={value}",
        "--verbose-move-stats", "--policy-softmax-temp=1.0", "--history-fill=no", "--threads=1", "--minibatch-size=1",
        "--max-prefetch=0", "--nncache=0", "--smart-pruning-factor=0",
    ]
    # One search after another, because lc0 answers asynchronously.
    engine = subprocess.Popen(commands, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    answers = []
    for fen in positions:
        print(f"ucinewgame\nposition fen {fen}\ngo nodes 1", file=engine.stdin, flush=True)
        moves, root = {}, None
        for line in engine.stdout:
            if line.startswith("error"):
                raise SystemExit(f"lc0: {line.strip()}")
            if line.startswith("bestmove"):
                break
            found = re.match(r"info string (\S+) +\( *(\d+) *\).*\(P: *([\d.]+)%\)", line)
            if not found:
                continue
            if found[1] == "node":
                number = lambda name: float(re.search(rf"\({name}: *(-?[\d.]+)\)", line)[1])
                root = number("WL"), number("D"), number("M")
            else:
                moves[int(found[2])] = float(found[3]) / 100
        if root is None:
            raise SystemExit("lc0 gave no answer; does it read the network?")
        answers.append((moves, root))
    print("quit", file=engine.stdin, flush=True)
    engine.wait()
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lc0")
    parser.add_argument("network")
    parser.add_argument("weights")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--positions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    network = Network.load(options.weights)
    positions = (POSITIONS + random_positions(max(options.positions - len(POSITIONS), 0), options.seed))[: options.positions]
    outputs = network.forward({"squares": np.stack([planes(chess.Board(fen)) for fen in positions])})
    policies = {lc0: ours for lc0, ours in POLICIES.items() if ours in outputs}
    values = {lc0: ours for lc0, ours in VALUES.items() if f"{ours}.wdl" in outputs}
    pairs = [(policy, "winner") for policy in policies] + [("vanilla", value) for value in values if value != "winner"]
    for policy, value in pairs:
        answers = evaluate(options.lc0, options.network, policy, value, positions)
        worst = dict.fromkeys(("policy", "win - loss", "draw", "moves left"), 0.0)
        for index, (moves, (win_less_loss, draw, plies)) in enumerate(answers):
            indices = sorted(moves)
            if len(indices) != chess.Board(positions[index]).legal_moves.count():
                raise SystemExit(f"{positions[index]}: {len(indices)} moves with a probability")
            probabilities = softmax(outputs[policies[policy]][index, indices])
            expected = rescaled(softmax(outputs[f"{values[value]}.wdl"][index]))
            differences = {
                "policy": np.abs(probabilities - [moves[move] for move in indices]).max(),
                "win - loss": abs(expected[0] - win_less_loss),
                "draw": abs(expected[1] - draw),
            }
            if "moves_left" in outputs:
                differences["moves left"] = abs(outputs["moves_left"][index, 0] - plies)
            for name, difference in differences.items():
                worst[name] = max(worst[name], difference)
        summary = ", ".join(f"{name} {difference:.1e}" for name, difference in worst.items())
        print(f"{policy}, {value}: differs by at most {summary}")
        # lc0 prints moves left with one decimal.
        if not all(worst[name] <= (0.06 if name == "moves left" else options.tolerance) for name in worst):
            return 1
    print(f"{len(positions)} positions: the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
