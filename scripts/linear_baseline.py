#!/usr/bin/env python3
"""Fits the plainest model there is, one weight for each piece on each square, and tells its loss.

    scripts/linear_baseline.py train.bf valid.bf [scale]

The files are bulletformat: 32 bytes a record, seen by the side to move. The model says sigmoid(sum of 768 weights + bias);
the loss is the mean square of its difference to sigmoid(score / scale), as in a recipe without a result's share. A network
that is not clearly better than this has learnt nothing that a table does not know. Needs numpy, and nothing of ours.
"""

import sys

import numpy

PIECES = 32
NOTHING = 768


def load(path, most=3_000_000):
    """For each record the numbers of its pieces on their squares, and the score."""
    raw = numpy.fromfile(path, dtype=numpy.uint8, count=32 * most).reshape(-1, 32)
    taken = numpy.unpackbits(raw[:, :8], axis=1, bitorder="little").astype(bool)
    codes = numpy.empty((len(raw), PIECES), dtype=numpy.uint8)
    codes[:, 0::2] = raw[:, 8:24] & 15
    codes[:, 1::2] = raw[:, 8:24] >> 4
    rank = numpy.cumsum(taken, axis=1) - 1
    inputs = numpy.full((len(raw), PIECES), NOTHING, dtype=numpy.int16)
    row, square = numpy.nonzero(taken)
    place = rank[row, square]
    code = codes[row, place].astype(numpy.int16)
    inputs[row, place] = (code >> 3) * 384 + (code & 7) * 64 + square
    return inputs, raw[:, 24:26].copy().view(numpy.int16)[:, 0].astype(numpy.float32)


def sigmoid(values):
    return 1 / (1 + numpy.exp(-values))


def outputs(weights, inputs):
    return weights[inputs].sum(axis=1) + weights[NOTHING + 1]


def main():
    scale = float(sys.argv[3]) if len(sys.argv) > 3 else 400.0
    (inputs, scores), (valid, valid_scores) = load(sys.argv[1]), load(sys.argv[2])
    target, valid_target = sigmoid(scores / scale), sigmoid(valid_scores / scale)
    # The last two are no piece at all, which stays zero, and the bias.
    weights = numpy.zeros(NOTHING + 2, dtype=numpy.float32)
    first, second = numpy.zeros_like(weights), numpy.zeros_like(weights)
    random, batch, steps = numpy.random.default_rng(1), 65536, 1500
    for step in range(1, steps + 1):
        chosen = random.integers(0, len(inputs), batch)
        rows = inputs[chosen]
        chance = sigmoid(outputs(weights, rows))
        slope = 2 * (chance - target[chosen]) * chance * (1 - chance) / batch
        slopes = numpy.bincount(rows.ravel(), numpy.repeat(slope, PIECES), NOTHING + 2).astype(numpy.float32)
        slopes[NOTHING], slopes[NOTHING + 1] = 0, slope.sum()
        first = 0.9 * first + 0.1 * slopes
        second = 0.999 * second + 0.001 * slopes**2
        rate = 0.02 * (1 + numpy.cos(numpy.pi * step / steps)) / 2
        weights -= rate * (first / (1 - 0.9**step)) / (numpy.sqrt(second / (1 - 0.999**step)) + 1e-8)
        if step % 500 == 0:
            loss = numpy.mean((sigmoid(outputs(weights, valid)) - valid_target) ** 2)
            print(f"step {step}: validation loss {loss:.6f}", flush=True)


if __name__ == "__main__":
    main()
