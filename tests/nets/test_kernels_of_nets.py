"""The kernels that a net loads, which are those that a new machine compiles: only its own layers'.

A process trains a net for one iteration, and prints the names under which it asked for kernels.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ops
from ops.cpu.codegen.amx import has_amx

ROOT = Path(__file__).parents[2]
LACKING = ops.lacking("cpu", "bf16")
FAMILIES = {  # how the names of kernels begin that only some nets use
    "depthwise": ("code-depthwise",),
    "recurrent": ("units", "loops-run_", "loops-pack_state", "loops-pack_rounded", "loops-squash"),
    "tiles": ("amx_block", "tiled_block", "code-tiled", "code-pack_pairs"),
    "patches": ("code-patched",),
    "Winograd": ("winograd", "loops-winograd"),
}
PROGRAM = """
import json, sys
import numpy as np
from ops.cpu.codegen import compiled
asked = []
alone = compiled.alone
compiled.alone = lambda name, wait=True: asked.append(name) or alone(name, wait)
from nets import Net, load_net
from ops import get_backend
name, precision = sys.argv[1:]
net = Net(load_net(name), "TRAIN", ops=get_backend("cpu", precision=precision), memory="reused",
          batch=8 if name == "lenet" else None, input_shape=(1, 28, 28) if name == "lenet" else None)
assert net.scratch >= 0
blobs = net.initial_blobs()
net.run({blob: np.zeros(shape, "f") for blob, shape in net.input_shapes.items()}, blobs)
for stage in reversed(net.stages):
    net.backward(stage)
print(json.dumps(asked))
"""
DEPTHWISE = """
layer { name: "data" type: "Input" top: "data" top: "label"
  input_param { shape { dim: 8 dim: 16 dim: 9 dim: 9 } shape { dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 16 group: 16 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


def loaded(net: str, precision: str = "fast") -> set[str]:
    """The names of the kernels that one iteration of a net asks for."""
    command = [sys.executable, "-c", PROGRAM, net, precision]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def families(names: set[str]) -> set[str]:
    return {
        family for family, starts in FAMILIES.items() if any(n.startswith(starts) for n in names)
    }


def test_lenet_loads_no_kernel_of_depthwise_or_recurrent_layers_tiles_or_patches() -> None:
    names = loaded("lenet")
    assert families(names) == {"Winograd"}
    assert len(names) <= 30


@pytest.mark.skipif(LACKING is not None or not has_amx(), reason="needs tiles for bfloat16")
def test_lenet_in_bfloat16_loads_each_kernel_for_its_own_types_of_images_alone() -> None:
    names = loaded("lenet", "bf16")
    assert families(names) == {"tiles", "patches"}
    # the data are float32, all other images are bfloat16
    kinds = {name[-4:] for name in names if name.startswith(("code-patched", "code-tiled_images"))}
    assert kinds == {"_4_2", "_2_2"}


def test_a_net_with_such_layers_loads_their_kernels(tmp_path: Path) -> None:
    assert "recurrent" in families(loaded("char_lstm"))
    net = tmp_path / "net.prototxt"
    net.write_text(DEPTHWISE)
    assert "depthwise" in families(loaded(str(net)))
