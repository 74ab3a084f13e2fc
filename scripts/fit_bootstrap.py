#!/usr/bin/env python3
"""Fit the bootstrap evaluation: tapered material, piece squares and a few pawn, rook and king terms.

Run:

    pip install numpy scipy zstandard
    python3 scripts/fit_bootstrap.py LABELLED.csv.zst... > crates/search/src/bootstrap/tables.rs

The inputs are zstd-compressed CSV files with the columns `fen,move_uci,eval_white,depth,engine,result,frc`
(evaluation in pawns seen from White, `M...` for a mate score, result as `1-0`, `0-1` or `1/2-1/2`).
The Rust tables go to standard output, the progress and the losses to standard error.

What is kept: standard chess, no mate scores, |evaluation| <= 12 pawns, side to move not in check, and the move
played neither a capture nor a promotion.

Target: 0.6 * sigmoid(evaluation_cp / 330) + 0.4 * result. The model predicts sigmoid(score / 400), the loss is
the cross-entropy, and the score is linear in the parameters:

    score = (mg * phase + eg * (24 - phase)) / 24,   phase = min(24, N + B + 2R + 4Q)

where mg and eg sum the same features, White's minus Black's, with different weights. The exact definition of
every feature is in the doc comments of the Rust source printed below. King shelter has no endgame weight.

The games start from openings that favour White, so the fit has one more tapered constant, for being White. It
keeps that advantage from leaking into the squares; it is not part of the model and is thrown away.

Engine games have few large material imbalances, so every weight is pulled to a prior: the average value of a piece
hard; squares gently to zero (the king in the middlegame to its first ranks, since it is seen in the open only where
that is safe); passed pawns to a bonus that rises with the rank, since dropping promotions and mates leaves mostly
stopped ones; and each square gently to its mirror image on the other wing. The strengths are in
pseudo-positions (the number of even positions with that feature that would pull as hard). Averages over squares are
weighted by how often the piece stands there. At the end the mean of each square table moves into the material value,
and all weights are scaled so that the pawn's middlegame and endgame values average 95: a pawn is then worth about
100 with its other terms, and a queen about 1,070.

One row block in ten (blocks of consecutive rows, so that games stay together) is held out for validation.
"""

import argparse
import csv
import io
import sys

import numpy as np
import scipy.optimize
import scipy.sparse
import zstandard

PIECES = "PNBRQK"
NAMES = ["Pawn", "Knight", "Bishop", "Rook", "Queen", "King"]
PHASE = np.array([0, 1, 1, 2, 4, 0])
FULL_PHASE = 24

EVAL_SCALE = 330.0  # Centipawns of the labels.
MODEL_SCALE = 400.0  # Units of the model.
EVAL_WEIGHT = 0.6
MAX_EVAL = 12.0
BLOCK = 20_000
HELD_OUT = 10

PRIOR_MATERIAL = np.array([[82, 94], [337, 281], [365, 297], [477, 512], [1025, 936], [0, 0]], float)
# Of the king in the middlegame, rank 8 first.
PRIOR_KING = np.array([-60, -60, -60, -60, -60, -40, -15, 0], float)
# Rank 1 first.
PRIOR_PASSED = np.array([[0, 0], [0, 10], [0, 15], [5, 30], [15, 55], [40, 95], [70, 150], [0, 0]], float)

# Mean of the pawn's final middlegame and endgame values, before squares and passed pawns are added.
PAWN = 95.0

# Columns: material and squares (piece * 64 + square, square 0 = a8 seen from the piece's own side), then scalars.
MATERIAL = 0
SQUARES = 6
PASSED = SQUARES + 6 * 64
BISHOP_PAIR, ISOLATED, DOUBLED, ROOK_OPEN, ROOK_HALF_OPEN, SHELTER, TEMPO, WHITE = range(PASSED + 8, PASSED + 16)
COLUMNS = PASSED + 16

# Strengths of the pull, in pseudo-positions.
PULL_MATERIAL = 5_000_000
PULL_SQUARE = 2_000
PULL_MIRROR = 5_000
PULL_PASSED = 10_000
PULL_SCALAR = 500


def log(*words):
    print(*words, file=sys.stderr, flush=True)


