"""Narrow vectors on a machine with wide ones: the results are the same, and the machine code uses
no wider vectors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.cpu.codegen.target import host
from ops.cpu.codegen.width import VARIABLE

ROOT = Path(__file__).resolve().parents[3]

LISTING = """
import json
from llvmlite import ir
from ops.cpu.codegen import compiled
from ops.cpu.codegen.target import host
from ops.cpu.elementwise import windows
from ops.cpu.elementwise.activation import RECTIFY
from ops.cpu.gemm import microkernel, tile

def listing(build):
    return compiled.machine().emit_assembly(compiled.optimised(build))

lanes, (vectors, rows) = host().lanes, max(microkernel.shapes(long=True).items())
found = {
    "tile": listing(lambda module: tile.build_tile(module, "tile", rows, vectors, lanes)),
    "stream": listing(RECTIFY.kernel._build),
    "pooling": listing(windows.max_forward._build),
}
print(json.dumps(found))
"""

TRAINED = """
import json
import numpy as np
from nets import Net, load_net
from ops import get_backend

def trained(backend, dtype):
    net = Net(load_net("cifar10_quick"), "TRAIN", ops=backend, batch=5, input_shape=(3, 32, 32), seed=1, dtype=dtype)
    rng = np.random.default_rng(0)
    net.run({"data": rng.standard_normal((5, 3, 32, 32)), "label": np.arange(5)}, net.initial_blobs())
    gradients = [np.array(g) for stage in reversed(net.stages) for g in net.backward(stage)]
    return [np.array(net.scalars()["loss"]), *gradients]

errors = []
for precision in ("exact", "fast"):
    ours = trained(get_backend("cpu", threads=2, precision=precision), np.float32)
    theirs = trained(get_backend("numpy"), np.float64)
    errors += [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(ours, theirs, strict=True)]
print(json.dumps(max(errors)))
"""


def told(program: str, bits: int) -> str:
    """The output of a program whose vectors have `bits` bits."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: str(bits)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_vectors_of_256_bits_train_cifar_quick_to_the_same_numbers():
    if host().bits < 256:
        pytest.skip("this machine has no such vectors")
    assert float(told(TRAINED, 256)) < 1e-4


REGISTERS = {512: "zmm", 256: "ymm", 128: "xmm"}


@pytest.mark.parametrize("bits", REGISTERS)
def test_machine_code_holds_vectors_of_the_width_asked_for_and_no_wider_ones(bits):
    if host().bits < bits or "avx2" not in host().features:
        pytest.skip("this machine has no such vectors")
    wider = [name for width, name in REGISTERS.items() if width > bits]
    listing = told(LISTING, bits)
    assert listing.count(REGISTERS[bits]) > 100
    assert not any(name in listing for name in wider)
