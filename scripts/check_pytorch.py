#!/usr/bin/env python3
"""Check our transformer inference against PyTorch with the same weights.

    scripts/check_pytorch.py EVALUATE NETWORK.safetensors...

EVALUATE is the example `evaluate` of `tandem-transformer`. Both get the same
random inputs; PyTorch computes with its own layers, norms, activations and
attention, in f32 on the CPU. An output may differ by the tolerance, absolute or
relative to its largest value.

It needs torch, and ends with status 1 at a difference. `pip install torch` is
large; any version from 2.4 on will do.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tomllib

import torch
import torch.nn.functional as F

CHANNELS = {"squares": 19, "planes": 112, "planes-single": 112, "lone-planes": 112}  # language: old name
ACTIVATIONS = {
    "silu": F.silu,
    "mish": F.mish,
    "gelu": F.gelu,
    "relu": F.relu,
    "squared-relu": lambda x: F.relu(x).square(),
}


def load(path):
    """Returns the architecture of a file, and its tensors."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    architecture = tomllib.loads(header.pop("__metadata__")["architecture"])
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        values = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=begin)
        tensors[name] = values.view(info["shape"])
    return architecture, tensors


class Network:
    """A network built from PyTorch's functions."""

    def __init__(self, path):
        self.architecture, self.tensors = load(path)
        self.body, self.heads = self.architecture["body"], self.architecture["heads"]
        self.activate = ACTIVATIONS[self.body["activation"]]
        self.text = self.architecture["input"] == "text"
        deep = self.body["norm"].get("deepnorm", False)
        self.branch_factor = (2 * self.body["layers"]) ** -0.25 if deep else 1.0

    def linear(self, name, x):
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def norm(self, name, x, kind=None, epsilon=None):
        scale = self.tensors[f"{name}.scale"]
        epsilon = epsilon or self.body["norm"].get("epsilon", 1e-5)
        if (kind or self.body["norm"]["kind"]) == "rms":
            return F.rms_norm(x, scale.shape, scale, epsilon)
        return F.layer_norm(x, scale.shape, scale, self.tensors[f"{name}.offset"], epsilon)

    def feed_forward_layer(self, name, x):
        hidden = self.activate(self.linear(f"{name}.in", x))
        if f"{name}.gate.weight" in self.tensors:
            hidden = hidden * self.linear(f"{name}.gate", x)
        return self.linear(f"{name}.out", hidden)

    def embed(self, inputs):
        if self.text:
            table, positions = self.tensors["embedding.table"], self.tensors["embedding.positions"]
            return F.embedding(inputs, table) * self.body["width"] ** 0.5 + positions
        if self.architecture["embedding"]["kind"] == "positions":
            return self.linear("embedding.squares", inputs) + self.tensors["embedding.positions"]
        board = self.linear("embedding.board", inputs[..., :12].flatten(1)).unflatten(1, (64, -1))
        x = self.activate(self.linear("embedding.squares", torch.cat([inputs, board], 2)))
        x = self.norm("embedding.norm", x)
        x = torch.addcmul(self.tensors["embedding.gate.offset"], x, self.tensors["embedding.gate.scale"])
        x = x + self.branch_factor * self.feed_forward_layer("embedding.feed_forward", x)
        return self.norm("embedding.feed_forward_norm", x)

    def attention(self, block, x):
        query, key, value = (
            self.linear(f"{block}.attention.{part}", x).unflatten(2, (self.body["heads"], -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mask = None
        if self.body["attention"]["kind"] == "bias":
            mask = self.tensors[f"{block}.attention.pairs"].expand(len(x), -1, -1, -1)
        elif self.body["attention"]["kind"] == "smolgen":
            mask = self.smolgen(f"{block}.smolgen", x)
        elif self.body.get("mask") == "prefix":
            # True where a token attends to another: only the last one attends to itself.
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
            mask[:-1, -1] = False
        attended = F.scaled_dot_product_attention(query, key, value, mask)
        return self.linear(f"{block}.attention.out", attended.transpose(1, 2).flatten(2))

    def smolgen(self, name, x):
        activate = ACTIVATIONS[self.body["attention"].get("activation", "silu")]
        x = self.linear(f"{name}.squares", x).flatten(1)
        for layer in ("board", "heads"):
            x = self.norm(f"{name}.{layer}_norm", activate(self.linear(f"{name}.{layer}", x)), "layer", 1e-3)
        logits = self.linear("smolgen.generator", x.unflatten(1, (self.body["heads"], -1)))
        return logits.unflatten(2, (64, 64))

    def feed_forward(self, block, x):
        sizes = self.body["feed_forward"]
        if sizes["kind"] != "experts":
            return self.feed_forward_layer(f"{block}.feed_forward", x)
        # Every expert computes every token; those that were not chosen have a weight of zero.
        chosen, which = self.linear(f"{block}.router", x).topk(sizes["chosen"])
        weights = torch.zeros(*x.shape[:2], sizes["count"]).scatter(2, which, chosen.softmax(2))
        outputs = [self.feed_forward_layer(f"{block}.experts.{expert}", x) for expert in range(sizes["count"])]
        return torch.einsum("bte,btwe->btw", weights, torch.stack(outputs, 3))

    def run(self, inputs):
        x = self.embed(inputs)
        for layer in range(self.body["layers"]):
            block = f"layers.{layer}"
            for norm, part in (("attention_norm", self.attention), ("feed_forward_norm", self.feed_forward)):
                if self.body["norm"]["place"] == "pre":
                    x = x + self.branch_factor * part(block, self.norm(f"{block}.{norm}", x))
                else:
                    x = self.norm(f"{block}.{norm}", x + self.branch_factor * part(block, x))
        if self.body["norm"].get("last"):
            x = self.norm("last_norm", x)
        return self.read_text(x[:, -1]) if self.text else self.read_squares(x)

    def read_text(self, last):
        return {name: self.linear(name, last) for name in ("action_value", "state_value", "policy") if name in self.heads}

    def read_squares(self, x):
        outputs = {}
        if "policy" in self.heads:
            squares = self.activate(self.linear("policy.squares", x))
            head = self.heads["policy"]
            targets = head.get("aux_targets", head.get("beside", []))  # language: old name
            for name in ["policy"] + [f"{target}_policy" for target in targets]:
                outputs[name] = self.moves(name, squares)
        if "move_value" in self.heads:
            outputs["move_value"] = self.moves("move_value", self.activate(self.linear("move_value.squares", x))).tanh()
        for name in ("value", "search_value", "short_term", "moves_left"):
            if name not in self.heads:
                continue
            board = self.activate(self.linear(f"{name}.squares", x)).flatten(1)
            board = self.activate(self.linear(f"{name}.board", board))
            if name == "moves_left":
                outputs[name] = F.relu(self.linear("moves_left.plies", board)).flatten()
                continue
            outputs[f"{name}.wdl"] = self.linear(f"{name}.wdl", board)
            if self.heads[name].get("error"):
                outputs[f"{name}.error"] = self.linear(f"{name}.error", board).sigmoid().flatten()
            if self.heads[name].get("buckets"):
                outputs[f"{name}.buckets"] = self.linear(f"{name}.buckets", board)
        return outputs

    def moves(self, name, squares):
        """Logits of lc0's 1858 moves: those of pieces by their squares, then promotions from file to file."""
        query, key = self.linear(f"{name}.query", squares), self.linear(f"{name}.key", squares)
        logits = torch.baddbmm(torch.zeros(1), query, key.mT, alpha=query.shape[2] ** -0.5)
        promotion = self.linear(f"{name}.promotion", key[:, 56:])
        values = []
        for start in range(64):
            for end in range(64):
                file, rank = abs(end % 8 - start % 8), abs(end // 8 - start // 8)
                if start != end and (file == rank or file == 0 or rank == 0 or {file, rank} == {1, 2}):
                    values.append(logits[:, start, end])
        for start in range(8):
            for end in range(max(0, start - 1), min(7, start + 1) + 1):
                for piece in range(3):
                    values.append(logits[:, 48 + start, 56 + end] + promotion[:, end, piece] + promotion[:, end, 3])
        return torch.stack(values, 1)


def random_inputs(network, positions):
    """Inputs for PyTorch, and the same as an object for our program."""
    if not network.text:
        channels = CHANNELS[network.architecture["input"]]
        squares = (torch.rand(positions, 64, channels) < 0.2).float()
        return squares, {"squares": squares.flatten().tolist()}
    tokens = torch.randint(31, (positions, 78))
    tokens[:, 0] = 0
    given = {"tokens": tokens.flatten().tolist()}
    if "action_value" not in network.heads:
        return tokens, given
    actions = torch.randint(1968, (positions, 3))
    given["actions"] = actions.tolist()
    return torch.cat([tokens.repeat_interleave(3, 0), actions.reshape(-1, 1)], 1), given


def compare(program, path, positions, tolerance):
    """Returns the largest difference, as a fraction of the tolerance."""
    torch.manual_seed(1)
    network = Network(path)
    inputs, given = random_inputs(network, positions)
    expected = network.run(inputs)
    answer = subprocess.run([program, path], input=json.dumps(given), capture_output=True, text=True)
    if answer.returncode:
        raise SystemExit(f"{path}: {answer.stderr.strip()}")
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    if any(line.keys() != expected.keys() for line in lines) or len(lines) != len(inputs):
        raise SystemExit(f"{path}: {len(lines)} answers of {sorted(lines[0])}, should be {sorted(expected)}")
    worst = 0.0
    for name, reference in expected.items():
        found = torch.tensor([line[name] for line in lines])
        difference = (found - reference).abs().max().item()
        allowed = tolerance * max(1.0, reference.abs().max().item())
        # Written so that NaN fails.
        if not difference <= allowed:
            raise SystemExit(f"{path}: {name} differs by {difference}, {allowed} allowed")
        worst = max(worst, difference / allowed)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", metavar="EVALUATE")
    parser.add_argument("networks", nargs="+", type=pathlib.Path)
    parser.add_argument("--positions", type=int, default=4)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    for path in options.networks:
        worst = compare(options.program, path, options.positions, options.tolerance)
        print(f"{path.name}: the same, at worst {100 * worst:.1f} % of the tolerance")
    return 0


if __name__ == "__main__":
    sys.exit(main())
