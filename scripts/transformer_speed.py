#!/usr/bin/env python3
"""Speed of our transformers and of onnxruntime, on one core, in one run.

    scripts/transformer_speed.py LAB [--rounds N] [--activation NAME]

LAB is `tandem-lab`, built for release; our own times are those of `cargo bench -p
tandem-transformer --bench forward`. The network of `benches/speed.toml`, with
another activation if one is named, is exported to ONNX, and onnxruntime runs it
with one thread, in f32 and with 8-bit weights as `quantize_dynamic` makes them.
All take turns for several rounds, and the best time of each counts, so that other
load on the machine matters little.

It prints a table in Markdown: milliseconds a position for batches of 1 and of
16, the speedup of a position in a batch of 16, and our speedup over onnxruntime
in the same precision. It needs numpy, onnx and onnxruntime.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHITECTURE = ROOT / "crates/transformer/benches/speed.toml"
CHANNELS = 19
BATCHES = (1, 16)
# CPU time of each measurement in a round.
SECONDS = 0.5


def sessions(lab, architecture, folder):
    """Sessions of onnxruntime by precision."""
    files = {name: folder / f"{name}.onnx" for name in ("f32", "int8")}
    network = folder / "network.ttn"
    for command in ["new", architecture, "-o", network], ["export", network, "-o", files["f32"], "--no-card"]:
        subprocess.run([lab, *command], check=True, stdout=subprocess.DEVNULL)
    quantize_dynamic(files["f32"], files["int8"], weight_type=QuantType.QInt8, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    return {name: onnxruntime.InferenceSession(file, options, providers=providers) for name, file in files.items()}


def milliseconds(session, batch):
    """The best time of a position, in milliseconds."""
    squares = (np.arange(batch * 64 * CHANNELS) % 7 == 0).astype(np.float32).reshape(batch, 64, CHANNELS)
    session.run(None, {"squares": squares})
    begin, best = time.process_time(), float("inf")
    while time.process_time() - begin < SECONDS:
        start = time.process_time()
        session.run(None, {"squares": squares})
        best = min(best, (time.process_time() - start) / batch)
    return 1e3 * best


# A line of the benchmark: instruction set, precision, batch, and the fastest run.
LINE = re.compile(r"(avx2|avx512|amx) (\w+) batch (\d+) +([\d.]+) (ns|µs|ms|s) ")
MILLISECONDS = {"ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1e3}


def ours(architecture):
    """Our own times of a position in milliseconds for each of BATCHES, by instruction set and precision."""
    command = ["cargo", "bench", "-q", "-p", "tandem-transformer", "--bench", "forward"]
    environment = os.environ | {"TANDEM_ARCHITECTURE": str(architecture)}
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=ROOT)
    found = {}
    for isa, precision, batch, time, unit in LINE.findall(run.stdout):
        times = found.setdefault((isa, precision), [float("inf")] * len(BATCHES))
        times[BATCHES.index(int(batch))] = float(time) * MILLISECONDS[unit] / int(batch)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lab")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--activation", default="mish")
    options = parser.parse_args()
    best = {}

    def take(name, times):
        best[name] = [min(pair) for pair in zip(times, best.get(name, times))]

    with tempfile.TemporaryDirectory() as folder:
        architecture = pathlib.Path(folder, "network.toml")
        text = ARCHITECTURE.read_text().replace('activation = "mish"', f'activation = "{options.activation}"')
        architecture.write_text(text)
        peers = sessions(options.lab, architecture, pathlib.Path(folder))
        for _ in range(options.rounds):
            for name, session in peers.items():
                take(("onnxruntime", name), [milliseconds(session, batch) for batch in BATCHES])
            for name, times in ours(architecture).items():
                take(name, times)

    print(f"onnxruntime {onnxruntime.__version__}, {options.activation}, best of {options.rounds} rounds")
    print("| program | precision | batch 1, ms | batch 16, ms a position | speedup of batch 16 | speedup over onnxruntime, batch 1 | batch 16 |")
    print("|---|---|---|---|---|---|---|")
    for (name, precision), (one, many) in best.items():
        # onnxruntime has no CPU kernels for bf16, so bf16 is compared with its f32.
        peer = best["onnxruntime", precision if precision in peers else "f32"]
        ratios = f"{peer[0] / one:.2f} | {peer[1] / many:.2f}"
        print(f"| {name} | {precision} | {one:.2f} | {many:.2f} | {one / many:.2f} | {ratios} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
