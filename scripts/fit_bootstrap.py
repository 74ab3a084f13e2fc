#!/usr/bin/env python3
"""Fit the bootstrap evaluation to games.

Run:

    pip install numpy scipy
    cargo run --release -p tandem-search --example bootstrap_features -- FEATURES PER_GAME MOST FILE...
    python3 scripts/fit_bootstrap.py FEATURES... > crates/search/src/bootstrap/tables.rs

The example lists the terms of each quiet position of the games; this script fits their weights. With no FEATURES it
prints tables of the priors, with which the example is built after a change of the terms below. The Rust tables go to
standard output, progress and losses to standard error.

The score is linear in the weights except for the scaling of drawish endgames:

    score = (mg * phase + eg * winnable / 64 * (24 - phase)) / 24

where mg and eg sum the same terms, White's minus Black's, and `winnable` is that of the side ahead in the endgame.
The model predicts sigmoid(score / 400) and the loss is the cross-entropy with

    lambda * sigmoid(evaluation_cp / 330) + (1 - lambda) * result

where lambda depends on the kind of game: see SOURCES. Weights are regularised towards their priors, and neighbours
in a table (of mobility, of king danger) towards each other, so that rare ones stay plausible. In the end all are
scaled to make a pawn worth PAWN.

The tables of the engine come from three files of features, of 1,341,823 positions in all: PER_GAME 0 and MOST 420000
with the two files of labelled TCEC positions; 6 and 450000 with otb2400.pgn.zst; 60 and 900000 with some 1,600 games
that the engine with its former evaluation played against itself, 1,500 nodes a move, from random openings (`tandem
genfens`). Those last games are not kept, and are 4 % of the positions.
"""

import sys
import textwrap

import numpy as np
import scipy.optimize
import scipy.sparse

MODEL_SCALE = 400.0
EVAL_SCALE = 330.0
PAWN = 100.0
HELD_OUT = 20  # One block in HELD_OUT is for validation.
BLOCK = 2000
ITERATIONS = 150

# Kind of source: lambda (weight of the evaluation in the target), weight of a position.
SOURCES = {
    0: (0.0, 1.0),  # Games without evaluations.
    1: (0.4, 2.0),  # Self-play.
    2: (0.6, 1.0),  # Labelled positions.
}

