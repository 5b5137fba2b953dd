"""Layers of a net that are replayed have the bits of plain passes."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from nets import Net
from nets.layers.base import KINDS as REGISTERED
from nets.layers.elementwise import ReLU
from ops import lacking
from ops.backends.cpu_backend import CpuBackend
from ops.errors import Array
from tests.nets.support import images_and_labels, spec_of
from tests.nets.test_memory import CHAIN, KINDS, graphs

CONV = 'convolution_param {{ num_output: {} kernel_size: 3 pad: 1 weight_filler {{ type: "xavier" }} }}'
NET = f"""
layer {{ name: "data" type: "Input" top: "data" top: "label"
        input_param {{ shape {{ dim: 8 dim: 3 dim: 10 dim: 10 }} shape {{ dim: 8 }} }} }}
layer {{ name: "first" type: "Convolution" bottom: "data" top: "first" {CONV.format(16)} }}
layer {{ name: "bn" type: "BatchNorm" bottom: "first" top: "bn" }}
layer {{ name: "scale" type: "Scale" bottom: "bn" top: "bn" scale_param {{ bias_term: true }} }}
layer {{ name: "relu" type: "ReLU" bottom: "bn" top: "bn" }}
layer {{ name: "one" type: "Convolution" bottom: "bn" top: "one" {CONV.format(16)} }}
layer {{ name: "one_bn" type: "BatchNorm" bottom: "one" top: "one_bn" }}
layer {{ name: "one_scale" type: "Scale" bottom: "one_bn" top: "one_bn"
        scale_param {{ bias_term: true }} }}
layer {{ name: "sum" type: "Eltwise" bottom: "bn" bottom: "one_bn" top: "sum" }}
layer {{ name: "sum_relu" type: "ReLU" bottom: "sum" top: "sum" }}
layer {{ name: "deep" type: "DepthwiseConvolution" bottom: "sum" top: "deep" {CONV.format(16)} }}
layer {{ name: "gelu" type: "GELU" bottom: "deep" top: "gelu" }}
layer {{ name: "drop" type: "Dropout" bottom: "gelu" top: "drop" }}
layer {{ name: "left" type: "Convolution" bottom: "drop" top: "left" {CONV.format(8)} }}
layer {{ name: "right" type: "Convolution" bottom: "drop" top: "right" {CONV.format(24)} }}
layer {{ name: "both" type: "Concat" bottom: "left" bottom: "right" top: "both" }}
layer {{ name: "pool" type: "Pooling" bottom: "both" top: "pool"
        pooling_param {{ pool: MAX kernel_size: 2 stride: 2 }} }}
