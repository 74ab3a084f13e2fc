#!/usr/bin/env bash
# Installs libtorch 2.11 for training transformers, in a Python environment in FOLDER.
#
#     scripts/libtorch.sh FOLDER          then, as it prints:
#     source FOLDER/tandem.sh
#     cargo build --release --package tandem-lab --features torch
#
# The PyTorch package contains libtorch for CPUs and for NVIDIA GPUs (CUDA 13). It is installed without its
# dependencies; --whole installs those too, for machines with a GPU that have no CUDA of their own.
# Distributed training on CPUs needs Gloo's headers: Debian's libgloo-dev.
set -euo pipefail

usage="usage: scripts/libtorch.sh FOLDER [--whole]"
[ $# -ge 1 ] || { echo "$usage" >&2; exit 2; }
folder=$1
python=${TANDEM_PYTHON:-python3}
[ -x "$folder/bin/pip" ] || "$python" -m venv "$folder"
folder=$(cd "$folder" && pwd)

if [ "${2:-}" = --whole ]; then
    "$folder/bin/pip" install -q torch==2.11.0
else
    # Libraries that the CPU part of libtorch is linked with.
    "$folder/bin/pip" install -q --no-deps torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85
fi
# Headers for CUDA graphs and NCCL; a build without them supports neither.
"$folder/bin/pip" install -q --no-deps nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 \
    nvidia-nccl-cu13==2.28.9 nvidia-cublas==13.1.0.3 nvidia-cusolver==12.0.4.66 nvidia-cusparse==12.6.3.3 ||
    echo "no headers for CUDA and NCCL" >&2
if ! echo '#include <gloo/types.h>' | c++ -xc++ -fsyntax-only - 2>/dev/null; then
    echo "Gloo's headers are missing: apt install libgloo-dev" >&2
fi

packages=("$folder"/lib/python3.*/site-packages)
libraries=("${packages[0]}"/torch/lib "${packages[0]}"/nvidia/*/lib)
cat >"$folder/tandem.sh" <<END
export LIBTORCH="${packages[0]}/torch"
export LD_LIBRARY_PATH="$(IFS=: && echo "${libraries[*]}")\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
END
echo "source '$folder/tandem.sh'"
echo "cargo build --release --package tandem-lab --features torch"
