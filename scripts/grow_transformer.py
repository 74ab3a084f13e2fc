#!/usr/bin/env python3
"""A larger transformer that begins with what a smaller one knows.

    scripts/grow_transformer.py SMALL.safetensors LARGE.safetensors [--layers N] [--feed-forward N]

New numbers of the feed-forwards are read by nobody at first, so that wider ones
compute what they did. New layers, one after every so many old ones, add nothing
to a row at first; their norms have the scale that rows have there on average,
which is not quite each row's own, so that more layers are a little worse until
they have learnt. Only networks with norms after each branch and deepnorm, such
as the strategist's. `tandem-lab export` makes the safetensors, and a recipe's
`start` begins with them. It needs numpy.
"""

import argparse
import json
import re
import struct
import sys

import numpy as np


def read(path):
    """A file's tensors by name, and what it says of itself."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    said = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).copy()
    return tensors, said


def write(path, tensors, said):
    header, end = {"__metadata__": said}, 0
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
    """The layer, its branches that much stronger."""
    ends = [f"{branch}.out.{kind}" for branch in branches for kind in ("weight", "bias")]
    return layer | {name: layer[name] * factor for name in ends if name in layer}


def widened(layer, inner, random):
    """The layer with a feed-forward of `inner` numbers, of which the new ones are read by nobody."""
    grown = dict(layer)
    old, width = layer["feed_forward.in.weight"].shape
    spread = (2 / (width + inner)) ** 0.5
    fresh = random.normal(0, spread, (inner - old, width)).astype(np.float32)
    grown["feed_forward.in.weight"] = np.vstack([layer["feed_forward.in.weight"], fresh])
    grown["feed_forward.out.weight"] = np.pad(layer["feed_forward.out.weight"], ((0, 0), (0, inner - old)))
    if "feed_forward.in.bias" in layer:
        grown["feed_forward.in.bias"] = np.pad(layer["feed_forward.in.bias"], (0, inner - old))
    return grown


def silent(layer):
    """A layer to put after this one: it looks where this one looks, and adds nothing."""
    added = scaled(layer, ["attention", "feed_forward"], 0)
    scale, offset = layer["feed_forward_norm.scale"], layer["feed_forward_norm.offset"]
    for norm in ("attention_norm", "feed_forward_norm"):
        # A row that was just normed has on average this variance and this mean, which the next norm takes away.
        added[f"{norm}.scale"] = np.full_like(scale, np.sqrt(np.mean(scale**2) + np.var(offset)))
        added[f"{norm}.offset"] = np.full_like(offset, np.mean(offset))
    return added


def main():
    parser = argparse.ArgumentParser(description="Begin a larger transformer with a smaller one.")
    parser.add_argument("small")
    parser.add_argument("large")
    parser.add_argument("--layers", type=int, help="layers, as many as there are if not given")
    parser.add_argument("--feed-forward", type=int, help="numbers in each layer's feed-forward, likewise")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()

    tensors, said = read(given.small)
    if "deepnorm = true" not in said.get("architecture", ""):
        sys.exit(f"{given.small}: not a network with deepnorm")
    old = 1 + max(int(found[1]) for name in tensors if (found := re.match(r"layers\.(\d+)\.", name)))
    inner = tensors["layers.0.feed_forward.in.weight"].shape[0]
    layers, feed_forward = given.layers or old, given.feed_forward or inner
    if not (old <= layers <= 2 * old and feed_forward >= inner):
        sys.exit(f"from {old} layers to at most {2 * old}, and {inner} numbers or more: nothing is taken away")

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
            stack.append(silent(layer))
    for number, layer in enumerate(stack):
        for name, tensor in widened(layer, feed_forward, random).items():
            grown[f"layers.{number}.{name}"] = tensor

    text = re.sub(rf"(?m)^layers = {old}$", f"layers = {layers}", said["architecture"])
    body = r'(\[body\.feed_forward\]\nkind = "dense"\nwidth = )\d+'
    said["architecture"] = re.sub(body, rf"\g<1>{feed_forward}", text)
    write(given.large, grown, said)
    print(f"{given.large}: {layers} layers, {sum(tensor.size for tensor in grown.values())} parameters")


main()
