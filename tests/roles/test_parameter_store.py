"""The parameter store compared with Caffe's update in float64. A published version must never
change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ops
from nets import NetError, ParamSpec, SolverSpec, load_solver
from nets.schema import caffe_pb2 as caffe
from ops import Array
from roles.learning.parameter_store import ParameterStore

SHAPES = {"conv1": ((3, 2, 2, 2), (3,)), "ip": ((4, 6), (4,))}
# (lr_mult, decay_mult) of each blob
MULTS = {"conv1": ((1.0, 1.0), (2.0, 0.0)), "ip": ((0.5, 3.0), (0.0, 1.0))}
SOLVER = """net: "unused"  base_lr: 0.1  momentum: 0.9  weight_decay: 0.05  lr_policy: "step"  gamma: 0.5  stepsize: 3
max_iter: 100"""


@pytest.fixture
def solver(tmp_path: Path) -> SolverSpec:
    path = tmp_path / "solver.prototxt"
    path.write_text(SOLVER)
    return load_solver(path)


def params() -> dict[str, tuple[ParamSpec, ...]]:
    return {
        layer: tuple(
            ParamSpec(layer, n, "w", shape, caffe.FillerParameter(), *MULTS[layer][n])
            for n, shape in enumerate(SHAPES[layer])
        )
        for layer in SHAPES
    }


def blobs(seed: int) -> dict[str, tuple[Array, ...]]:
    rng = np.random.default_rng(seed)
    return {
        layer: tuple(rng.standard_normal(shape).astype(np.float32) for shape in shapes)
        for layer, shapes in SHAPES.items()
    }


def make(solver: SolverSpec, seed: int = 0) -> ParameterStore:
    return ParameterStore(params(), blobs(seed), solver, ops.get_backend("numpy"))


def reference(
    layer: str, start: tuple[Array, ...], gradients: list[tuple[Array, ...]]
) -> list[tuple[Array, Array]]:
    """(w, h) of each blob after all updates: h = 0.9 h + lr (g + decay w), w = w - h, in
    float64."""
    result = []
    for n, blob in enumerate(start):
        lr_mult, decay_mult = MULTS[layer][n]
        w = blob.astype(np.float64)
        h = np.zeros(blob.shape)
        for iteration, step in enumerate(gradients):
            rate = 0.1 * 0.5 ** (iteration // 3) * lr_mult
            h = 0.9 * h + rate * (step[n].astype(np.float64) + 0.05 * decay_mult * w)
            w = w - h
        result.append((w, h))
    return result


@pytest.mark.parametrize("updates", [1, 2, 3, 4, 10])
def test_updates_are_caffes_sgd_with_momentum_decay_multipliers_and_rate_policy(
    solver: SolverSpec, updates: int
) -> None:
    store = make(solver)
    start = blobs(0)
    for layer in SHAPES:
        gradients = [blobs(seed)[layer] for seed in range(1, updates + 1)]
        for count, step in enumerate(gradients, 1):
            assert store.apply(layer, step) == count
        state = store.state()
        for n, (w, h) in enumerate(reference(layer, start[layer], gradients)):
            np.testing.assert_allclose(store.read(layer)[n], w, rtol=2e-5, atol=2e-6)
            np.testing.assert_allclose(state[f"{layer}.{n}.history"], h, rtol=2e-5, atol=2e-6)


def test_each_layer_counts_its_own_updates_and_takes_its_rate_by_that_count(
    solver: SolverSpec,
) -> None:
    alone = make(solver)
    mixed = make(solver)
    for seed in range(1, 6):
        alone.apply("ip", blobs(seed)["ip"])
        mixed.apply("conv1", blobs(seed)["conv1"])
        mixed.apply("ip", blobs(seed)["ip"])
        mixed.apply("conv1", blobs(seed)["conv1"])
    assert mixed.versions == {"conv1": 10, "ip": 5}
    for a, b in zip(alone.read("ip"), mixed.read("ip"), strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_published_version_is_never_modified_and_neither_are_the_gradients(
    solver: SolverSpec,
) -> None:
    store = make(solver)
    kept = []
    for seed in range(1, 5):
        read = store.read("ip")
        step = blobs(seed)["ip"]
        for array in (*read, *step):
            array.flags.writeable = False
        kept.append((read, [array.copy() for array in read]))
        store.apply("ip", step)
        assert not any(np.shares_memory(a, b) for a in store.read("ip") for b in (*read, *step))
    for read, copies in kept:
        for array, copy in zip(read, copies, strict=True):
            np.testing.assert_array_equal(array, copy)


def test_a_state_is_a_moment_that_later_updates_do_not_change(solver: SolverSpec) -> None:
    store = make(solver)
    store.apply("ip", blobs(1)["ip"])
    state = store.state()
    copies = {name: array.copy() for name, array in state.items()}
    store.apply("ip", blobs(2)["ip"])
    for name, copy in copies.items():
        np.testing.assert_array_equal(state[name], copy)


def test_a_restored_store_continues_to_the_same_bits(solver: SolverSpec) -> None:
    store = make(solver)
    other = make(solver, seed=99)
    for seed in range(1, 5):
        store.apply("ip", blobs(seed)["ip"])
        store.apply("conv1", blobs(seed)["conv1"])
    state = store.state()
    for array in state.values():
        array.flags.writeable = False  # arrays read from a checkpoint may be read-only too
    other.restore(state, 4)
    assert other.versions == {"conv1": 4, "ip": 4}
    for layer in SHAPES:
        assert store.apply(layer, blobs(7)[layer]) == other.apply(layer, blobs(7)[layer]) == 5
    for name, array in store.state().items():
        assert array.tobytes() == other.state()[name].tobytes()


def test_everything_missing_or_misshapen_in_a_checkpoint_is_named_and_nothing_is_taken(
    solver: SolverSpec,
) -> None:
    store = make(solver)
    state = make(solver, seed=5).state()
    del state["conv1.0.history"]
    state["ip.1"] = np.zeros(5, np.float32)
    with pytest.raises(NetError) as caught:
        store.restore(state, 3)
    assert str(caught.value).splitlines() == [
        "checkpoint: 'conv1.0.history': found nothing, expected shape (3, 2, 2, 2)",
        "checkpoint: 'ip.1': found (5,), expected shape (4,)",
    ]
    assert store.versions == {"conv1": 0, "ip": 0}
    for found, first in zip(store.read("ip"), blobs(0)["ip"], strict=True):
        np.testing.assert_array_equal(found, first)


def test_gradients_of_another_number_or_shape_are_refused_and_change_no_parameter(
    solver: SolverSpec,
) -> None:
    store = make(solver)
    before = blobs(0)["ip"]
    for wrong in ((blobs(1)["ip"][0],), blobs(1)["conv1"]):
        with pytest.raises((ValueError, ops.OpsError)):
            store.apply("ip", wrong)
        assert store.versions["ip"] == 0
        for found, first in zip(store.read("ip"), before, strict=True):
            np.testing.assert_array_equal(found, first)


def test_a_store_shows_its_size_and_versions_in_one_line(solver: SolverSpec) -> None:
    store = make(solver)
    store.apply("ip", blobs(1)["ip"])
    assert store.layers == ("conv1", "ip")
    assert repr(store) == "<parameters 55 in 2 layers, versions [0, 1]>"
