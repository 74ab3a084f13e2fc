#!/usr/bin/env python3
"""A slow, plain evaluation of `.nnue` networks, to check a fast one against.

    scripts/nnue_reference.py NET.nnue FENS.txt [--count N]

For each FEN (one a line) prints, from the side to move's point of view,

    value psqt positional

in the network's own integers: psqt and positional are before the division by
16, and value = (psqt + positional) / 16, truncated towards zero.

Written from the published definition of the formats, without shortcuts: every
position is computed from scratch in 64-bit integers, and accumulator, layer
outputs and sums are asserted to fit the 16 and 32 bits that engines keep them
in. Needs numpy only. Three families are supported, distinguished by the hash
of the feature transformer and its width:

    HalfKP        256x2 -> 32 -> 32 -> 1            (Stockfish 12)
    HalfKAv2      512x2 -> 16 -> 32 -> 1, 8 stacks  (Stockfish 14)
    HalfKAv2_hm   L1 pairwise -> 15+1 -> 32 -> 1, 8 stacks, psqt, skip
                                                    (Stockfish 15.1 to 17)
"""

import argparse
import struct
import sys

import numpy as np

VERSION_1 = 0x7AF32F16
VERSION_2 = 0x7AF32F20
HALF_KP = 0x5D69D5B8
HALF_KA_V2 = 0x5F234CB8
HALF_KA_V2_HM = 0x7F234CB8
BUCKETS = 8
LEB_MAGIC = b"COMPRESSED_LEB128"

WHITE, BLACK = 0, 1
PIECES = "pnbrqk"


# ----------------------------------------------------------------- positions


def parse_fen(fen):
    """(side to move, [(square, colour, type)]) with a1 = 0, h8 = 63."""
    board, side = fen.split()[:2]
    pieces = []
    for row, text in enumerate(board.split("/")):
        file = 0
        for ch in text:
            if ch.isdigit():
                file += int(ch)
            else:
                colour = WHITE if ch.isupper() else BLACK
                pieces.append(((7 - row) * 8 + file, colour, PIECES.index(ch.lower())))
                file += 1
        if file != 8:
            raise ValueError(f"bad rank in FEN: {fen}")
    return (WHITE if side == "w" else BLACK), pieces


def king_square(pieces, colour):
    (square,) = [s for s, c, t in pieces if c == colour and t == 5]
    return square


# ------------------------------------------------------------------ features


def half_kp(pieces, view):
    """Kings are not features; the board is rotated by half a turn for Black;
    each king square has 641 features, the first of them unused."""
    turn = 63 if view == BLACK else 0
    king = king_square(pieces, view) ^ turn
    return [
        641 * king + 1 + 128 * kind + (64 if colour != view else 0) + (square ^ turn)
        for square, colour, kind in pieces
        if kind != 5
    ]


def half_ka_v2(pieces, view):
    """Both kings share the eleventh block; the board is flipped for Black."""
    flip = 56 if view == BLACK else 0
    king = king_square(pieces, view) ^ flip
    return [
        704 * king
        + (640 if kind == 5 else 128 * kind + (64 if colour != view else 0))
        + (square ^ flip)
        for square, colour, kind in pieces
    ]


