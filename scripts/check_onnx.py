#!/usr/bin/env python3
"""Check ONNX networks against a plain forward pass with the same weights.

    scripts/check_onnx.py [--positions N] [--tolerance T] NETWORK.onnx...

The weights must lie beside each file, as NETWORK.safetensors. onnxruntime runs
the network on random inputs, one position alone and several at a time, and
every output is compared with `transformer_reference.py`. An output may differ
by the tolerance, absolute or relative to its largest value.

It needs numpy and onnxruntime, and ends with status 1 at a difference.
"""

import argparse
import pathlib
import sys

import numpy as np
import onnxruntime

from transformer_reference import Network


def compare(path, positions, tolerance):
    """Returns the largest difference of a network, as a fraction of the tolerance."""
    network = Network.load(path.with_suffix(".safetensors"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    worst = 0.0
    for batch in (1, positions):
        inputs = network.random_inputs(batch, seed=batch)
        expected = network.forward(inputs)
        if sorted(names) != sorted(expected):
            raise SystemExit(f"{path}: outputs {sorted(names)}, should be {sorted(expected)}")
        for name, found in zip(names, session.run(names, inputs)):
            reference = expected[name]
            if found.shape != reference.shape:
                raise SystemExit(f"{path}: {name} is {found.shape}, should be {reference.shape}")
            difference = np.abs(found - reference).max()
            allowed = tolerance * max(1.0, np.abs(reference).max())
            print(f"{path.name}: {batch} x {name}: differs by {difference:.2e}, values up to {np.abs(reference).max():.3g}")
            # Written so that NaN fails.
            if not difference <= allowed:
                raise SystemExit(f"{path}: {name} differs by {difference}, {allowed} allowed")
            worst = max(worst, difference / allowed)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", type=pathlib.Path)
    parser.add_argument("--positions", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    for path in options.networks:
        worst = compare(path, options.positions, options.tolerance)
        print(f"{path.name}: the same, at worst {100 * worst:.1f} % of the tolerance")
    return 0


if __name__ == "__main__":
    sys.exit(main())
