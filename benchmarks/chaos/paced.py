"""A layer that only lets time pass, so that a busy machine hardly changes the pace of training.
Runs find it like a layer of any other package."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.trials import SOLVER
from benchmarks.helpers.survivor import environment
from nets.layers import Layer, Run, Setup, Values, settings
from nets.layers.base import Blobs, Gradients, Shape
from ops import Array

NET = """name: "paced"
layer {{ name: "images" type: "Data" top: "data" top: "label" data_param {{ batch_size: 16 }} }}
layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param {{ num_output: 4 kernel_size: 7 stride: 7 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "pace" type: "Paced" bottom: "conv" top: "paced"
  python_param {{ param_str: '{{"seconds": {seconds}, "slow": "{slow}"}}' }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "paced" top: "ip"
  inner_product_param {{ num_output: 10 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""
SLOW = "slow"  # the name of the file
PACED = SOLVER.replace("lenet.prototxt", "paced.prototxt")


@dataclass(frozen=True)
class Settings:
    """`seconds` of its forward pass, independent of the machine's load. `slow`: a file with the
    text "PID TIMES"; in that process the pass takes so many times as long."""

    seconds: float = 0.0
    slow: str = ""


class Paced(Layer):
    """y = x after a pause."""

    def _shape(self, shapes: list[Shape], setup: Setup) -> list[Shape]:
        told = settings(self, Settings())
        self.seconds = told.seconds
        self.slow = Path(told.slow)
        return [shapes[0]]

    def forward(self, bottoms: list[Array], blobs: Blobs, run: Run) -> list[Array]:
        until = time.monotonic() + self.seconds * self._times()
        y = self.buffer("top", bottoms[0].shape)
        y[...] = bottoms[0]
        time.sleep(max(0.0, until - time.monotonic()))
        return [y]

    def _times(self) -> float:
        if not self.slow.is_file():
            return 1.0
        pid, times = self.slow.read_text().split()
        return float(times) if int(pid) == os.getpid() else 1.0

    def backward(
        self,
        grads: list[Array | None],
        values: Values,
        run: Run,
        wanted: list[bool],
        out: Blobs | None,
    ) -> Gradients:
        if not wanted[0] or grads[0] is None:
            return [None], ()
        dx = self.buffer("bottom", values.bottoms[0].shape)
        dx[...] = grads[0]
        return [dx], ()


def brought(folder: Path, seconds: float) -> Mapping[str, str]:
    """Write `paced.prototxt`, a net whose passes take so many seconds, into this folder. Returns
    the environment of a run that knows the layer."""
    (folder / "paced.prototxt").write_text(NET.format(seconds=seconds, slow=folder / SLOW))
    told = folder / "site" / "paced-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: paced\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(
        "[convoy.layers]\nPaced = benchmarks.chaos.paced:Paced\n"
    )
    known = environment()
    return {**known, "PYTHONPATH": os.pathsep.join([str(told.parent), known["PYTHONPATH"]])}


def slow_down(folder: Path, pid: int, times: float) -> None:
    """Make a process of that run take so many times as long, from its next micro-batch on."""
    half = folder / f"{SLOW}.half"
    half.write_text(f"{pid} {times}")
    half.replace(folder / SLOW)
