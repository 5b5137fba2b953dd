"""A small net with a recurrent layer, a text for it, and runs of them with any preset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ops import Array

STEPS = 4  # of time, in a pass
STREAMS = 8
SEQUENCE = 4  # batches in which the state is handed on
LETTERS = "abcde"

NET = """
name: "Letters"
layer {{ name: "chars" type: "Input" top: "data" top: "cont" top: "target"
  input_param {{ shape {{ dim: {steps} dim: {streams} }} }} }}
layer {{ name: "embed" type: "Embed" bottom: "data" top: "embed"
  embed_param {{ num_output: 6 input_dim: 5 bias_term: false
    weight_filler {{ type: "uniform" min: -0.5 max: 0.5 }} }} }}
layer {{ name: "lstm" type: "{kind}" bottom: "embed" bottom: "cont" top: "lstm"
  recurrent_param {{ num_output: 7 weight_filler {{ type: "uniform" min: -0.5 max: 0.5 }} }} }}
layer {{ name: "drop" type: "Dropout" bottom: "lstm" top: "drop" }}
layer {{ name: "next" type: "InnerProduct" bottom: "drop" top: "next"
  inner_product_param {{ num_output: 5 axis: 2 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "next" bottom: "target" top: "loss"
  softmax_param {{ axis: 2 }} }}
"""
SOLVER = """net: "net.prototxt" base_lr: 0.5 momentum: 0.9 lr_policy: "fixed"
max_iter: {iterations} display: 1 snapshot: {snapshot}
"""
CLUSTER = """{more}[train]
solver = "solver.prototxt"
precision = "exact"
[train.data]
train = {{ format = "text", source = "input.txt", streams = {streams}, length = {length} }}
shuffle = {shuffle}
[train.strategy]
preset = "{preset}"
"""


def configured(
    folder: Path,
    preset: str,
    *,
    workers: int = 1,
    iterations: int = 10,
    snapshot: int = 0,
    shuffle: bool = True,
    length: int = SEQUENCE * STEPS,
    kind: str = "LSTM",
    steps: int = STEPS,
    streams: int = STREAMS,
    strategy: str = "",
    more: str = "",
) -> Path:
    """Write cluster.toml, net, solver and text into a folder. Returns the path of cluster.toml.
    `strategy` has more lines of its section."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = np.random.default_rng(1).choice(list(LETTERS), 8 * streams * SEQUENCE * STEPS + 1)
    (folder / "input.txt").write_text("".join(letters))
    (folder / "net.prototxt").write_text(NET.format(steps=steps, streams=streams, kind=kind))
    (folder / "solver.prototxt").write_text(SOLVER.format(iterations=iterations, snapshot=snapshot))
    text = CLUSTER.format(
        preset=preset, streams=streams, length=length, shuffle=str(shuffle).lower(), more=more
    )
    text += f"workers = {workers}\n" if preset != "single" else ""
    path = folder / "cluster.toml"
    path.write_text(text + strategy)
    return path


def same_arrays(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    """Assert that both checkpoints have the same arrays, to the last bit."""
    assert found.keys() == wanted.keys()
    differ = [name for name, array in wanted.items() if found[name].tobytes() != array.tobytes()]
    assert differ == []