def read_rows(paths):
    """Return (placements, black to move, moves, evaluations, results) of the rows that may be used."""
    points = {"1-0": 1.0, "0-1": 0.0, "1/2-1/2": 0.5}
    boards, black, moves, evals, results = [], [], [], [], []
    for path in paths:
        with open(path, "rb") as raw:
            stream = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(raw)
            for row in csv.DictReader(io.TextIOWrapper(stream, "utf-8", newline="")):
                move, text = row["move_uci"], row["eval_white"]
                if row["frc"] != "0" or "M" in text or len(move) != 4 or row["result"] not in points:
                    continue
                value = float(text)
                if abs(value) > MAX_EVAL:
                    continue
                fen = row["fen"].split(" ", 2)
                boards.append(fen[0])
                black.append(fen[1] == "b")
                moves.append(move)
                evals.append(value)
                results.append(points[row["result"]])
    return boards, np.array(black), moves, np.array(evals, np.float32), np.array(results, np.float32)


def parse_boards(placements):
    """Piece codes, (n, 64), a8 first: 0 empty, 1..6 White's pawn to king, 7..12 Black's."""
    text = "\n".join(placements).replace("/", "")
    for digit in "12345678":
        text = text.replace(digit, "." * int(digit))
    codes = np.zeros(256, np.int8)
    for code, letter in enumerate(PIECES + PIECES.lower(), 1):
        codes[ord(letter)] = code
    flat = np.frombuffer((text + "\n").encode(), np.uint8).reshape(len(placements), 65)[:, :64]
    return codes[flat]


def flip(boards):
    """The same positions with the colours swapped and the board upside down."""
    swap = np.array([0, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6], np.int8)
    return swap[boards].reshape(-1, 8, 8)[:, ::-1].reshape(-1, 64)


def in_check(boards):
    """Whether White's king is attacked."""
    n = len(boards)
    padded = np.full((n, 12, 12), -1, np.int8)
    padded[:, 2:10, 2:10] = boards.reshape(n, 8, 8)
    padded = padded.reshape(n, 144)
    square = np.argmax(padded == 6, axis=1)
    rows = np.arange(n)
    check = np.zeros(n, bool)

    def at(step):
        return padded[rows, square + step]

    for step in (-13, -11):
        check |= at(step) == 7
    for step in (-25, -23, -14, -10, 10, 14, 23, 25):
        check |= at(step) == 8
    for step, slider in ((-13, 9), (-11, 9), (11, 9), (13, 9), (-12, 10), (-1, 10), (1, 10), (12, 10)):
        clear = np.ones(n, bool)
        for distance in range(1, 8):
            # Past the edge the ray is no longer clear, so the clamped index is never used.
            piece = padded[rows, np.clip(square + step * distance, 0, 143)]
            check |= clear & ((piece == slider) | (piece == 11))
            clear &= piece == 0
    return check


def is_capture(boards, moves):
    """Whether the move lands on a piece, or is a pawn's diagonal move (en passant)."""
    text = np.frombuffer("".join(moves).encode(), np.uint8).reshape(-1, 4).astype(np.int64)
    source = (ord("8") - text[:, 1]) * 8 + text[:, 0] - ord("a")
    target = (ord("8") - text[:, 3]) * 8 + text[:, 2] - ord("a")
    rows = np.arange(len(boards))
    mover = boards[rows, source]
    pawn = (mover == 1) | (mover == 7)
    return (boards[rows, target] != 0) | (pawn & (text[:, 0] != text[:, 2]))


def widen(files):
    """Or each file with its neighbours; the file is the last axis."""
    wide = files.copy()
    wide[..., 1:] |= files[..., :-1]
    wide[..., :-1] |= files[..., 1:]
    return wide


