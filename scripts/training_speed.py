#!/usr/bin/env python3
"""Speed of a transformer's training steps, against PyTorch's, in one run.

    scripts/training_speed.py LAB DATA [--device cuda] [--batch 256 4096] [--steps 40] [--attention plain smolgen]

The network has 64 tokens of width 256, 6 layers, 8 heads, feed-forward layers
of 1024, a policy of 1858 moves and a value of win, draw and loss; the optimiser
is AdamW. LAB is a tandem-lab with libtorch (`train-speed --recipe`), DATA any
games that it reads. PyTorch's side is a plain module of the same shape, once as
written and, on a GPU, once with torch.compile. Its batch stays on the device,
whereas the lab transfers a new one in each step. On a GPU both use bfloat16.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

SQUARES, CHANNELS, MOVES = 64, 19, 1858
WIDTH, LAYERS, HEADS, INNER = 256, 6, 8, 1024

ARCHITECTURE = """
input = "squares"
[embedding]
kind = "positions"
[body]
width = 256
layers = 6
heads = 8
activation = "gelu"
norm = { kind = "layer", place = "pre", epsilon = 1e-5, last = true }
attention = ATTENTION
feed_forward = { kind = "dense", width = 1024, biases = true }
[heads]
policy = { kind = "attention", width = 256 }
value = { channels = 32, hidden = 128 }
"""
ATTENTION = {
    "plain": '{ kind = "plain", biases = true }',
    "smolgen": '{ kind = "smolgen", biases = true, compressed = 32, hidden = 128, generated = 128 }',
}


class Smolgen(nn.Module):
    """A bias for each pair of squares, generated from the whole position."""

    def __init__(self, generator):
        super().__init__()
        self.squares, self.generator = nn.Linear(WIDTH, 32, bias=False), generator
        self.board, self.board_norm = nn.Linear(SQUARES * 32, 128), nn.LayerNorm(128)
        self.heads, self.heads_norm = nn.Linear(128, HEADS * 128), nn.LayerNorm(HEADS * 128)

    def forward(self, x):
        hidden = self.board_norm(F.silu(self.board(self.squares(x).flatten(1))))
        hidden = self.heads_norm(F.silu(self.heads(hidden))).unflatten(1, (HEADS, 128))
        return self.generator(hidden).unflatten(2, (SQUARES, SQUARES))


class Block(nn.Module):
    def __init__(self, smolgen):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.smolgen = smolgen

    def forward(self, x):
        normed = self.norm1(x)
        q, k, v = self.qkv(normed).unflatten(2, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        bias = self.smolgen(normed) if self.smolgen else None
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Network(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.squares, self.places = nn.Linear(CHANNELS, WIDTH), nn.Parameter(torch.zeros(SQUARES, WIDTH))
        shared = nn.Linear(128, SQUARES * SQUARES, bias=False) if attention == "smolgen" else None
        self.blocks = nn.ModuleList(Block(Smolgen(shared) if shared else None) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.policy, self.query, self.key = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.value, self.hidden, self.wdl = nn.Linear(WIDTH, 32), nn.Linear(2048, 128), nn.Linear(128, 3)
        self.register_buffer("moves", torch.arange(MOVES) * 2)

    def forward(self, squares):
        x = self.squares(squares) + self.places
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        vectors = F.gelu(self.policy(x))
        logits = self.query(vectors) @ self.key(vectors).transpose(1, 2) * WIDTH**-0.5
        return logits.flatten(1)[:, self.moves], self.wdl(F.gelu(self.hidden(F.gelu(self.value(x)).flatten(1))))


def torch_speed(attention, batch, steps, device, compiled):
    network = Network(attention).to(device)
    optimiser = torch.optim.AdamW(network.parameters(), fused=True)
    squares = torch.randn(batch, SQUARES, CHANNELS, device=device)
    moves, results = torch.randint(MOVES, (batch,), device=device), torch.randint(3, (batch,), device=device)

    def loss_of():
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            policy, wdl = network(squares)
        return F.cross_entropy(policy.float(), moves) + F.cross_entropy(wdl.float(), results)

    loss_of = torch.compile(loss_of) if compiled else loss_of

    def step():
        loss_of().backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(4 if device == "cuda" else 1):
        step()
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    wait()
    return batch * steps / (time.perf_counter() - start)


def lab_speed(options, attention, batch, graph):
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/network.toml", "w") as file:
            file.write(ARCHITECTURE.replace("ATTENTION", ATTENTION[attention]))
        on_gpu = options.device == "cuda"
        with open(f"{folder}/speed.toml", "w") as file:
            file.write(
                f'name = "speed"\nlr = 1e-3\n[data]\ntrain = [{{ path = "{os.path.abspath(options.data)}" }}]\n'
                f'shuffle_buffer = {8 * batch}\n[network]\narchitecture = "{folder}/network.toml"\n[training]\nbatch = {batch}\n'
                f'positions = {batch * 1000}\nema_decay = 0.0\nprecision = "{"bf16" if on_gpu else "f32"}"\n'
                f"cuda_graph = {str(graph).lower()}\n"
            )
        command = [options.lab, "train-speed", "--recipe", f"{folder}/speed.toml", "--device", options.device]
        command += ["--steps", str(options.steps), "--threads", str(os.cpu_count())]
        result = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in result.stdout.splitlines() if "positions a second" in line]
    if not lines:
        sys.exit(f"{result.stdout}{result.stderr}")
    return float(lines[0].split()[0]), lines[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("data")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--batch", type=int, nargs="+", default=[256, 4096])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--attention", nargs="+", choices=list(ATTENTION), default=list(ATTENTION))
    options = parser.parse_args()
    for attention in options.attention:
        for batch in options.batch:
            for graph in [False, True] if options.device == "cuda" else [False]:
                speed, line = lab_speed(options, attention, batch, graph)
                print(f"{attention:8} {batch:5}  tandem{', graph' if graph else ''}: {line}", flush=True)
            for compiled in [False, True] if options.device == "cuda" else [False]:
                torch_rate = torch_speed(attention, batch, options.steps, options.device, compiled)
                kind = "compiled" if compiled else "as written"
                print(f"{attention:8} {batch:5}  PyTorch {kind}: {torch_rate:.0f}; tandem is {speed / torch_rate:.2f} times as fast", flush=True)


if __name__ == "__main__":
    main()
