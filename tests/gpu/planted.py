"""`python -m tests.gpu.planted NAME`, on the stand-in: training steps in their right form and with a
planted fault, in the order of the calls and in eleven drawn orders.

Prints a JSON object: for each form, the seeds with which steps were not replayed in the way that
was asked for, or left other numbers than plain steps.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy
import fake_cuda
import numpy as np

from nets import Net, PrototxtError
from ops.cuda.copies.transfers import Sender, Transfers
from ops.cuda.graphs import Graphs
from roles.learning import replayed_pass
from roles.learning.parameter_store import ParameterStore
from roles.learning.recordings import Recorded
from roles.learning.replayed_step import ReplayedStep
from tests.gpu.replays import Losses, StepInParts, Trained

SEEDS = range(12)
State = dict[str, np.ndarray[Any, Any]]


class Fault(NamedTuple):
    """A fault: the kind of its steps, the way in which they are replayed, and the function that
    plants it."""

    kind: type[ReplayedStep | StepInParts]
    how: str
    plant: Callable[[], None]


FAULTS: dict[str, Fault] = {}


def fault(kind: type[ReplayedStep | StepInParts], how: str) -> Callable[..., Callable[[], None]]:
    """Decorator: the function plants a fault."""

    def declared(plant: Callable[[], None]) -> Callable[[], None]:
        FAULTS[plant.__name__] = Fault(kind, how, plant)
        return plant

    return declared


def other_stream() -> Any:
    """A stream that waits for no other one."""
    return cupy.cuda.Stream(non_blocking=True)


@fault(ReplayedStep, "graph")
def numbers_are_written_before_the_device_has_read_the_last_ones() -> None:
    Sender.room = lambda self: self._turn  # type: ignore[method-assign]


@fault(ReplayedStep, "replay")
def scores_are_read_without_a_wait() -> None:
    Transfers.wait = lambda self, event: None  # type: ignore[method-assign]


@fault(ReplayedStep, "graph")
def a_graph_is_launched_over_memory_that_has_moved() -> None:
    Recorded.moved = lambda self, net, state: False  # type: ignore[method-assign]


@fault(ReplayedStep, "replay")
def calls_are_replayed_over_memory_that_has_moved() -> None:
    Recorded.moved = lambda self, net, state: False  # type: ignore[method-assign]


@fault(StepInParts, "graph")
def a_part_is_launched_over_memory_that_has_moved() -> None:
    Recorded.moved = lambda self, net, state: False  # type: ignore[method-assign]


@fault(ReplayedStep, "graph")
def the_rate_is_an_argument_of_a_captured_kernel() -> None:
    ParameterStore.given = property(  # type: ignore[assignment]
        lambda self: None, lambda self, given: None
    )


@fault(StepInParts, "replay")
def the_key_of_dropout_is_an_argument_of_a_recorded_kernel() -> None:
    Net.read_numbers = lambda self, numbers: None  # type: ignore[method-assign]


@fault(ReplayedStep, "graph")
def a_graph_is_launched_in_another_stream() -> None:
    made, stream = Graphs.of, other_stream()

    def elsewhere(self: Graphs, recording: Any) -> Any:
        with stream:
            return made(self, recording)

    Graphs.of = elsewhere  # type: ignore[method-assign]


@fault(StepInParts, "graph")
def arrays_that_leave_are_copied_in_another_stream() -> None:
    made, stream = replayed_pass._copies, other_stream()

    def elsewhere(arrays: Any) -> Any:
        with stream:
            return made(arrays)

    replayed_pass._copies = elsewhere


@fault(ReplayedStep, "replay")
def images_and_numbers_arrive_in_another_stream() -> None:
    stream = other_stream()

    def elsewhere(self: Transfers, into: int, host: int, size: int) -> None:
        kind = cupy.cuda.runtime.memcpyHostToDevice
        cupy.cuda.runtime.memcpyAsync(into, host, size, kind, stream.ptr)

    Transfers.copy_to_device = elsewhere  # type: ignore[method-assign]


def trained(kind: type[ReplayedStep | StepInParts], how: str) -> tuple[Losses, State, bool]:
    """Train 16 steps, with memory that moves after 8. Returns the losses, the model, and whether
    steps are replayed in this way at the end."""
    one = Trained(how, kind=kind)
    found = one.train(range(8))
    old = one.store._blobs["conv"][0]
    one.store._blobs["conv"] = (old.copy(), *one.store._blobs["conv"][1:])
    old[...] = np.nan
    room = one.net._block.array
    assert room is not None
    one.net._block.grow(room.size + 1)
    room[...] = 255  # NaN
    found += one.unread(range(8, 16))
    return found, one.store.state(), one.as_wanted


def wrong(kind: type[ReplayedStep | StepInParts], how: str, right: tuple[Losses, State]) -> bool:
    """Whether steps leave other numbers than `right`, or are not replayed in this way."""
    try:
        losses, state, as_wanted = trained(kind, how)
    except PrototxtError:  # a label that is none
        return True
    same = all(np.array_equal(state[name], of, equal_nan=True) for name, of in right[1].items())
    return not (as_wanted and losses == right[0] and same)


def main(name: str) -> None:
    """Print the seeds with which the right form and the planted fault were found."""
    logging.disable()
    kind, how, plant = FAULTS[name]
    losses, state, _ = trained(kind, "plain")
    found: dict[str, list[int]] = {"right": [], "planted": []}
    for form, seeds in found.items():
        if form == "planted":
            plant()
        for seed in SEEDS:
            fake_cuda.seed(seed)
            if wrong(kind, how, (losses, state)):
                seeds.append(seed)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
