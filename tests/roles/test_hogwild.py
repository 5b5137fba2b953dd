"""Hogwild: the updates of two groups run at the same time on one set of arrays, and these live
arrays are published."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from nets import SolverSpec
from roles.learning.parameter_store import ParameterStore
from roles.messages import LayerModel, Updated
from roles.servers.hogwild import Races
from tests.roles.conv_model_alone import PATIENCE


class Meeting:
    """Updates that wait for one another between their first blob and their second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, parties: int) -> None:
        self.barrier = threading.Barrier(parties, timeout=PATIENCE)
        self.threads: set[int] = set()
        update = SolverSpec.update

        def met(solver: SolverSpec, ops: Any, iteration: int, param: Any, *arrays: Any) -> Any:
            found = update(solver, ops, iteration, param, *arrays)
            if param.index == 0:
                self.threads.add(threading.get_ident())
                self.barrier.wait()
            return found

        monkeypatch.setattr(SolverSpec, "update", met)


def ones(model: LayerModel, value: float = 1.0) -> tuple[Any, ...]:
    return tuple(np.full(blob.shape, value, np.float32) for blob in model.blobs)


@pytest.mark.parametrize("layers", [("conv1", "conv1"), ("conv1", "conv2")])
async def test_updates_of_two_groups_are_in_progress_at_once(
    make_model: Any, monkeypatch: pytest.MonkeyPatch, layers: tuple[str, str]
) -> None:
    model = await make_model(hogwild=True, layers=sorted(set(layers)))
    read = [await model.pulled(group, group, layer) for group, layer in enumerate(layers)]
    before = [tuple(blob.copy() for blob in one.blobs) for one in read]
    meeting = Meeting(monkeypatch, 2)  # no update passes before both have written their first blob
    for group, (layer, one) in enumerate(zip(layers, read, strict=True)):
        await model.given(group, group, layer, ones(one, 1.0 + group))
    await model.raced()
    assert len(meeting.threads) == 2
    # the model is still in the arrays that were published first
    for (weights, bias), one in zip(before, read, strict=True):
        assert not np.array_equal(one.blobs[0], weights)
        assert not np.array_equal(one.blobs[1], bias)


async def test_racing_updates_are_counted_one_after_the_other(
    make_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await make_model(hogwild=True, layers=["conv1"])
    read = [await model.pulled(group, group, "conv1") for group in range(3)]
    Meeting(monkeypatch, 3)
    for group, one in enumerate(read):
        await model.given(group, group, "conv1", ones(one))
    updates = [said for said in await model.raced() if isinstance(said, Updated)]
    assert [said.version for said in updates] == [1, 2, 3]
    assert [said.staleness for said in updates] == [0, 1, 2]  # all three had read version 0
    assert (await model.pulled(0, 3, "conv1")).version == 3


async def test_a_hogwild_server_publishes_its_live_array_and_any_other_server_a_version(
    make_model: Any,
) -> None:
    for hogwild in (True, False):
        model = await make_model(hogwild=hogwild, layers=["conv1"])
        before = await model.pulled(0, 0, "conv1")
        start = before.blobs[0].copy()
        await model.given(0, 0, "conv1", ones(before))
        await model.raced()
        after = await model.pulled(0, 1, "conv1")
        assert np.shares_memory(before.blobs[0], after.blobs[0]) is hogwild
        assert np.array_equal(before.blobs[0], start) is not hogwild
        assert (before.version, after.version) == (0, 1)


async def test_without_interference_a_hogwild_update_is_the_update_of_any_other_server(
    make_model: Any,
) -> None:
    found = []
    for hogwild in (True, False):
        model = await make_model(hogwild=hogwild)
        for number in range(3):
            for layer in ("conv1", "conv2"):
                one = await model.pulled(0, number, layer)
                await model.given(0, number, layer, ones(one, 0.1 * (number + 1)))
            await model.raced()
        found.append(model._store.state())
    assert found[0].keys() == found[1].keys()
    assert all(np.array_equal(found[0][name], array) for name, array in found[1].items())


async def test_a_gradient_that_comes_twice_is_refused_while_the_first_still_races(
    make_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await make_model(hogwild=True, layers=["conv1"])
    one = await model.pulled(0, 0, "conv1")
    meeting = Meeting(monkeypatch, 2)
    await model.given(0, 0, "conv1", ones(one))
    with pytest.raises(Exception, match=r"illegal: .* is 'complete'"):
        await model.given(0, 0, "conv1", ones(one))
    await asyncio.to_thread(meeting.barrier.wait)
    assert [type(said) for said in await model.raced()] == [LayerModel, Updated]


async def test_an_update_that_fails_outside_the_inbox_ends_the_actors_work(
    make_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(store: ParameterStore, *_: Any) -> None:
        raise ArithmeticError("no such update")

    model = await make_model(hogwild=True, layers=["conv1"])
    one = await model.pulled(0, 0, "conv1")
    monkeypatch.setattr(ParameterStore, "_update", broken)
    await model.given(0, 0, "conv1", ones(one))
    with pytest.raises(ArithmeticError, match="no such update"):
        await asyncio.wait_for(model.run(), PATIENCE)


async def test_races_under_way_end_with_the_actor() -> None:
    races = Races()
    never = asyncio.Event()
    ended = []

    async def endless() -> None:
        try:
            await never.wait()
        finally:
            ended.append(True)

    for _ in range(2):
        races.start(endless())
    watch = asyncio.create_task(races.watched())
    await asyncio.sleep(0)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    assert ended == [True, True]
    assert repr(races) == "<0 races>"
