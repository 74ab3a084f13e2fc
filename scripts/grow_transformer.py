#!/usr/bin/env python3
"""Initialises a larger transformer from a smaller one.

    scripts/grow_transformer.py SMALL.safetensors LARGE.safetensors [--layers N] [--feed-forward N]

New hidden units of the feed-forwards start with output weights of zero, so that
wider layers compute the same as before. New layers, inserted evenly among the
old ones, start by adding nothing to the residual stream. Their norms get the
scale that tokens have there on average, which is not exactly each token's own,
so that a deeper network starts slightly worse. Only for networks with post-norm
and deepnorm, such as the strategist's. `tandem-lab export` writes the
safetensors, and `network.init_from` of a recipe reads them. It needs numpy.
"""

import argparse
import json
import re
import struct
import sys

import numpy as np


def read(path):
    """Returns a file's tensors by name, and its metadata."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).copy()
    return tensors, metadata


def write(path, tensors, metadata):
    header, end = {"__metadata__": metadata}, 0
    for name in sorted(tensors):
        begin, end = end, end + tensors[name].nbytes
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(tensors[name].astype("<f4").tobytes())


def scaled(layer, branches, factor):
    """The layer with the outputs of its branches multiplied by `factor`."""
    ends = [f"{branch}.out.{kind}" for branch in branches for kind in ("weight", "bias")]
    return layer | {name: layer[name] * factor for name in ends if name in layer}


def widened(layer, inner, random):
    """The layer with a feed-forward of `inner` hidden units, of which the new ones have output weights of zero."""
    grown = dict(layer)
    old, width = layer["feed_forward.in.weight"].shape
    spread = (2 / (width + inner)) ** 0.5
    fresh = random.normal(0, spread, (inner - old, width)).astype(np.float32)
    grown["feed_forward.in.weight"] = np.vstack([layer["feed_forward.in.weight"], fresh])
    grown["feed_forward.out.weight"] = np.pad(layer["feed_forward.out.weight"], ((0, 0), (0, inner - old)))
    if "feed_forward.in.bias" in layer:
        grown["feed_forward.in.bias"] = np.pad(layer["feed_forward.in.bias"], (0, inner - old))
    return grown


def identity_after(layer):
    """A layer to insert after this one, with the same attention, that adds nothing."""
    added = scaled(layer, ["attention", "feed_forward"], 0)
    scale, offset = layer["feed_forward_norm.scale"], layer["feed_forward_norm.offset"]
    for norm in ("attention_norm", "feed_forward_norm"):
        # A token that was just normalised has this variance and mean on average, which the next norm removes.
        added[f"{norm}.scale"] = np.full_like(scale, np.sqrt(np.mean(scale**2) + np.var(offset)))
        added[f"{norm}.offset"] = np.full_like(offset, np.mean(offset))
    return added


def main():
    parser = argparse.ArgumentParser(description="Initialise a larger transformer from a smaller one.")
    parser.add_argument("small")
    parser.add_argument("large")
    parser.add_argument("--layers", type=int, help="number of layers; unchanged by default")
    parser.add_argument("--feed-forward", type=int, help="hidden units of each feed-forward; unchanged by default")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()

    tensors, metadata = read(given.small)
    if "deepnorm = true" not in metadata.get("architecture", ""):
        sys.exit(f"{given.small}: not a network with deepnorm")
    old = 1 + max(int(found[1]) for name in tensors if (found := re.match(r"layers\.(\d+)\.", name)))
    inner = tensors["layers.0.feed_forward.in.weight"].shape[0]
    layers, feed_forward = given.layers or old, given.feed_forward or inner
    if not (old <= layers <= 2 * old and feed_forward >= inner):
        sys.exit(f"from {old} layers to at most {2 * old}, and {inner} hidden units or more: a network cannot be made smaller")

    # Deepnorm weakens branches by the fourth root of the number of layers.
    factor = (layers / old) ** 0.25
    random = np.random.default_rng(given.seed)
    grown = {name: tensor for name, tensor in tensors.items() if not name.startswith("layers.")}
    grown = scaled(grown, ["embedding.feed_forward"], factor)
    stack = []
    for number in range(old):
        start = f"layers.{number}."
        layer = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
        stack.append(scaled(layer, ["attention", "feed_forward"], factor))
        if (number + 1) * (layers - old) // old > number * (layers - old) // old:
            stack.append(identity_after(layer))
    for number, layer in enumerate(stack):
        for name, tensor in widened(layer, feed_forward, random).items():
            grown[f"layers.{number}.{name}"] = tensor

    text = re.sub(rf"(?m)^layers = {old}$", f"layers = {layers}", metadata["architecture"])
    body = r'(\[body\.feed_forward\]\nkind = "dense"\nwidth = )\d+'
    metadata["architecture"] = re.sub(body, rf"\g<1>{feed_forward}", text)
    write(given.large, grown, metadata)
    print(f"{given.large}: {layers} layers, {sum(tensor.size for tensor in grown.values())} parameters")


main()