PIECES = ["Pawn", "Knight", "Bishop", "Rook", "Queen", "King"]
# Name, number of weights, weights in a line, strength of the prior, smoothness, documentation.
TERMS = [
    ("MATERIAL", 6, 1, 1.0, 0, "Material of pawn, knight, bishop, rook, queen and king."),
    (
        "SQUARES",
        768,
        8,
        40.0,
        0,
        "Piece-square tables, added to material: 64 squares for each kind of piece, rank 1 first, from its own side's "
        "view and mirrored where needed to have its king on the files e to h; first for kings on the same side of the "
        "board, then for kings on opposite sides.",
    ),
    ("TEMPO", 1, 1, 1, 0, "Bonus of the side to move."),
    ("PASSED", 8, 1, 20, 0, "A passed pawn, by rank from its own side's view (0 is rank 1)."),
    ("PASSED_CONNECTED", 8, 1, 60, 30, "A passed pawn with another pawn defending it or beside it, by rank."),
    (
        "PASSED_OWN_KING",
        8,
        1,
        60,
        60,
        "Distance of its own king from the square in front of a passed pawn, for each rank beyond the third.",
    ),
    ("PASSED_ENEMY_KING", 8, 1, 60, 60, "Distance of the opponent's king from that square, in the same way."),
    ("PASSED_BLOCKED", 8, 1, 60, 30, "A passed pawn with a piece in front of it, by rank."),
    ("PASSED_FREE", 8, 1, 60, 30, "A passed pawn whose path is free and not attacked, by rank."),
    ("PASSED_STEP", 8, 1, 60, 30, "A passed pawn that can safely advance one square, but not all the way, by rank."),
    ("PHALANX", 8, 1, 60, 30, "A pawn with another beside it, by rank."),
    ("SUPPORTED", 8, 1, 60, 30, "Each pawn that defends a pawn, by the rank of the defended."),
    ("ISOLATED", 2, 1, 20, 0, "An isolated pawn: opposed by a pawn on its file, not opposed."),
    ("BACKWARD", 2, 1, 20, 0, "A backward pawn, behind all its neighbours and unable to advance safely: opposed, not opposed."),
    ("DOUBLED", 2, 1, 20, 0, "A doubled pawn, behind another on its file: not defended by a pawn, defended."),
    (
        "SHELTER",
        32,
        8,
        60,
        0,
        "Shelter: the nearest own pawn on each of three files before a king, by distance of the file from the edge and "
        "by rank; rank 0 for none.",
    ),
    ("STORM", 32, 8, 60, 0, "Storm: the nearest pawn of the opponent on each of these files, in the same way."),
    (
        "KNIGHT_MOBILITY",
        9,
        1,
        10,
        60,
        "Squares to which a knight can move that are not attacked by pawns of the opponent or occupied by own pawns or "
        "king.",
    ),
    ("BISHOP_MOBILITY", 14, 1, 10, 60, "Mobility of a bishop, counted as for a knight, through queens."),
    ("ROOK_MOBILITY", 15, 1, 10, 60, "Mobility of a rook, counted as for a knight, through queens and own rooks."),
    ("QUEEN_MOBILITY", 28, 1, 10, 100, "Mobility of a queen, counted as for a knight."),
    ("OUTPOST", 2, 1, 20, 0, "A knight, a bishop, on ranks 4 to 6, defended by a pawn, where no pawn of the opponent can attack it."),
    ("BISHOP_PAWNS", 1, 1, 1, 0, "For each bishop, each own pawn on squares of its colour."),
    ("BISHOP_PAIR", 1, 1, 1, 0, "Two bishops or more on one side."),
    ("ROOK_OPEN", 1, 1, 1, 0, "A rook on a file without pawns."),
    ("ROOK_HALF_OPEN", 1, 1, 1, 0, "A rook on a file with pawns of the opponent only."),
    ("ROOK_BEHIND_PASSED", 1, 1, 1, 0, "A rook behind an own passed pawn."),
    ("PAWN_THREAT", 4, 1, 20, 0, "Pawns attack a knight, bishop, rook, queen."),
    ("MINOR_THREAT", 4, 1, 20, 0, "Knights or bishops attack a knight, bishop, rook, queen."),
    ("ROOK_THREAT", 4, 1, 20, 0, "Rooks attack a knight, bishop, rook, queen."),
    ("HANGING", 2, 1, 20, 0, "A piece, a pawn of the opponent that is attacked and not defended."),
    ("PUSH_THREAT", 1, 1, 1, 0, "A piece of the opponent that a safe advance of a pawn would attack."),
    ("KING_DANGER", 96, 8, 20, 100, "The attack on the opponent's king, by its pressure; first without a queen, then with one."),
]
OFFSET = dict(zip((t[0] for t in TERMS), np.cumsum([0] + [t[1] for t in TERMS])))
COLUMNS = sum(t[1] for t in TERMS)

PRIOR = {
    "MATERIAL": [(85, 100), (337, 290), (355, 305), (477, 530), (1025, 960), (0, 0)],
    "PASSED": [(0, 0), (0, 5), (0, 10), (5, 25), (15, 50), (40, 90), (70, 140), (0, 0)],
    "PASSED_FREE": [(0, 0), (0, 0), (0, 5), (0, 10), (0, 20), (10, 50), (30, 90), (0, 0)],
    "TEMPO": [(20, 10)],
    "BISHOP_PAIR": [(25, 50)],
    "PAWN_THREAT": [(50, 30)] * 4,
    "HANGING": [(30, 20), (5, 10)],
}


def log(message):
    print(message, file=sys.stderr, flush=True)


def prior():
    weights = np.zeros((COLUMNS, 2))
    for name, values in PRIOR.items():
        weights[OFFSET[name] : OFFSET[name] + len(values)] = values
    squares = weights[OFFSET["SQUARES"] : OFFSET["SQUARES"] + 768].reshape(2, 6, 8, 8, 2)
    squares[:, 0, :, :, :] = np.array([0, 0, 0, 5, 12, 30, 50, 0])[None, :, None, None]  # Pawns forward.
    squares[:, 5, :, :, 0] = -12 * np.arange(8)[None, :, None]  # Kings at home.
    return weights


