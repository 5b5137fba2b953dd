"""The exponential moving average of parameters in a store: its formula, its readers, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nets import NetError, SolverExtras, SolverSpec, WeightAverage, load_solver
from ops import Array, get_backend
from roles.learning.parameter_store import ParameterStore
from tests.roles.test_parameter_store import SHAPES, SOLVER, blobs, params


@pytest.fixture
def solver(tmp_path: Path) -> SolverSpec:
    path = tmp_path / "solver.prototxt"
    path.write_text(SOLVER)
    return replace(load_solver(path), extras=SolverExtras(average=WeightAverage(0.75)))


def make(solver: SolverSpec, seed: int = 0, **options: bool) -> ParameterStore:
    return ParameterStore(params(), blobs(seed), solver, get_backend("numpy"), **options)


def stepped(store: ParameterStore, seeds: range) -> list[dict[str, tuple[Array, ...]]]:
    """The parameters after each update."""
    found = []
    for seed in seeds:
        store.apply_all(blobs(seed))
        found.append({layer: tuple(a.copy() for a in store.read(layer)) for layer in SHAPES})
    return found


@pytest.mark.parametrize("in_place", [False, True])
def test_tests_read_the_average_and_training_reads_the_parameters(
    solver: SolverSpec, in_place: bool
) -> None:
    store = make(solver, in_place=in_place)
    for first, read in zip(blobs(0)["ip"], store.read("ip", "TEST"), strict=True):
        np.testing.assert_array_equal(read, first)
    passed = stepped(store, range(1, 5))
    for layer in SHAPES:
        for at, read in enumerate(store.read(layer, "TEST 1")):
            expected = passed[0][layer][at].astype(np.float64)
            for w in passed[1:]:
                expected = 0.75 * expected + 0.25 * w[layer][at]
            np.testing.assert_allclose(read, expected, rtol=1e-5, atol=1e-6)
        for at, read in enumerate(store.read(layer)):
            np.testing.assert_array_equal(read, passed[-1][layer][at])


def test_a_checkpoint_has_the_averages_as_weights_and_training_goes_on_from_the_parameters(
    solver: SolverSpec,
) -> None:
    store = make(solver)
    stepped(store, range(1, 4))
    state = store.state()
    for layer in SHAPES:
        for at in range(2):
            np.testing.assert_array_equal(state[f"{layer}.{at}"], store.read(layer, "TEST")[at])
            np.testing.assert_array_equal(state[f"{layer}.{at}.trained"], store.read(layer)[at])
    other = make(solver, seed=9)
    other.restore(state, 3)
    for each in (store, other):
        stepped(each, range(4, 7))
    assert_same(store.state(), other.state())


def assert_same(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_without_an_average_a_run_goes_on_from_the_trained_parameters_of_such_a_checkpoint(
    solver: SolverSpec,
) -> None:
    store = make(solver)
    stepped(store, range(1, 4))
    plain = make(replace(solver, extras=SolverExtras()), seed=9)
    plain.restore(store.state(), 3)
    for layer in SHAPES:
        for mine, right in zip(plain.read(layer, "TEST"), store.read(layer), strict=True):
            np.testing.assert_array_equal(mine, right)


def test_averages_begin_with_the_parameters_of_a_checkpoint_that_has_none(
    solver: SolverSpec,
) -> None:
    plain = make(replace(solver, extras=SolverExtras()))
    stepped(plain, range(1, 4))
    store = make(solver, seed=9)
    store.restore(plain.state(), 3)
    for layer in SHAPES:
        for mine, right in zip(store.read(layer, "TEST"), plain.read(layer), strict=True):
            np.testing.assert_array_equal(mine, right)


def test_a_misshapen_trained_parameter_is_named_and_nothing_is_taken(solver: SolverSpec) -> None:
    store = make(solver)
    state = {**make(solver, seed=5).state(), "ip.1.trained": np.zeros(5, np.float32)}
    with pytest.raises(NetError, match=r"'ip.1.trained': found \(5,\), expected shape \(4,\)"):
        store.restore(state, 3)
    for found, first in zip(store.read("ip"), blobs(0)["ip"], strict=True):
        np.testing.assert_array_equal(found, first)


def test_an_average_that_is_published_does_not_change_with_later_updates(
    solver: SolverSpec,
) -> None:
    store = make(solver)
    stepped(store, range(1, 3))
    shown = store.averaged("ip")
    assert shown is not None
    kept = [array.copy() for array in shown]
    stepped(store, range(3, 5))
    for array, copy in zip(shown, kept, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_ramp_forgets_the_first_weights_sooner() -> None:
    ramp = WeightAverage(0.99, ramp=True)
    assert [ramp.decay_at(n, 10) for n in (0, 1, 9, 100_000)] == [0.0, 2 / 11, 10 / 19, 0.99]
    assert [WeightAverage(0.99).decay_at(n, 10) for n in (0, 1)] == [0.0, 0.99]


def test_the_decay_rises_with_a_power_of_the_passed_share_of_the_run() -> None:
    rising = WeightAverage(0.5, every=2, power=3.0)
    found = [rising.decay_at(n, 8) for n in range(8)]
    assert found == [None, 0.0, None, 0.5 * 0.5**3, None, 0.5 * 0.75**3, None, 0.5]
    assert rising.decay_at(99, 8) == 0.5  # a run that is resumed for longer


@pytest.mark.parametrize("in_place", [False, True])
def test_with_a_lookahead_training_goes_on_from_the_average_after_every_few_updates(
    solver: SolverSpec, in_place: bool
) -> None:
    """Zhang et al. 2019: the slow weights s become s + (1 - decay) (w - s), and w becomes s."""
    average = WeightAverage(0.75, every=3, lookahead=True)
    plain = make(replace(solver, extras=SolverExtras()))
    store = make(replace(solver, extras=SolverExtras(average=average)), in_place=in_place)
    first = stepped(store, range(1, 4))[-1]["ip"][0]
    expected = 0.75 * blobs(0)["ip"][0] + 0.25 * stepped(plain, range(1, 4))[-1]["ip"][0]
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6)
    slow = store.read("ip")[0].astype(np.float64)
    before = stepped(store, range(4, 6))[-1]["ip"][0]
    assert np.abs(before - store.read("ip", "TEST")[0]).max() > 0.01  # not averaged in between
    np.testing.assert_array_equal(store.read("ip", "TEST")[0], slow.astype(np.float32))
    state = store.state()
    fast = make(replace(solver, extras=SolverExtras()))
    fast.restore(state, 5)
    ((fast_w, *_),) = (step["ip"] for step in stepped(fast, range(6, 7)))
    stepped(store, range(6, 7))
    expected = 0.75 * slow + 0.25 * fast_w
    np.testing.assert_allclose(store.read("ip")[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(store.read("ip", "TEST")[0], store.read("ip")[0])