def half_ka_v2_hm(pieces, view):
    """As half_ka_v2, mirrored so that the own king stands on files e to h:
    32 king buckets, numbered from e8 (3 2 1 0 towards h8) down to rank 1."""
    flip = 56 if view == BLACK else 0
    king = king_square(pieces, view) ^ flip
    if king % 8 < 4:
        flip ^= 7
        king ^= 7
    bucket = 4 * (7 - king // 8) + (7 - king % 8)
    return [
        704 * bucket
        + (640 if kind == 5 else 128 * kind + (64 if colour != view else 0))
        + (square ^ flip)
        for square, colour, kind in pieces
    ]


# ------------------------------------------------------------------- reading


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def bytes(self, count):
        part = self.data[self.at : self.at + count]
        if len(part) != count:
            raise ValueError("the file ends too early")
        self.at += count
        return part

    def u32(self):
        return struct.unpack("<I", self.bytes(4))[0]

    def array(self, dtype, *shape):
        """Little-endian integers, plain or as compressed LEB128."""
        dtype = np.dtype(dtype).newbyteorder("<")
        count = int(np.prod(shape))
        if self.data[self.at : self.at + len(LEB_MAGIC)] == LEB_MAGIC:
            self.bytes(len(LEB_MAGIC))
            values = signed_leb128(self.bytes(self.u32()))
            if len(values) != count:
                raise ValueError(f"{len(values)} LEB128 values instead of {count}")
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            if values.min() < low or values.max() > high:
                raise ValueError(f"a LEB128 value does not fit {dtype}")
            return values.astype(dtype).reshape(shape)
        return np.frombuffer(self.bytes(count * dtype.itemsize), dtype).reshape(shape)


def signed_leb128(data):
    raw = np.frombuffer(data, np.uint8)
    last = raw < 128  # the last byte of each value has its top bit clear
    ends = np.flatnonzero(last)
    starts = np.concatenate(([0], ends[:-1] + 1))
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise ValueError("a LEB128 value is cut off")
    place = np.arange(len(raw)) - np.repeat(starts, ends - starts + 1)
    values = np.add.reduceat((raw & 127).astype(np.int64) << (7 * place), starts)
    negative = (raw[ends] & 64) != 0
    return values - np.where(negative, np.int64(1) << (7 * (ends - starts + 1)), 0)


def affine_hash(previous, outputs):
    rotated = (previous >> 1) | ((previous & 1) << 31)
    return ((0xCC03DAE4 + outputs) & 0xFFFFFFFF) ^ rotated


def network_hash(inputs, *outputs):
    """The hash of a slice, then affine layers with a clipped ReLU between."""
    value = 0xEC42E90D ^ inputs
    for index, count in enumerate(outputs):
        if index:
            value = (value + 0x538D24C7) & 0xFFFFFFFF
        value = affine_hash(value, count)
    return value


def pad32(count):
    return (count + 31) // 32 * 32


def read_affine(reader, inputs, outputs):
    bias = reader.array(np.int32, outputs).astype(np.int64)
    weight = reader.array(np.int8, outputs, pad32(inputs)).astype(np.int64)
    return bias, weight[:, :inputs]


# ---------------------------------------------------------------- arithmetic


def div(a, b):
    """Integer division truncated towards zero."""
    return abs(a) // b if a >= 0 else -(abs(a) // b)


def fits(values, bits):
    limit = 1 << (bits - 1)
    assert np.all(values >= -limit) and np.all(values < limit), "an integer overflows"
    return values


def affine(layer, x):
    bias, weight = layer
    return fits(bias + weight @ x, 32)


def clipped(x):
    return np.clip(x >> 6, 0, 127)


def squared(x):
    return np.minimum(127, (x * x) >> 19)


# ------------------------------------------------------------------ networks


class Network:
    def __init__(self, data):
        reader = Reader(data)
        version, file_hash = reader.u32(), reader.u32()
        self.description = reader.bytes(reader.u32()).decode()
        transformer_hash = reader.u32()
        if version == VERSION_1:
            self.family, self.width, self.features = "HalfKP", 256, half_kp
            rows, kind, stacks = 64 * 641, HALF_KP, 1
            layers = [(512, 32), (32, 32), (32, 1)]
        elif version == VERSION_2 and transformer_hash == HALF_KA_V2 ^ 1024:
            self.family, self.width, self.features = "HalfKAv2", 512, half_ka_v2
            rows, kind, stacks = 64 * 704, HALF_KA_V2, BUCKETS
            layers = [(1024, 16), (16, 32), (32, 1)]
        elif version == VERSION_2 and transformer_hash >> 16 == HALF_KA_V2_HM >> 16:
            self.width = (transformer_hash ^ HALF_KA_V2_HM) // 2
            self.family, self.features = "HalfKAv2_hm", half_ka_v2_hm
            rows, kind, stacks = 32 * 704, HALF_KA_V2_HM, BUCKETS
            layers = [(self.width, 16), (30, 32), (32, 1)]
        else:
            raise ValueError(f"unknown network {version:#x} {transformer_hash:#x}")
        hash_inputs = 2 * self.width
        stack_hash = network_hash(hash_inputs, *(outputs for _, outputs in layers))
        if transformer_hash != kind ^ hash_inputs:
            raise ValueError("wrong transformer hash")
        if file_hash != transformer_hash ^ stack_hash:
            raise ValueError("wrong file hash")

        self.bias = reader.array(np.int16, self.width).astype(np.int64)
        self.weight = reader.array(np.int16, rows, self.width)
        self.psqt = None
        if version == VERSION_2:
            self.psqt = reader.array(np.int32, rows, BUCKETS)
        self.stacks = []
        for _ in range(stacks):
            if reader.u32() != stack_hash:
                raise ValueError("wrong layer stack hash")
            self.stacks.append([read_affine(reader, *shape) for shape in layers])
        if reader.at != len(data):
            raise ValueError(f"{len(data) - reader.at} bytes after the end")

    def evaluate(self, fen):
        """(psqt, positional) for the side to move."""
        side, pieces = parse_fen(fen)
        bucket = (len(pieces) - 1) // 4 if self.psqt is not None else 0
        halves, psqt = [], []
        for view in (side, 1 - side):
            active = self.features(pieces, view)
            rows = self.weight[active].astype(np.int64)
            halves.append(fits(self.bias + rows.sum(axis=0), 16))
            if self.psqt is not None:
                total = self.psqt[active, bucket].astype(np.int64).sum()
                psqt.append(int(fits(total, 32)))
        first, second, third = self.stacks[bucket]
        clamped = [np.clip(half, 0, 127) for half in halves]

        if self.family == "HalfKAv2_hm":
            middle = self.width // 2
            x = np.concatenate([(h[:middle] * h[middle:]) // 128 for h in clamped])
            hidden = affine(first, x)
            hidden, skip = hidden[:15], int(hidden[15])
            x = np.concatenate([squared(hidden), clipped(hidden)])
            positional = int(affine(third, clipped(affine(second, x)))[0])
            positional += div(skip * 600 * 16, 127 * 64)
        else:
            x = np.concatenate(clamped)
            x = clipped(affine(first, x))
            x = clipped(affine(second, x))
            positional = int(affine(third, x)[0])
        return (div(psqt[0] - psqt[1], 2) if psqt else 0), positional


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("net")
    parser.add_argument("fens")
    parser.add_argument("--count", type=int, help="number of positions to evaluate, all by default")
    arguments = parser.parse_args()
    with open(arguments.net, "rb") as file:
        network = Network(file.read())
    with open(arguments.fens, encoding="utf-8") as file:
        fens = [line.strip() for line in file if line.strip()]
    for fen in fens[: arguments.count]:
        psqt, positional = network.evaluate(fen)
        print(div(psqt + positional, 16), psqt, positional)
    return 0


if __name__ == "__main__":
    sys.exit(main())
