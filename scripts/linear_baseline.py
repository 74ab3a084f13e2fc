#!/usr/bin/env python3
"""Trains the simplest model there is, one weight for each piece on each square, and prints its loss.

    scripts/linear_baseline.py train.bf valid.bf [scale]

The files are in bulletformat: 32 bytes a record, seen by the side to move. The model is sigmoid(sum of 768 weights + bias);
the loss is its mean square error against sigmoid(score / scale), as in a recipe with `wdl` 0. A network that is not clearly
better has learnt nothing beyond a piece-square table. Needs numpy, and nothing of ours.
"""

import sys

import numpy

PIECES = 32
PADDING = 768


def load(path, max_records=3_000_000):
    """Returns the feature indices of each record, and its score."""
    raw = numpy.fromfile(path, dtype=numpy.uint8, count=32 * max_records).reshape(-1, 32)
    occupied = numpy.unpackbits(raw[:, :8], axis=1, bitorder="little").astype(bool)
    codes = numpy.empty((len(raw), PIECES), dtype=numpy.uint8)
    codes[:, 0::2] = raw[:, 8:24] & 15
    codes[:, 1::2] = raw[:, 8:24] >> 4
    rank = numpy.cumsum(occupied, axis=1) - 1
    inputs = numpy.full((len(raw), PIECES), PADDING, dtype=numpy.int16)
    row, square = numpy.nonzero(occupied)
    piece = rank[row, square]
    code = codes[row, piece].astype(numpy.int16)
    inputs[row, piece] = (code >> 3) * 384 + (code & 7) * 64 + square
    return inputs, raw[:, 24:26].copy().view(numpy.int16)[:, 0].astype(numpy.float32)


def sigmoid(values):
    return 1 / (1 + numpy.exp(-values))


def outputs(weights, inputs):
    return weights[inputs].sum(axis=1) + weights[PADDING + 1]


def main():
    scale = float(sys.argv[3]) if len(sys.argv) > 3 else 400.0
    (inputs, scores), (valid, valid_scores) = load(sys.argv[1]), load(sys.argv[2])
    target, valid_target = sigmoid(scores / scale), sigmoid(valid_scores / scale)
    # The last two are the weight of padding, which stays zero, and the bias.
    weights = numpy.zeros(PADDING + 2, dtype=numpy.float32)
    exp_avg, exp_avg_sq = numpy.zeros_like(weights), numpy.zeros_like(weights)
    random, batch, steps = numpy.random.default_rng(1), 65536, 1500
    for step in range(1, steps + 1):
        chosen = random.integers(0, len(inputs), batch)
        rows = inputs[chosen]
        win_probability = sigmoid(outputs(weights, rows))
        output_grad = 2 * (win_probability - target[chosen]) * win_probability * (1 - win_probability) / batch
        grads = numpy.bincount(rows.ravel(), numpy.repeat(output_grad, PIECES), PADDING + 2).astype(numpy.float32)
        grads[PADDING], grads[PADDING + 1] = 0, output_grad.sum()
        exp_avg = 0.9 * exp_avg + 0.1 * grads
        exp_avg_sq = 0.999 * exp_avg_sq + 0.001 * grads**2
        lr = 0.02 * (1 + numpy.cos(numpy.pi * step / steps)) / 2
        weights -= lr * (exp_avg / (1 - 0.9**step)) / (numpy.sqrt(exp_avg_sq / (1 - 0.999**step)) + 1e-8)
        if step % 500 == 0:
            loss = numpy.mean((sigmoid(outputs(weights, valid)) - valid_target) ** 2)
            print(f"step {step}: validation loss {loss:.6f}", flush=True)


if __name__ == "__main__":
    main()
