"""A recording of the CPU backend has the whole work of an operation, or it has a gap.

Every operation of the table is recorded, its inputs get other numbers, and a replay must then leave
the results of a plain call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from ops import Array, Backend, Recording, get_backend
from tests.contracts.test_backends import (
    WITH_GRADIENT,
    destinations,
    placed,
    prepared,
    upstream,
)
from tests.ops.cases import CASES
from tests.ops.cases.case import Case, Outs
from tests.ops.conftest import LAYOUTS

Work = Callable[[], tuple[Any, ...]]


@pytest.fixture(scope="module")
def backend() -> Backend:
    return get_backend("cpu", threads=2)


def changed(array: Any) -> None:
    """Give an array of real numbers other numbers, in place."""
    if isinstance(array, np.ndarray) and array.dtype == np.float32:
        array[...] = np.flip(array).copy() * np.float32(0.5)


def record(backend: Backend, work: Callable[[], Any]) -> tuple[Any, Recording]:
    """The result of some work, and its recording."""
    found: list[Any] = []
    recording = backend.record([("the operation", lambda: found.append(work()))])
    return found[0], recording


def check(backend: Backend, work: Work, given: Iterable[Any]) -> None:
    work()
    recorded, recording = record(backend, work)
    if recording.gap:
        return
    results = [one for one in recorded if one is not None]
    assert all(isinstance(one, np.ndarray) for one in results), "a replay returns no number"
    for array in given:
        changed(array)
    recording.replay()
    found = [one.copy() for one in results]
    expected = [one for one in work() if one is not None]
    for ours, place, theirs in zip(found, results, expected, strict=True):
        assert backend.place_of(place) == backend.place_of(theirs), "the next result lies elsewhere"
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_replay_does_the_whole_work_of_a_forward_pass(case: Case, backend: Backend) -> None:
    for layout in LAYOUTS:
        _, arrays = prepared(backend, case, np.float32, layout)
        results = case.forward(backend, arrays, Outs())
        for outs in (Outs(), destinations(backend, results, layout, case.no_out)):

            def work(arrays: Any = arrays, outs: Outs = outs) -> tuple[Any, ...]:
                return case.forward(backend, arrays, outs)

            check(backend, work, arrays.values())


@pytest.mark.parametrize("case", WITH_GRADIENT, ids=str)
def test_a_replay_does_the_whole_work_of_a_backward_pass(case: Case, backend: Backend) -> None:
    assert case.backward is not None
    for layout in LAYOUTS:
        _, arrays = prepared(backend, case, np.float32, layout)
        dy = upstream(case, case.forward(backend, arrays, Outs())[0], np.float32)
        dy = placed(backend, dy, layout) if isinstance(dy, np.ndarray) else dy
        results = case.backward(backend, arrays, dy, Outs())
        for outs in (Outs(), destinations(backend, results, layout, case.no_out_back)):

            def work(arrays: Any = arrays, dy: Any = dy, outs: Outs = outs) -> tuple[Any, ...]:
                assert case.backward is not None
                return case.backward(backend, arrays, dy, outs)

            check(backend, work, (*arrays.values(), dy))


def test_scratch_memory_that_moves_during_a_recording_makes_it_outdated() -> None:
    backend = get_backend("cpu")
    rng = np.random.default_rng(0)

    def product(size: int) -> Callable[[], Array]:
        x, w = rng.random((2, size, size), np.float32)
        y = np.empty_like(x)
        return lambda: backend.dense_forward(x, w, None, out=y)

    small, large = product(8), product(2000)
    small()

    for moved in (True, False):
        _, recording = record(backend, lambda: (small(), large()))
        assert not recording.gap
        assert recording.moved == moved


def test_a_gradient_of_factors_without_a_destination_is_made_anew_in_each_call() -> None:
    backend = get_backend("cpu")
    x, dy = (backend.empty((2, 6, 5, 5)) for _ in range(2))
    x[...] = dy[...] = 1
    _, recording = record(
        backend, lambda: backend.scale_backward_weights(x, dy, (2, 6), axis=0, bias=False)
    )
    assert recording.gap


def test_two_threads_record_at_the_same_time() -> None:
    backend = get_backend("cpu")
    x, y, z, other = (np.full((4, 4), value, np.float32) for value in (-1, 0, 0, 0))
    begun, ended = threading.Event(), threading.Event()
    recordings = []

    def work() -> None:
        backend.relu_forward(x, 0.5, out=y)
        begun.set()
        assert ended.wait(60)
        backend.relu_forward(y, 0.5, out=z)

    thread = threading.Thread(target=lambda: recordings.append(record(backend, work)[1]))
    thread.start()
    assert begun.wait(60)
    alone = record(backend, lambda: backend.relu_forward(x, 0.5, out=other))[1]
    recordings.append(alone)
    ended.set()
    thread.join()

    for array in (y, z, other):
        array[...] = 0
    for recording in recordings:
        assert not recording.gap
        recording.replay()
    assert (other == -0.5).all()
    assert (y == -0.5).all()
    assert (z == -0.25).all()
