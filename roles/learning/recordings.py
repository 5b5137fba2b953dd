"""The recordings of a net's passes on a device: one for each size of batch, while its memory stays
where it is."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Generic, TypeGuard, TypeVar

import numpy as np

from nets import Net, PassResults
from ops import Array, OpsError, Recording
from roles.learning.job import Job
from roles.learning.micro_batches import WorkerNet
from roles.learning.step_numbers import StepNumbers

PLAIN = "plain"
REPLAY = "replay"
GRAPH = "graph"
FIRST = 2  # plain passes of each size before one is recorded
MOST = 4  # sizes of batches that are recorded at a time
# The greatest difference, as a part of the greatest change, where cuDNN's sums differ from run to
# run. Elsewhere the bits must agree.
TOLERANCE = 1e-2
_log = logging.getLogger("roles")


def replays(net: WorkerNet, job: Job) -> TypeGuard[Net]:
    """Whether the passes of this net are to be recorded and replayed."""
    return job.gpu_step != PLAIN and net.ops.records and type(net) is Net


def kept_plain(job: Job) -> str:
    """The reason why a pass of this job cannot be recorded; "" if there is none."""
    return f"a step has {job.passes} passes (iter_size)" if job.passes > 1 else ""


@dataclass(eq=False)
class Recorded:
    """The recorded pass of one size of batch, in one part or several. It holds while its memory
    stays where it was: the block of the net's arrays, and `state`, the arrays that outlive the
    pass. `left`: the results of the pass, which replays overwrite."""

    numbers: StepNumbers
    block: Array | None
    state: Sequence[Array]
    parts: list[Recording] = field(default_factory=list)
    left: PassResults = field(default_factory=PassResults)
    tried: bool = False

    def moved(self, net: Net, state: Sequence[Array]) -> bool:
        """Whether memory that outlives the pass has moved. `state`: its arrays now."""
        return (
            any(part.moved for part in self.parts)
            or net.memory is not self.block
            or len(state) != len(self.state)
            or not all(map(is_, state, self.state))
        )


R = TypeVar("R", bound=Recorded)


class Recordings(Generic[R]):
    """The recordings of one net. `refused`: the reason why no pass is replayed; "" if some are.
    With `graph`, recordings become graphs if the driver can make them."""

    def __init__(self, net: Net, *, graph: bool = False) -> None:
        self._net = net
        self.graph = graph
        self.by_size: dict[tuple[int, int], R] = {}
        self._plain: Counter[tuple[int, int]] = Counter()  # plain passes, by size
        self._told = False  # whether the log has the warning about many sizes
        self.refused = ""
        net.hold_inputs()

    def __repr__(self) -> str:
        return f"<recordings of {len(self.by_size)} sizes {self.refused}>"

    def of_pass(self, state: Sequence[Array]) -> R | None:
        """The recording of the present pass's size. None if there is none, or if memory has moved:
        the recording is then dropped."""
        size = self._net.size_of_pass
        found = self.by_size.get(size)
        if found is not None and found.moved(self._net, state):
            self._drop(size)
            return None
        if found is not None:
            self.by_size[size] = self.by_size.pop(size)  # the last one is the one used last
        return found

    def due(self) -> bool:
        """Whether the present pass, which has no recording, is to be recorded. Counts it as a plain
        pass if not."""
        size = self._net.size_of_pass
        if self._plain[size] < FIRST:
            self._plain[size] += 1
            return False
        return True

    def keep(self, made: R) -> None:
        """Keep the recording of the present pass. The one that was not used for the longest time is
        dropped if there are MOST."""
        if len(self.by_size) == MOST:
            oldest, recorded = next(iter(self.by_size.items()))
            self._drop(oldest)
            if not recorded.tried and not self._told:
                self._told = True
                _log.warning(
                    "train.gpu_step: more than %d sizes of batch take turns: steps of some sizes "
                    "are computed plainly",
                    MOST,
                )
        self.by_size[self._net.size_of_pass] = made

    def one_call(self, recording: Recording) -> Recording:
        """The graph of these calls, if it is wanted and can be made."""
        if not self.graph:
            return recording
        try:
            return self._net.ops.graph(recording)
        except OpsError as error:
            self._refuse_graphs(str(error))
            return recording

    def trust(self, made: R) -> None:
        """Replay this recording from now on: it has left what a plain pass leaves."""
        made.tried = True
        calls = sum(len(part.calls) for part in made.parts)
        rows, _ = self._net.size_of_pass
        _log.info("train.gpu_step: passes of %d rows are replayed, calls: %d", rows, calls)

    def distrust(self, found: str) -> None:
        """Drop the recording of the present pass, which has left something else."""
        if self.graph:
            self._drop(self._net.size_of_pass)
            self._refuse_graphs(f"a graph leaves {found}")
        else:
            self.refuse(f"a replay leaves {found}")

    def _drop(self, size: tuple[int, int]) -> None:
        """Forget a recording. The device may not have finished its last replay."""
        self._net.ops.synchronize()
        del self.by_size[size]
        self._plain[size] = 0

    def _refuse_graphs(self, why: str) -> None:
        self.graph = False
        _log.warning("train.gpu_step: steps are replayed call by call, since %s", why)

    def refuse(self, why: str) -> None:
        """Replay no pass from now on. The log gives the reason."""
        self.refused = why
        for size in list(self.by_size):
            self._drop(size)
        _log.warning("train.gpu_step: steps are computed plainly, since %s", why)


def same(found: Array, expected: Array, before: Array | float, exact: bool) -> bool:
    """Whether a replay has left the array of a plain pass, which was `before`: the same bits, or
    nearly the same change."""
    if exact:
        return np.array_equal(found, expected, equal_nan=True)
    change = np.abs(expected - before).max(initial=0)
    return bool(np.abs(found - expected).max(initial=0) <= TOLERANCE * change)
