#!/usr/bin/env python3
"""A large teacher for a small network: a transformer that is trained on scored positions and scores others.

    teacher.py train TEACHER.pt SECONDS FILE[:WEIGHT]... [--check FILE] [--layers 8] [--width 256]
    teacher.py label TEACHER.pt IN.bf OUT.bf
    teacher.py check TEACHER.pt FILE

Files are in bulletformat: 32 bytes a position, seen by the side to move. Needs PyTorch, and a GPU for realistic sizes. Training
is limited by time instead of steps, so that it ends on schedule.
"""
import argparse
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SCALE = 400.0


def read(path, device):
    """Positions of a file as a tensor of bytes [positions, 32] on the device."""
    data = np.fromfile(path, dtype=np.uint8)
    return torch.from_numpy(data[: len(data) // 32 * 32].reshape(-1, 32)).to(device)


def tokens(rows):
    """Piece on each of 64 squares: 0 for none, 1 to 6 for the side to move, 7 to 12 for the opponent."""
    bits = (rows[:, :8, None] >> torch.arange(8, device=rows.device, dtype=torch.uint8)) & 1
    bits = bits.reshape(-1, 64).long()
    index = (bits.cumsum(1) - 1).clamp(min=0)
    pairs = rows[:, 8:24]
    nibbles = torch.stack([pairs & 15, pairs >> 4], 2).reshape(-1, 32).long()
    piece = nibbles.gather(1, index.clamp(max=31))
    return torch.where(bits == 1, 1 + (piece & 7) + 6 * (piece >> 3), 0)


def scores(rows):
    low, high = rows[:, 24].int(), rows[:, 25].int()
    value = low | high << 8
    return torch.where(value >= 32768, value - 65536, value).float()


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, 64, 64))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        batch, count, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        logits = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5 + self.bias.to(q.dtype)
        attended = (logits.softmax(-1) @ v).transpose(1, 2).reshape(batch, count, width)
        x = x + self.out(attended)
        return x + self.down(F.mish(self.up(self.norm2(x))))


class Teacher(nn.Module):
    def __init__(self, width=256, layers=8, heads=8, inner=512):
        super().__init__()
        self.shape = {"width": width, "layers": layers, "heads": heads, "inner": inner}
        self.pieces = nn.Embedding(13, width)
        self.places = nn.Parameter(torch.randn(64, width) * 0.02)
        # An embedding of the whole board: a sum over pieces on squares.
        self.board = nn.Embedding(13 * 64, 64)
        self.join = nn.Linear(width + 64, width)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.squares, self.hidden, self.value = nn.Linear(width, 32), nn.Linear(2048, 128), nn.Linear(128, 1)
        nn.init.normal_(self.pieces.weight, std=0.5)
        nn.init.normal_(self.board.weight, std=0.1)
        for block in self.blocks:
            for layer in (block.out, block.down):
                nn.init.normal_(layer.weight, std=0.02 / (2 * layers) ** 0.5)

    def forward(self, pieces):
        whole = self.board(pieces + 13 * torch.arange(64, device=pieces.device)).sum(1, keepdim=True)
        x = self.pieces(pieces) + self.places
        x = self.join(torch.cat([x, whole.expand(-1, 64, -1).to(x.dtype)], 2))
        for block in self.blocks:
            x = block(x)
        x = F.mish(self.squares(self.norm(x))).flatten(1)
        return self.value(F.mish(self.hidden(x))).squeeze(1)


def load(path, device):
    state = torch.load(path, map_location=device, weights_only=True)
    teacher = Teacher(**state["shape"]).to(device)
    teacher.load_state_dict(state["weights"])
    return teacher.eval()


def predict(teacher, rows, batch=16384):
    """Logits of all positions."""
    out = torch.empty(len(rows), device=rows.device)
    kind = rows.device.type
    with torch.inference_mode(), torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
        for at in range(0, len(rows), batch):
            part = rows[at : at + batch]
            out[at : at + batch] = teacher(tokens(part)).float()
    return out


def check(teacher, rows):
    win_probability = torch.sigmoid(predict(teacher, rows))
    target = torch.sigmoid(scores(rows) / SCALE)
    return (win_probability - target).square().mean().item()