layer {{ name: "dense" type: "InnerProduct" bottom: "pool" top: "dense"
        inner_product_param {{ num_output: 12 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "tanh" type: "TanH" bottom: "dense" top: "dense" }}
layer {{ name: "scores" type: "InnerProduct" bottom: "dense" top: "scores"
        inner_product_param {{ num_output: 5 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }}
"""


class Plain(CpuBackend):
    """The backend without replays of layers."""

    replays_layers = False


class Training:
    """Steps of plain gradient descent, in place, on other images each time."""

    def __init__(self, folder: Path, kind: type[CpuBackend], threads: int = 1, text: str = NET):
        self.ops = kind(threads=threads)
        self.net = Net(spec_of(folder, text), "TRAIN", ops=self.ops, memory="reused", seed=1)
        self.blobs = {
            layer: tuple(blob.copy() for blob in of)
            for layer, of in self.net.initial_blobs().items()
        }
        self.gradients = {
            layer: tuple(np.zeros_like(blob) for blob in of) for layer, of in self.blobs.items()
        }
        self.number = 0

    def step(self, rows: tuple[int, int] | None = None) -> list[Array]:
        """Return copies of the gradients of a step."""
        net = self.net
        low, high = rows or (0, 8)
        images, labels = images_and_labels(8, shape=(3, 10, 10), classes=5, seed=self.number)
        net.begin(self.number, rows)
        net.feed("data", images[low:high].copy())
        net.feed("label", labels[low:high].copy())
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, self.blobs[stage.layer])
            net.forward(stage)
        for stage in reversed(net.stages):
            net.backward(stage, self.gradients.get(stage.layer or ""))
        for layer, of in self.gradients.items():
            for blob, gradient, param in zip(self.blobs[layer], of, net.params[layer], strict=True):
                if param.keep is None:
                    blob -= 0.05 * gradient
                else:
                    blob *= param.keep
                    blob += gradient
        self.number += 1
        return [
            np.float64(net.scalars()["loss"]),
            *(one.copy() for of in self.gradients.values() for one in of),
        ]


def alike(one: Sequence[Array], other: Sequence[Array]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_by_replays_have_the_bits_of_plain_steps(tmp_path: Path, threads: int) -> None:
    by_replays, plain = (Training(tmp_path, kind, threads) for kind in (CpuBackend, Plain))
    for _ in range(6):
        assert alike(by_replays.step(), plain.step())
    recorded = by_replays.net.replayed_layers
    assert recorded.replays == 3 * recorded.count  # of the last three steps
    assert recorded.count == 20  # all but those of the first and the last layer, Dropout and TanH
    assert plain.net.replayed_layers.count == 0


def test_parameters_at_another_place_are_read_there(tmp_path: Path) -> None:
    by_replays, plain = (Training(tmp_path, kind) for kind in (CpuBackend, Plain))
    for number in range(9):
        if number == 5:
            for training in (by_replays, plain):
                training.blobs["one"] = tuple(blob * 2 for blob in training.blobs["one"])
                training.gradients["deep"] = tuple(
                    np.full_like(one, np.nan) for one in training.gradients["deep"]
                )
        assert alike(by_replays.step(), plain.step()), number


def test_passes_of_other_sizes_take_turns_with_replays(tmp_path: Path) -> None:
    by_replays, plain = (Training(tmp_path, kind) for kind in (CpuBackend, Plain))
    for number in range(12):
        rows = (2, 7) if number in (4, 9, 10) else None
        assert alike(by_replays.step(rows), plain.step(rows)), number
    assert by_replays.net.replayed_layers.replays


def test_scratch_memory_that_moves_ends_a_recording(tmp_path: Path) -> None:
    by_replays, plain = (Training(tmp_path, kind) for kind in (CpuBackend, Plain))
    for number in range(8):
        if number == 5:
            workspace = by_replays.ops.workspace
            before = np.frombuffer(
                (np.ctypeslib.ctypes.c_char * workspace.size).from_address(workspace.take(1)),
                np.uint8,
            )
            before[:] = 255
            workspace.take(workspace.size + (64 << 20))
        assert alike(by_replays.step(), plain.step()), number


def test_recordings_do_not_keep_what_they_are_given(tmp_path: Path) -> None:
    training = Training(tmp_path, CpuBackend)
    for _ in range(2):
        training.step()
    for _ in range(12):
        old = [weakref.ref(one) for of in training.gradients.values() for one in of]
        training.gradients = {
            layer: tuple(np.zeros_like(one) for one in of)
            for layer, of in training.gradients.items()
        }
        training.step()
        assert not [reference for reference in old if reference() is not None]


class Doubled(ReLU):
    """A layer of a user, with arithmetic of its own."""

    of_caffe = False

    def _forward(self, x: Array, out: Array) -> Array:
        return np.multiply(x, 2, out=out)

    def _backward(self, dy: Array, x: Array, y: Array, out: Array) -> Array:
        return np.multiply(dy, 2, out=out)


def test_a_layer_that_does_not_say_that_it_is_replayable_is_computed_in_each_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTERED, "DoubledForTests", Doubled)
    text = NET.replace('"tanh" type: "TanH"', '"tanh" type: "DoubledForTests"')
    by_replays, plain = (Training(tmp_path, kind, text=text) for kind in (CpuBackend, Plain))
    for _ in range(6):
        assert alike(by_replays.step(), plain.step())
    assert not Doubled.replayable
    assert by_replays.net.replayed_layers.replays


def steps_of(text: str, folder: Path, kind: type[CpuBackend], precision: str) -> list[list[Array]]:
    """Gradients, blobs of losses and parameters of six steps on noise."""
    ops = kind(threads=2, precision=precision)
    net = Net(spec_of(folder, text), "TRAIN", ops=ops, batch=2, memory="reused", seed=1)
    blobs = {layer: [one.copy() for one in of] for layer, of in net.initial_blobs().items()}
    gradients = {layer: [np.empty_like(one) for one in of] for layer, of in blobs.items()}
    rng = np.random.default_rng(0)
    found = []
    for number in range(6):
        net.begin(number)
        for name, shape in net.input_shapes.items():
            fed = rng.random(shape, np.float32)
            if len(shape) == 1:
                fed = rng.integers(0, 3, shape).astype(np.float32)
            elif len(shape) == 2:  # probabilities of classes
                fed /= fed.sum(axis=1, keepdims=True)
            net.feed(name, fed)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, blobs[stage.layer])
            net.forward(stage)
        for stage in reversed(net.stages):
            net.backward(stage, gradients.get(stage.layer or ""))
        for layer, of in blobs.items():
            for blob, gradient in zip(of, gradients[layer], strict=True):
                blob -= 0.01 * gradient
        found.append(
            [
                np.float64(net.scalars().get("loss", 0)),
                *(one.copy() for of in blobs.values() for one in of),
            ]
        )
    return found


def check_alike(text: str, folder: Path, precision: str) -> None:
    by_replays, plain = (steps_of(text, folder, kind, precision) for kind in (CpuBackend, Plain))
    for number, (one, other) in enumerate(zip(by_replays, plain, strict=True)):
        for found, expected in zip(one, other, strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"step {number}")


PRECISIONS = ["exact", *(["bf16"] if lacking("cpu", "bf16") is None else [])]


@pytest.mark.parametrize("precision", PRECISIONS)
@given(graphs())
@settings(max_examples=40, deadline=None)
def test_any_net_in_replays_has_the_bits_of_plain_passes(
    tmp_path_factory: pytest.TempPathFactory, precision: str, text: str
) -> None:
    check_alike(text, tmp_path_factory.mktemp("net"), precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", [*KINDS, "Swish", "SiLU", "HardSwish"])
def test_any_layer_in_replays_has_the_bits_of_plain_passes(
    tmp_path: Path, precision: str, kind: str
) -> None:
    body = KINDS.get(kind, f'type: "{kind}"').format(outputs=4)
    check_alike(CHAIN.format(body=body), tmp_path, precision)


FACTORS = """
layer { name: "data" type: "Input" top: "data" top: "label"
        input_param { shape { dim: 2 dim: 6 dim: 7 dim: 7 } shape { dim: 2 } } }
layer { name: "one" type: "Convolution" bottom: "data" top: "one"
        convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "means" type: "Pooling" bottom: "FROM" top: "means"
        pooling_param { pool: AVE global_pooling: true } }
layer { name: "factors" type: "InnerProduct" bottom: "means" top: "factors" RATES
        inner_product_param { num_output: 6 weight_filler { type: "xavier" } } }
layer { name: "first" type: "Scale" bottom: "one" bottom: "factors" top: "first"
        scale_param { axis: 0 } }
layer { name: "two" type: "Convolution" bottom: "first" top: "two"
        convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "second" type: "Scale" bottom: "two" bottom: "factors" top: "second"
        scale_param { axis: 0 } }
layer { name: "scores" type: "InnerProduct" bottom: "second" top: "scores"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
"""


@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_of_factors_that_are_made_anew_are_never_written_by_replays(
    tmp_path: Path, frozen: bool
) -> None:
    rates = "param { lr_mult: 0 } param { lr_mult: 0 }" if frozen else ""
    text = FACTORS.replace("FROM", "data" if frozen else "one").replace("RATES", rates)
    check_alike(text, tmp_path, "exact")