def read(path):
    """Results, evaluations (NaN for none), phases, winnable (n, 2), kinds and the matrix of the counts of terms."""
    raw = np.fromfile(path, dtype=np.uint8)
    heads, at = [], 0
    size = len(raw)
    view = raw.tobytes()
    while at < size:
        heads.append(at)
        at += 9 + 3 * (view[at + 7] | view[at + 8] << 8)
    heads = np.array(heads)
    head = raw[heads[:, None] + np.arange(9)]
    count = head[:, 7].astype(np.int64) + 256 * head[:, 8].astype(np.int64)
    evals = np.ascontiguousarray(head[:, 1:3]).view("<i2").ravel().astype(np.float64)
    evals[evals == -32768] = np.nan
    indptr = np.concatenate([[0], np.cumsum(count)])
    starts = np.repeat(heads + 9 - 3 * indptr[:-1], count) + 3 * np.arange(indptr[-1])
    indices = raw[starts].astype(np.int32) + 256 * raw[starts + 1].astype(np.int32)
    data = raw[starts + 2].view(np.int8).astype(np.float32)
    matrix = scipy.sparse.csr_matrix((data, indices, indptr), shape=(len(heads), COLUMNS))
    return head[:, 0] / 2.0, evals, head[:, 3] / 24.0, head[:, 4:6] / 64.0, head[:, 6], matrix


def phase_weights(both, phase, winnable):
    """Weights of the middlegame sum and of the endgame sum in the score."""
    return phase, (1 - phase) * np.where(both[:, 1] >= 0, winnable[:, 0], winnable[:, 1])


def score_of(matrix, phase, winnable, weights):
    both = (matrix @ weights.astype(np.float32)).astype(np.float64)
    mg, eg = phase_weights(both, phase, winnable)
    return mg * both[:, 0] + eg * both[:, 1], mg, eg


def cross_entropy(score, target):
    x = score / MODEL_SCALE
    return np.logaddexp(0.0, x) - target * x


def fit(matrix, phase, winnable, target, weight):
    """Minimise the penalised loss by L-BFGS. The result is (COLUMNS, 2): middlegame, endgame."""
    curvature = 0.25 / MODEL_SCALE**2
    start = prior()
    pull = np.concatenate([np.full(t[1], float(t[3])) for t in TERMS])[:, None] * curvature * 10
    smooth = np.concatenate([np.r_[np.full(t[1] - 1, float(t[4])), 0.0] for t in TERMS])
    smooth[OFFSET["KING_DANGER"] + 47] = 0  # Without a queen and with one are two tables.
    smooth = smooth[:-1, None] * curvature * 10
    # The two sets of squares are alike unless the data say otherwise.
    first = slice(OFFSET["SQUARES"], OFFSET["SQUARES"] + 384)
    second = slice(OFFSET["SQUARES"] + 384, OFFSET["SQUARES"] + 768)
    alike = 400 * curvature
    counts = np.asarray(matrix.multiply(matrix).sum(axis=0)).reshape(-1, 1)
    step = 1.0 / np.sqrt(0.4 * counts * curvature + pull)
    transposed = matrix.T.tocsr()

    def objective(x):
        weights = start + step * x.reshape(COLUMNS, 2)
        score, mg, eg = score_of(matrix, phase, winnable, weights)
        loss = (weight * cross_entropy(score, target)).sum()
        score_grad = weight * (1 / (1 + np.exp(-score / MODEL_SCALE)) - target) / MODEL_SCALE
        sides = np.stack([score_grad * mg, score_grad * eg], axis=1).astype(np.float32)
        gradient = (transposed @ sides).astype(np.float64)
        away = weights - start
        uneven = weights[1:] - weights[:-1]
        apart = weights[first] - weights[second]
        loss += 0.5 * ((pull * away**2).sum() + (smooth * uneven**2).sum() + alike * (apart**2).sum())
        gradient += pull * away
        gradient[1:] += smooth * uneven
        gradient[:-1] -= smooth * uneven
        gradient[first] += alike * apart
        gradient[second] -= alike * apart
        return loss / len(target), (gradient * step).ravel() / len(target)

    count = 0

    def progress(_):
        nonlocal count
        count += 1
        if count % 25 == 0:
            log(f"  iteration {count}")

    options = {"maxiter": ITERATIONS, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-9}
    found = scipy.optimize.minimize(
        objective, np.zeros(COLUMNS * 2), jac=True, method="L-BFGS-B", callback=progress, options=options
    )
    log(f"  {found.message}, {found.nit} iterations, penalised loss {found.fun:.6f}")
    return start + step * found.x.reshape(COLUMNS, 2)