def white_features(boards):
    """Counts of White's features, (n, COLUMNS), without tempo and the constant."""
    n = len(boards)
    out = np.zeros((n, COLUMNS), np.int8)
    for piece in range(6):
        here = boards == piece + 1
        out[:, MATERIAL + piece] = here.sum(axis=1)
        out[:, SQUARES + piece * 64 : SQUARES + piece * 64 + 64] = here

    own = (boards == 1).reshape(n, 8, 8)
    enemy = (boards == 7).reshape(n, 8, 8)
    enemy_ahead = np.zeros_like(enemy)
    enemy_ahead[:, 1:] = np.logical_or.accumulate(enemy, axis=1)[:, :-1]
    own_ahead = np.zeros_like(own)
    own_ahead[:, 1:] = np.logical_or.accumulate(own, axis=1)[:, :-1]
    passed = own & ~widen(enemy_ahead)
    # Row 0 of the board is rank 8; the column is by rank, rank 1 first.
    out[:, PASSED : PASSED + 8] = passed.sum(axis=2)[:, ::-1]

    own_files = own.any(axis=1)
    enemy_files = enemy.any(axis=1)
    neighbours = np.zeros_like(own_files)
    neighbours[:, 1:] |= own_files[:, :-1]
    neighbours[:, :-1] |= own_files[:, 1:]
    out[:, ISOLATED] = (own & ~neighbours[:, None, :]).sum(axis=(1, 2))
    out[:, DOUBLED] = (own & own_ahead).sum(axis=(1, 2))

    rooks = (boards == 4).reshape(n, 8, 8).sum(axis=1)
    out[:, ROOK_OPEN] = (rooks * (~own_files & ~enemy_files)).sum(axis=1)
    out[:, ROOK_HALF_OPEN] = (rooks * (~own_files & enemy_files)).sum(axis=1)
    out[:, BISHOP_PAIR] = (boards == 3).sum(axis=1) >= 2

    king = widen((boards == 6).reshape(n, 8, 8))
    shelter = np.zeros_like(king)
    shelter[:, :-1] |= king[:, 1:]
    shelter[:, :-2] |= king[:, 2:]
    out[:, SHELTER] = (own & shelter).sum(axis=(1, 2))
    return out


def features(boards, black):
    """White's features minus Black's as a sparse matrix, and the share of the middlegame."""
    parts, phases = [], []
    weights = np.concatenate([[0], PHASE, PHASE]).astype(np.int8)
    for start in range(0, len(boards), 100_000):
        part = boards[start : start + 100_000]
        dense = white_features(part) - white_features(flip(part))
        dense[:, TEMPO] = np.where(black[start : start + 100_000], -1, 1)
        dense[:, WHITE] = 1
        parts.append(scipy.sparse.csr_matrix(dense).astype(np.float32))
        phases.append(np.minimum(weights[part].sum(axis=1, dtype=np.int32), FULL_PHASE) / FULL_PHASE)
    return scipy.sparse.vstack(parts, format="csr"), np.concatenate(phases).astype(np.float32)


def cross_entropy(score, target):
    """Loss of each position; `score` in units of the model."""
    x = score / MODEL_SCALE
    return np.logaddexp(0.0, x) - target * x


def score_of(matrix, share, weights):
    both = matrix @ weights.astype(np.float32)
    return (share * both[:, 0] + (1 - share) * both[:, 1]).astype(np.float64)


def average_values(weights, occupancy):
    """The value of each piece averaged over the squares where it stands, (6, 2)."""
    tables = weights[SQUARES:PASSED].reshape(6, 64, 2)
    return weights[MATERIAL:SQUARES] + np.einsum("ps,psk->pk", occupancy, tables)


def fit(matrix, share, target, prior, occupancy):
    """Minimise the penalised loss by L-BFGS. `prior` and the result are (COLUMNS, 2): middlegame, endgame."""
    transposed = matrix.T.tocsr()
    curvature = 0.25 / MODEL_SCALE**2
    pull = np.full((COLUMNS, 1), PULL_SCALAR * curvature)
    pull[MATERIAL:SQUARES] = 0  # The pull is on the averages.
    pull[SQUARES:PASSED] = PULL_SQUARE * curvature
    pull[PASSED : PASSED + 8] = PULL_PASSED * curvature
    pull_average = PULL_MATERIAL * curvature
    prior_average = average_values(prior, occupancy)
    mirror = np.arange(SQUARES, PASSED).reshape(48, 8)[:, ::-1].ravel()
    free = np.ones((COLUMNS, 2))
    free[SHELTER, 1] = 0
    # Precondition: solve for parameters that have about equal curvature.
    counts = np.asarray(matrix.multiply(matrix).sum(axis=0)).reshape(-1, 1)
    stiffness = 0.5 * counts * curvature + pull
    stiffness[MATERIAL:SQUARES] += pull_average
    step = 1.0 / np.sqrt(stiffness)

    def objective(x):
        weights = prior + free * step * x.reshape(COLUMNS, 2)
        score = score_of(matrix, share, weights)
        loss = cross_entropy(score, target).sum()
        slope = (1 / (1 + np.exp(-score / MODEL_SCALE)) - target) / MODEL_SCALE
        sides = np.stack([slope * share, slope * (1 - share)], axis=1).astype(np.float32)
        gradient = (transposed @ sides).astype(np.float64)
        away = weights - prior
        uneven = weights[SQUARES:PASSED] - weights[mirror]
        penalty = 0.5 * (pull * away**2).sum() + 0.25 * PULL_MIRROR * curvature * (uneven**2).sum()
        drift = average_values(weights, occupancy) - prior_average
        penalty += 0.5 * pull_average * (drift**2).sum()
        gradient += pull * away
        gradient[MATERIAL:SQUARES] += pull_average * drift
        gradient[SQUARES:PASSED] += pull_average * (occupancy[:, :, None] * drift[:, None, :]).reshape(-1, 2)
        gradient[SQUARES:PASSED] += PULL_MIRROR * curvature * uneven
        n = len(target)
        return (loss + penalty) / n, (gradient * step * free).ravel() / n

    count = 0

    def progress(_):
        nonlocal count
        count += 1
        if count % 25 == 0:
            log(f"  iteration {count}")

    options = {"maxiter": 300, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-9}
    zero = np.zeros(COLUMNS * 2)
    found = scipy.optimize.minimize(objective, zero, jac=True, method="L-BFGS-B", callback=progress, options=options)
    log(f"  {found.message}, {found.nit} iterations, penalised loss {found.fun:.6f}")
    return prior + free * step * found.x.reshape(COLUMNS, 2)