def train(args, device):
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    sources = [name.rsplit(":", 1) if ":" in name else (name, "1") for name in args.files]
    data = [read(name, device) for name, _ in sources]
    weights = torch.tensor([float(weight) for _, weight in sources])
    fractions = (weights / weights.sum()).tolist()
    print("positions", [len(rows) for rows in data], "fractions", [round(fraction, 3) for fraction in fractions], flush=True)
    held = read(args.check, device) if args.check else None
    teacher = load(args.start, device).train() if args.start else Teacher(args.width, args.layers, args.heads, args.inner).to(device)
    print("parameters", sum(p.numel() for p in teacher.parameters()), flush=True)
    decay = [p for p in teacher.parameters() if p.dim() > 1]
    plain = [p for p in teacher.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": args.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.98), fused=device.type == "cuda")
    average = [p.detach().clone() for p in teacher.parameters()]
    counts = [round(args.batch * fraction) for fraction in fractions]

    def loss_of(rows):
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = teacher(tokens(rows))
        target = torch.sigmoid(scores(rows) / SCALE)
        return (torch.sigmoid(logits.float()) - target).square().mean()

    fast = torch.compile(loss_of) if device.type == "cuda" and not args.eager else loss_of
    if fast is not loss_of:
        try:
            fast(torch.cat([rows[:count] for rows, count in zip(data, counts)])).backward()
            optimiser.zero_grad(set_to_none=True)
        except Exception as error:  # no compiler: slower, with the same result
            print("not compiled:", repr(error)[:300], flush=True)
            fast = loss_of
    start, step, loss_sum = None, 0, torch.zeros((), device=device)
    program_start = time.time()
    while True:
        rows = torch.cat([rows[torch.randint(len(rows), (count,), device=device)] for rows, count in zip(data, counts)])
        loss = fast(rows)
        loss.backward()
        if start is None:  # compilation is not part of the training time
            start = time.time()
        progress = min((time.time() - start) / args.seconds, 1.0)
        lr = args.lr * min((step + 1) / 300, 1.0) * (0.02 + 0.98 * 0.5 * (1 + np.cos(np.pi * progress)))
        for group in optimiser.param_groups:
            group["lr"] = lr
        nn.utils.clip_grad_norm_(teacher.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(average, [p.detach() for p in teacher.parameters()], 1 - min(0.999, (step + 1) / (step + 10)))
        loss_sum += loss.detach()
        step += 1
        if step % 500 == 0:
            seconds = time.time() - start
            text = f"{seconds:6.0f} s step {step} loss {loss_sum.item() / 500:.6f} {step * args.batch / seconds:.0f}/s"
            loss_sum.zero_()
            if held is not None and step % 2500 == 0:
                text += f" held {check(teacher.eval(), held):.6f}"
                teacher.train()
            print(text, flush=True)
        if progress >= 1.0:
            break
    with torch.no_grad():
        for p, value in zip(teacher.parameters(), average):
            p.copy_(value)
    teacher.eval()
    torch.save({"shape": teacher.shape, "weights": teacher.state_dict()}, args.teacher)
    summary = f"; held {check(teacher, held):.6f}" if held is not None else ""
    print(f"{step} steps, {step * args.batch} positions, {time.time() - program_start:.0f} s{summary}", flush=True)


def label(args, device):
    teacher = load(args.teacher, device)
    if device.type == "cuda":
        try:
            compiled = torch.compile(teacher, dynamic=False)
            predict(compiled, torch.zeros(16384, 32, dtype=torch.uint8, device=device))
            teacher = compiled
        except Exception as error:
            print("not compiled:", repr(error)[:300], flush=True)
    start, total = time.time(), 0
    with open(args.output, "wb") as out:
        data = np.memmap(args.input, dtype=np.uint8, mode="r")
        data = data[: len(data) // 32 * 32].reshape(-1, 32)
        chunk, batch = 1 << 20, 16384
        for at in range(0, len(data), chunk):
            rows = np.array(data[at : at + chunk])
            count = len(rows)
            padded = np.concatenate([rows, np.repeat(rows[:1], -count % batch, 0)])
            value = predict(teacher, torch.from_numpy(padded).to(device), batch)[:count] * SCALE
            value = value.clamp(-3000, 3000).round().to(torch.int16).cpu().numpy()
            rows[:, 24:26] = value.view(np.uint8).reshape(-1, 2)
            out.write(rows.tobytes())
            total += count
    print(f"{total} positions, {total / (time.time() - start):.0f}/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train")
    command.add_argument("teacher")
    command.add_argument("seconds", type=float)
    command.add_argument("files", nargs="+")
    command.add_argument("--check")
    command.add_argument("--start", help="a teacher to continue from")
    command.add_argument("--layers", type=int, default=8)
    command.add_argument("--width", type=int, default=256)
    command.add_argument("--heads", type=int, default=8)
    command.add_argument("--inner", type=int, default=512)
    command.add_argument("--batch", type=int, default=4096)
    command.add_argument("--lr", "--rate", dest="lr", type=float, default=1e-3)
    command.add_argument("--weight-decay", "--decay", dest="weight_decay", type=float, default=0.01)
    command.add_argument("--eager", action="store_true")
    command = commands.add_parser("label")
    command.add_argument("teacher")
    command.add_argument("input")
    command.add_argument("output")
    command = commands.add_parser("check")
    command.add_argument("teacher")
    command.add_argument("file")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.command == "train":
        train(args, device)
    elif args.command == "label":
        label(args, device)
    else:
        print(check(load(args.teacher, device), read(args.file, device)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
