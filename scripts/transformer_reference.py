#!/usr/bin/env python3
"""The forward pass of every transformer in numpy, as a reference for other implementations.

    scripts/transformer_reference.py NETWORK.safetensors [--positions N] [--seed S]

reads a network as Tandem writes it, evaluates random inputs, and prints the
mean and the standard deviation of each output. Other scripts import it:

    network = Network.load("x.safetensors")
    outputs = network.forward(network.random_inputs(4, seed=1))

It needs only numpy and shares no code with the implementations that it checks.
Inputs are `tokens` [batch, 78] and, for a network of action values, `action`
[batch]; or `squares` [batch, 64, channels], a1 first, as the side to move sees
the board. It computes in f64, so that differences are the other's rounding.
"""

import argparse
import json
import math
import struct
import sys
import tomllib

import numpy as np

SQUARES = 64
TEXT_TOKENS = 78
VOCABULARY = 1968
PIECES = 12
CHANNELS = {"squares": 19, "planes": 112, "planes-single": 112, "lone-planes": 112}  # language: old name
SMOLGEN_EPSILON = 1e-3


def read_safetensors(path):
    """Returns the tensors of a file, and its metadata."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        assert info["dtype"] == "F32", f"{name} is {info['dtype']}"
        values = np.frombuffer(data[begin:end], "<f4")
        tensors[name] = values.reshape(info["shape"]).astype(np.float64)
    return tensors, metadata


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


ACTIVATIONS = {
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "squared-relu": lambda x: np.maximum(x, 0) ** 2,
    "relu": lambda x: np.maximum(x, 0),
}


def policy_map():
    """Index of each of lc0's 1858 moves among 64 x 64 pairs of squares and 8 x 8 x 3 promotions."""
    indices = []
    for start in range(64):
        for end in range(64):
            files, ranks = abs(start % 8 - end % 8), abs(start // 8 - end // 8)
            queen = start != end and (files == 0 or ranks == 0 or files == ranks)
            if queen or files * ranks == 2:
                indices.append(start * 64 + end)
    for start in range(8):
        for end in range(max(start - 1, 0), min(start + 1, 7) + 1):
            indices.extend(4096 + start * 24 + end * 3 + piece for piece in range(3))
    assert len(indices) == 1858
    return np.array(indices)


class Network:
    """A network: its architecture as the file has it, and its tensors by name."""

    def __init__(self, architecture, tensors):
        self.architecture = architecture
        self.tensors = tensors
        self.body = architecture["body"]
        self.heads = architecture["heads"]
        self.activation = ACTIVATIONS[self.body["activation"]]
        norm = self.body["norm"]
        self.factor = (2 * self.body["layers"]) ** -0.25 if norm.get("deepnorm") else 1.0

    @classmethod
    def load(cls, path):
        tensors, metadata = read_safetensors(path)
        return cls(tomllib.loads(metadata["architecture"]), tensors)

    @property
    def is_text(self):
        return self.architecture["input"] == "text"

    def random_inputs(self, batch, seed):
        """Random inputs of the right shapes."""
        random = np.random.default_rng(seed)
        if not self.is_text:
            channels = CHANNELS[self.architecture["input"]]
            return {"squares": (random.random((batch, SQUARES, channels)) < 0.2).astype(np.float32)}
        tokens = random.integers(0, 31, (batch, TEXT_TOKENS))
        tokens[:, 0] = 0
        inputs = {"tokens": tokens}
        if "action_value" in self.heads:
            inputs["action"] = random.integers(0, VOCABULARY, batch)
        return inputs

    def forward(self, inputs):
        """Outputs by the names of the heads."""
        x = self.embed_text(inputs) if self.is_text else self.embed_squares(inputs["squares"].astype(np.float64))
        for layer in range(self.body["layers"]):
            x = self.block(x, f"layers.{layer}")
        if self.body["norm"].get("last"):
            x = self.norm(x, "last_norm")
        return self.text_heads(x[:, -1]) if self.is_text else self.square_heads(x)

    # Layers.

    def linear(self, x, name):
        y = x @ self.tensors[f"{name}.weight"].T
        bias = self.tensors.get(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, x, name, kind=None, epsilon=None):
        norm = self.body["norm"]
        # Stored as f32.
        epsilon = np.float64(np.float32(epsilon or norm.get("epsilon", 1e-5)))
        if (kind or norm["kind"]) == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon)
        x = x * self.tensors[f"{name}.scale"]
        offset = self.tensors.get(f"{name}.offset")
        return x if offset is None else x + offset

    def feed_forward(self, x, name):
        hidden = self.activation(self.linear(x, f"{name}.in"))
        if f"{name}.gate.weight" in self.tensors:
            hidden = hidden * self.linear(x, f"{name}.gate")
        return self.linear(hidden, f"{name}.out")

    # The embedding.

    def embed_text(self, inputs):
        tokens = inputs["tokens"]
        if "action" in inputs:
            tokens = np.concatenate([tokens, inputs["action"][:, None]], axis=1)
        vectors = self.tensors["embedding.table"][tokens] * math.sqrt(self.body["width"])
        return vectors + self.tensors["embedding.positions"]

    def embed_squares(self, squares):
        embedding = self.architecture["embedding"]
        if embedding["kind"] == "positions":
            return self.linear(squares, "embedding.squares") + self.tensors["embedding.positions"]
        # A dense layer from the pieces of the whole board to each square.
        board = self.linear(squares[:, :, :PIECES].reshape(len(squares), -1), "embedding.board")
        board = board.reshape(len(squares), SQUARES, embedding["channels"])
        x = self.activation(self.linear(np.concatenate([squares, board], axis=2), "embedding.squares"))
        x = self.norm(x, "embedding.norm")
        x = x * self.tensors["embedding.gate.scale"] + self.tensors["embedding.gate.offset"]
        x = x + self.factor * self.feed_forward(x, "embedding.feed_forward")
        return self.norm(x, "embedding.feed_forward_norm")

    # A block.

    def block(self, x, name):
        branches = [("attention_norm", self.attention), ("feed_forward_norm", self.feed_forward_branch)]
        for norm, branch in branches:
            if self.body["norm"]["place"] == "pre":
                x = x + branch(self.norm(x, f"{name}.{norm}"), name)
            else:
                x = self.norm(x + self.factor * branch(x, name), f"{name}.{norm}")
        return x

    def attention(self, x, name):
        batch, tokens, width = x.shape
        heads = self.body["heads"]
        depth = width // heads

        def of_heads(part):
            projected = self.linear(x, f"{name}.attention.{part}")
            return projected.reshape(batch, tokens, heads, depth).transpose(0, 2, 1, 3)

        logits = of_heads("query") @ of_heads("key").transpose(0, 1, 3, 2) / math.sqrt(depth)
        kind = self.body["attention"]["kind"]
        if kind == "bias":
            logits = logits + self.tensors[f"{name}.attention.pairs"]
        elif kind == "smolgen":
            logits = logits + self.smolgen(x, f"{name}.smolgen")
        if self.body.get("mask", "full") == "prefix":
            # The position does not attend to the move, which is the last token.
            logits[:, :, :-1, -1] = -np.inf
        attended = softmax(logits) @ of_heads("value")
        return self.linear(attended.transpose(0, 2, 1, 3).reshape(batch, tokens, width), f"{name}.attention.out")

    def smolgen(self, x, name):
        sizes = self.body["attention"]
        activate = ACTIVATIONS[sizes.get("activation", "silu")]
        batch, heads = len(x), self.body["heads"]
        squares = self.linear(x, f"{name}.squares").reshape(batch, -1)
        board = activate(self.linear(squares, f"{name}.board"))
        board = self.norm(board, f"{name}.board_norm", "layer", SMOLGEN_EPSILON)
        hidden = activate(self.linear(board, f"{name}.heads"))
        hidden = self.norm(hidden, f"{name}.heads_norm", "layer", SMOLGEN_EPSILON)
        logits = self.linear(hidden.reshape(batch, heads, sizes["generated"]), "smolgen.generator")
        return logits.reshape(batch, heads, SQUARES, SQUARES)

    def feed_forward_branch(self, x, name):
        experts = self.body["feed_forward"]
        if experts["kind"] != "experts":
            return self.feed_forward(x, f"{name}.feed_forward")
        logits = self.linear(x, f"{name}.router")
        # The weights of the chosen experts add up to one; of two equal logits the first is chosen.
        order = np.argsort(-logits, axis=-1, kind="stable")[..., : experts["chosen"]]
        gates = np.zeros_like(logits)
        np.put_along_axis(gates, order, softmax(np.take_along_axis(logits, order, axis=-1)), axis=-1)
        output = np.zeros_like(x)
        for expert in range(experts["count"]):
            output += gates[..., expert, None] * self.feed_forward(x, f"{name}.experts.{expert}")
        return output

    # The heads.

    def text_heads(self, last):
        names = [name for name in ("action_value", "state_value", "policy") if name in self.heads]
        return {name: self.linear(last, name) for name in names}

    def square_heads(self, x):
        outputs = {}
        if "policy" in self.heads:
            squares = self.activation(self.linear(x, "policy.squares"))
            outputs["policy"] = self.move_logits(squares, "policy")
            head = self.heads["policy"]
            for target in head.get("aux_targets", head.get("beside", [])):  # language: old name
                outputs[f"{target}_policy"] = self.move_logits(squares, f"{target}_policy")
        for name in ("value", "search_value", "short_term"):
            head = self.heads.get(name)
            if head is None:
                continue
            board = self.board_vector(x, name)
            outputs[f"{name}.wdl"] = self.linear(board, f"{name}.wdl")
            if head.get("error"):
                outputs[f"{name}.error"] = sigmoid(self.linear(board, f"{name}.error"))
            if head.get("buckets"):
                outputs[f"{name}.buckets"] = self.linear(board, f"{name}.buckets")
        if "moves_left" in self.heads:
            plies = self.linear(self.board_vector(x, "moves_left"), "moves_left.plies")
            outputs["moves_left"] = np.maximum(plies, 0)
        if "move_value" in self.heads:
            squares = self.activation(self.linear(x, "move_value.squares"))
            outputs["move_value"] = np.tanh(self.move_logits(squares, "move_value"))
        return outputs

    def board_vector(self, x, name):
        squares = self.activation(self.linear(x, f"{name}.squares"))
        return self.activation(self.linear(squares.reshape(len(x), -1), f"{name}.board"))

    def move_logits(self, squares, name):
        query, key = self.linear(squares, f"{name}.query"), self.linear(squares, f"{name}.key")
        logits = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        # Offsets of promotions to queen, rook and bishop relative to that to a knight, by the square of arrival.
        offsets = self.linear(key[:, 56:], f"{name}.promotion")
        offsets = offsets[:, :, :3] + offsets[:, :, 3:]
        promotions = logits[:, 48:56, 56:, None] + offsets[:, None]
        batch = len(squares)
        both = np.concatenate([logits.reshape(batch, -1), promotions.reshape(batch, -1)], axis=1)
        return both[:, policy_map()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("--positions", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    network = Network.load(options.network)
    outputs = network.forward(network.random_inputs(options.positions, options.seed))
    for name, values in outputs.items():
        print(f"{name:20} {values.shape}  mean {values.mean():.6f}  deviation {values.std():.6f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