def centre(weights, occupancy):
    """Move each table's mean into the material value; squares that cannot be occupied become 0."""
    weights = weights.copy()
    averages = average_values(weights, occupancy)
    weights[SQUARES:PASSED] -= np.repeat(averages - weights[MATERIAL:SQUARES], 64, axis=0)
    weights[MATERIAL:SQUARES] = averages
    # One king each: a constant for the king cancels.
    weights[MATERIAL + 5] = 0
    pawns = weights[SQUARES : SQUARES + 64]
    pawns[:8] = 0
    pawns[56:] = 0
    return weights


def best_scale(score, target):
    """The factor on `score` with the least loss, and that loss."""
    found = scipy.optimize.minimize_scalar(
        lambda k: cross_entropy(k * score, target).mean(), bounds=(0.1, 5), method="bounded"
    )
    return found.x, found.fun


def rust(weights):
    """The Rust source of the integer weights, (COLUMNS, 2)."""

    def pair(row):
        return f"Pair({weights[row][0]}, {weights[row][1]})"

    def boards(name, phase, doc):
        lines = [
            f"/// {doc} of each square, added to [`MATERIAL`], for each piece in the same order.",
            "///",
            "/// Each table is a board as White sees it, rank 8 on top: index 0 is a8, 7 is h8, 56 is a1, 63 is h1.",
            "/// For a black piece flip the rank (`index ^ 56`) and subtract.",
            "#[rustfmt::skip]",
            f"pub(super) const {name}: [[i16; 64]; 6] = [",
        ]
        for piece in range(6):
            lines.append(f"    // {NAMES[piece]}.")
            lines.append("    [")
            table = weights[SQUARES + piece * 64 : SQUARES + piece * 64 + 64, phase].reshape(8, 8)
            lines += ["        " + " ".join(f"{value:4d}," for value in rank) for rank in table]
            lines.append("    ],")
        return lines + ["];"]

    passed_rows = ["    " + pair(PASSED + rank) + "," for rank in range(8)]
    out = [
        "//! The weights of the bootstrap evaluation, fitted by `scripts/fit_bootstrap.py`: data only.",
        "//!",
        "//! All in centipawns. The score is `(mg * phase + eg * (24 - phase)) / 24`, where mg and eg are the sums over",
        "//! White's features less the sums over Black's, and the phase is the number of knights and bishops plus twice",
        "//! the rooks plus four times the queens, of both sides, capped at 24. \"Ahead\" is towards the eighth rank as",
        "//! seen by the side in question.",
        "",
        "use super::Pair;",
        "",
        "/// Value of a piece: pawn, knight, bishop, rook, queen, king. The average over the squares it stands on.",
        "#[rustfmt::skip]",
        "pub(super) const MATERIAL: [Pair; 6] = [",
        *["    " + pair(MATERIAL + piece) + "," for piece in range(6)],
        "];",
        "",
        *boards("MIDGAME", 0, "Middlegame value"),
        "",
        *boards("ENDGAME", 1, "Endgame value"),
        "",
        "/// For the side to move; tapered like the rest.",
        f"pub(super) const TEMPO: Pair = {pair(TEMPO)};",
        "",
        "/// For a side with two or more bishops, whatever the colours of their squares; once.",
        f"pub(super) const BISHOP_PAIR: Pair = {pair(BISHOP_PAIR)};",
        "",
        "/// For each passed pawn, by its rank as its own side counts (0 is rank 1, 6 is one step from promotion).",
        "///",
        "/// Passed: no enemy pawn on the same or an adjacent file on any rank strictly ahead of it. Friendly pawns do",
        "/// not matter, so both pawns of a doubled pair can be passed.",
        "#[rustfmt::skip]",
        "pub(super) const PASSED: [Pair; 8] = [",
        *passed_rows,
        "];",
        "",
        "/// For each pawn with no friendly pawn on any rank of the adjacent files. Each of two doubled ones counts.",
        f"pub(super) const ISOLATED: Pair = {pair(ISOLATED)};",
        "",
        "/// For each pawn with a friendly pawn anywhere ahead of it on its file (so the pawns on a file less one).",
        f"pub(super) const DOUBLED: Pair = {pair(DOUBLED)};",
        "",
        "/// For each rook on a file without pawns of either side.",
        f"pub(super) const ROOK_OPEN: Pair = {pair(ROOK_OPEN)};",
        "",
        "/// For each rook on a file without friendly pawns but with at least one enemy pawn.",
        f"pub(super) const ROOK_HALF_OPEN: Pair = {pair(ROOK_HALF_OPEN)};",
        "",
        "/// For each friendly pawn one or two ranks ahead of the king, on the king's file or an adjacent one.",
        f"pub(super) const KING_SHELTER: Pair = {pair(SHELTER)};",
    ]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Fit the bootstrap evaluation and print its Rust tables.")
    parser.add_argument("labelled", nargs="+", help="zstd-compressed CSV files of labelled positions")
    args = parser.parse_args()

    placements, black, moves, evals, results = read_rows(args.labelled)
    boards = parse_boards(placements)
    log(f"{len(boards)} rows read")
    block = np.arange(len(boards)) // BLOCK
    keep = ~is_capture(boards, moves)
    for start in range(0, len(boards), 200_000):
        part = slice(start, start + 200_000)
        keep[part] &= ~in_check(np.where(black[part, None], flip(boards[part]), boards[part]))
    boards, black, evals, results, block = (a[keep] for a in (boards, black, evals, results, block))
    target = EVAL_WEIGHT / (1 + np.exp(-100.0 * evals.astype(float) / EVAL_SCALE)) + (1 - EVAL_WEIGHT) * results
    log(f"{len(boards)} quiet positions")

    matrix, share = features(boards, black)
    held_out = block % HELD_OUT == HELD_OUT - 1
    train, check = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    flipped = flip(boards)
    occupancy = np.array([(boards == p + 1).mean(axis=0) + (flipped == p + 1).mean(axis=0) for p in range(6)])
    occupancy /= occupancy.sum(axis=1, keepdims=True)
    train_matrix, check_matrix = matrix[train], matrix[check]
    del matrix

    prior = np.zeros((COLUMNS, 2))
    prior[MATERIAL:SQUARES] = PRIOR_MATERIAL
    scale, _ = best_scale(score_of(train_matrix, share[train], prior), target[train])
    log(f"the prior fits best scaled by {scale:.3f}; fitting {len(train)} positions")
    start = scale * prior
    start[SQUARES + 5 * 64 : PASSED, 0] = np.repeat(PRIOR_KING, 8)
    start[PASSED : PASSED + 8] = PRIOR_PASSED
    weights = fit(train_matrix, share[train], target[train], start, occupancy)
    log(f"constant for White (dropped): {weights[WHITE].round(1)}")
    weights[WHITE] = 0
    weights = centre(weights, occupancy)
    unit = PAWN / weights[MATERIAL + 0].mean()  # Row 0 is the pawn's.
    final = np.rint(weights * unit).astype(int)
    log(f"scaled by {unit:.3f} to make a pawn {PAWN:.0f}; the model's sigmoid then has scale {MODEL_SCALE * unit:.0f}")

    expected = target[check]
    base = cross_entropy(np.zeros(len(check)), expected).mean()
    entropy = -(expected * np.log(expected) + (1 - expected) * np.log1p(-expected)).mean()
    log(f"validation, {len(check)} positions; a perfect prediction has {entropy:.5f}, an even one {base:.5f}")
    for name, table in (("prior", prior), ("fitted", final)):
        score = score_of(check_matrix, share[check], table.astype(float))
        raw = cross_entropy(score, expected).mean()
        k, best = best_scale(score, expected)
        log(f"  {name}: {raw:.5f} at scale {MODEL_SCALE:.0f}, {best:.5f} at its best scale {MODEL_SCALE / k:.0f}")

    sys.stdout.write(rust(final))


if __name__ == "__main__":
    main()