def centre(weights, matrix):
    """Move the mean over squares and mobility of each piece into its material value."""
    weights = weights.copy()
    counts = np.asarray(abs(matrix).sum(axis=0)).ravel()
    material = OFFSET["MATERIAL"]
    for piece in range(6):
        rows = np.r_[0:64, 384:448] + OFFSET["SQUARES"] + 64 * piece
        if piece == 0:
            rows = rows[(rows - OFFSET["SQUARES"]) % 64 // 8 % 7 != 0]
        mean = np.average(weights[rows], axis=0, weights=counts[rows] + 1e-9)
        weights[rows] -= mean
        weights[material + piece] += mean
    for piece, name in enumerate(["KNIGHT", "BISHOP", "ROOK", "QUEEN"], start=1):
        size = next(t[1] for t in TERMS if t[0] == name + "_MOBILITY")
        rows = np.arange(size) + OFFSET[name + "_MOBILITY"]
        mean = np.average(weights[rows], axis=0, weights=counts[rows] + 1e-9)
        weights[rows] -= mean
        weights[material + piece] += mean
    weights[material + 5] = 0  # One king each: it cancels.
    return weights


def make_monotonic(weights):
    """Make king danger rise with pressure in the middlegame, because the prior pulls rare pressures to zero."""
    start = OFFSET["KING_DANGER"]
    for half in (start, start + 48):
        rows = slice(half, half + 48)
        weights[rows, 0] = np.maximum.accumulate(weights[rows, 0])
    return weights


def rust(weights):
    """The Rust source of the integer weights, (COLUMNS, 2)."""
    out = [
        "//! The weights of the hand-written evaluation, fitted by `scripts/fit_bootstrap.py`: data only.",
        "//!",
        "//! All values are in centipawns, for the side that has the term.",
        "",
        "use super::Pair;",
        "",
        "/// Index in [`WEIGHTS`] at which each kind of term begins.",
        "pub(crate) mod term {",
    ]
    for name, _, _, _, _, doc in TERMS:
        out += textwrap.wrap(doc, 110, initial_indent="    /// ", subsequent_indent="    /// ")
        out.append(f"    pub(crate) const {name}: usize = {OFFSET[name]};")
    out += [
        "}",
        "",
        "const fn p(midgame: i16, endgame: i16) -> Pair {",
        "    Pair::new(midgame, endgame)",
        "}",
        "",
        "/// Middlegame and endgame value of every term.",
        "#[rustfmt::skip]",
        f"pub(crate) const WEIGHTS: [Pair; {COLUMNS}] = [",
    ]
    for name, size, width, *_ in TERMS:
        out.append(f"    // {name}.")
        for row in range(0, size, max(width, min(size, 8))):
            if name == "SQUARES" and row % 64 == 0:
                out.append(f"    // {PIECES[row // 64 % 6]}, kings on {['the same side', 'opposite sides'][row // 384]}.")
            cells = weights[OFFSET[name] + row : OFFSET[name] + min(size, row + max(width, 8))]
            out.append("    " + " ".join(f"p({mg}, {eg})," for mg, eg in cells))
    return "\n".join(out + ["];"]) + "\n"


def main():
    paths = sys.argv[1:]
    if not paths:
        sys.stdout.write(rust(np.rint(prior()).astype(int)))
        return
    parts = [read(path) for path in paths]
    result, evals, phase, winnable, kind = (np.concatenate([part[i] for part in parts]) for i in range(5))
    matrix = scipy.sparse.vstack([part[5] for part in parts]).tocsr()
    del parts
    eval_weight, weight = (np.choose(kind, [SOURCES[k][i] for k in range(3)]) for i in range(2))
    eval_weight = np.where(np.isnan(evals), 0.0, eval_weight)
    target = eval_weight / (1 + np.exp(-np.nan_to_num(evals) / EVAL_SCALE)) + (1 - eval_weight) * result
    log(f"{len(target)} positions, {matrix.nnz / len(target):.0f} terms each; by kind {np.bincount(kind)}")

    check = np.arange(len(target)) // BLOCK % HELD_OUT == HELD_OUT - 1
    train = ~check
    weights = fit(matrix[train], phase[train], winnable[train], target[train], weight[train])
    weights = make_monotonic(centre(weights, matrix))
    unit = PAWN / weights[0].mean()
    log(f"scaled by {unit:.3f} to make a pawn {PAWN:.0f}; the model's sigmoid then has scale {MODEL_SCALE * unit:.0f}")
    for name, table, scale in (("prior", prior(), 1.0), ("fitted", weights, 1.0)):
        score = score_of(matrix[check], phase[check], winnable[check], table * scale)[0]
        for k in range(3):
            rows = kind[check] == k
            if rows.any():
                log(f"  {name}, kind {k}: {cross_entropy(score[rows], target[check][rows]).mean():.5f}")
    sys.stdout.write(rust(np.rint(weights * unit).astype(int)))


if __name__ == "__main__":
    main()
