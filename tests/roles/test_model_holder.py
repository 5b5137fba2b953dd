"""A model's state is handed over, changed, and put back. A state that does not fit is refused and
changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ops
from nets import ParamSpec, load_solver
from nets.schema import caffe_pb2 as caffe
from roles.learning.model_holder import ModelHolder
from roles.learning.parameter_store import ParameterStore
from roles.messages import Done, GetState, Rates, SetState, State
from runtime import Envelope, Message
from runtime.messages.message import Refusal

SOLVER = 'net: "unused" base_lr: 0.1 momentum: 0.9 lr_policy: "fixed" max_iter: 100'


class Holder(ModelHolder, overrides=("compute", "reply")):
    """A model holder that keeps its answers."""

    def __init__(self, folder: Path, *, in_place: bool = False) -> None:
        (folder / "solver.prototxt").write_text(SOLVER)
        blobs = {"ip": (np.arange(4, dtype=np.float32), np.ones(2, np.float32))}
        specs = {
            "ip": tuple(
                ParamSpec("ip", n, "w", blob.shape, caffe.FillerParameter(), 1.0, 1.0)
                for n, blob in enumerate(blobs["ip"])
            )
        }
        solver = load_solver(folder / "solver.prototxt")
        numpy_ops = ops.get_backend("numpy")
        self._store = ParameterStore(specs, blobs, solver, numpy_ops, in_place=in_place)
        self.said: list[Any] = []

    async def compute(self, label: str, work: Any, *args: Any) -> Any:
        return work(*args)

    async def reply(self, envelope: Envelope, message: Message, **options: Any) -> None:
        self.said.append(message)

    async def asked(self, message: Message) -> Any:
        asked = Envelope(message, 1, "asker", 1, "holder", "asker")
        await getattr(self, self.handlers[type(message)])(message, asked)
        return self.said[-1]

    def trained(self) -> None:
        self._store.apply("ip", (np.ones(4, np.float32), np.ones(2, np.float32)))


@pytest.mark.parametrize("in_place", [False, True])
async def test_a_state_that_is_put_back_is_the_state_that_was_handed_over(
    tmp_path: Path, in_place: bool
) -> None:
    holder = Holder(tmp_path, in_place=in_place)
    holder.trained()
    state = await holder.asked(GetState())
    assert isinstance(state, State)
    kept = [array.copy() for array in state.arrays]
    held = holder._store.read("ip")
    holder.trained()
    assert isinstance(
        await holder.asked(SetState(names=state.names, arrays=tuple(kept), version=1)), Done
    )
    again = await holder.asked(GetState())
    assert (again.names, again.version, state.version) == (state.names, 1, 1)
    for array, expected in zip(again.arrays, kept, strict=True):
        np.testing.assert_array_equal(array, expected)
    if in_place:  # a holder that computes in place goes on with the given arrays
        assert all(now is then for now, then in zip(holder._store.read("ip"), held, strict=True))


@pytest.mark.parametrize("names", [("ip.0",), ("ip.0", "ip.1")])
async def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    holder = Holder(tmp_path, in_place=True)
    before = [array.copy() for array in holder._store.read("ip")]
    said = await holder.asked(SetState(names=names, arrays=(np.zeros(3, np.float32),), version=7))
    assert isinstance(said, Refusal)
    for array, expected in zip(holder._store.read("ip"), before, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert holder._store.versions == {"ip": 0}


async def test_the_last_rates_received_are_used(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    assert isinstance(await holder.asked(Rates(base_lr=0.0, momentum=0.0, batch=1)), Done)
    before = holder._store.read("ip")[0].copy()
    holder.trained()
    np.testing.assert_array_equal(holder._store.read("ip")[0], before)
