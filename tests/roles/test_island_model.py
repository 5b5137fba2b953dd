"""The model of one island, with a net whose batch norm has running statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nets import Net, load_net, load_solver
from ops import get_backend
from roles.islands.island_messages import OuterModel
from roles.islands.island_model import IslandModel
from roles.islands.packed_model import Model, pack
from roles.learning.parameter_store import ParameterStore
from roles.learning.wire_formats import Wire, WireFormat, layers_of

OPS = get_backend("numpy")
NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 2 kernel_size: 1 } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" }
layer { name: "loss" type: "Reduction" bottom: "norm" top: "loss" loss_weight: 1 }
"""
FLOAT32 = WireFormat("float32")


class Single:
    """An island's model and what is in its store."""

    def __init__(self, folder: Path) -> None:
        file = folder / "net.prototxt"
        file.write_text(NET, encoding="utf-8")
        net = Net(load_net(str(file)), "TRAIN", ops=OPS, batch=2, input_shape=(3, 4, 4), seed=1)
        solver = load_solver("lenet")
        self.store = ParameterStore(net.params, net.initial_blobs(), solver, OPS, in_place=True)
        self.layers = layers_of(net)
        self.model = IslandModel(self.store, self.layers, OPS, OPS, FLOAT32)

    def step(self) -> None:
        """A local step, which adds 1 to every number."""
        for layer in self.store.layers:
            for place in self.store.in_place(layer, histories=False):
                place += 1
        self.model.stepped()

    def read(self) -> dict[str, list[float]]:
        """The first number of each array."""
        return {
            layer: [float(np.ravel(blob)[0]) for blob in self.store.read(layer)]
            for layer in self.store.layers
        }

    def answer(self, number: float) -> OuterModel:
        """An outer model that is this number everywhere."""
        model: Model = {
            layer: tuple(np.full_like(blob, number) for blob in self.store.read(layer))
            for layer in self.store.layers
        }
        packed = pack(Wire(self.layers, OPS, FLOAT32), model)
        return OuterModel(version=1, whole=True, **packed._asdict())


@pytest.fixture
def island(tmp_path: Path) -> Single:
    return Single(tmp_path)


def test_an_answer_after_further_steps_keeps_the_statistics_of_these_steps(island: Single) -> None:
    island.step()
    island.model.gain()
    island.step()
    before = island.read()
    island.model.take(island.answer(100.0))
    after = island.read()
    assert after["norm"] == before["norm"]
    assert after["conv"] == pytest.approx([101.0, 101.0])  # the outer model, and the last step


def test_an_answer_before_further_steps_brings_the_merged_statistics(island: Single) -> None:
    island.step()
    island.model.gain()
    island.model.take(island.answer(100.0))
    assert {number for found in island.read().values() for number in found} == {100.0}
