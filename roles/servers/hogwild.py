"""Hogwild updates of one model, which several groups write at once without a lock.

The source is Niu et al. 2011; Project Adam uses it. Two rules of this project are broken here on
purpose. Updates of one layer run at the same time in several threads and write the same arrays: a
number may get both updates, or lose one. And the live array is published, not a version of its own.
Readers in any process see it change while they read, also between a forward pass and its backward
pass. Counting does not race: versions and staleness are whole iterations, counted on the event
loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from nets import ParamSpec, SolverSpec
from ops import Array, Backend
from roles.learning.buffers import new_parameter
from roles.learning.parameter_store import ParameterStore
from roles.messages import Blobs


class HogwildStore(ParameterStore):
    """Parameters in host memory that peers can read, always in the same arrays. `race` may run in
    many threads at once.

    `make_ops` makes a separate backend for each of these threads, since a backend runs one
    operation at a time.
    """

    def __init__(
        self,
        params: Mapping[str, tuple[ParamSpec, ...]],
        blobs: Mapping[str, Blobs],
        solver: SolverSpec,
        ops: Backend,
        make_ops: Callable[[], Backend],
    ) -> None:
        super().__init__(params, blobs, solver, ops, in_place=True)
        self.start_from(blobs)
        self._make_ops = make_ops
        self._thread = threading.local()
        self._compile()

    def race(self, layer: str, gradients: Sequence[Array]) -> None:
        """Update a layer while other threads may be writing it. Call `count` afterwards, in one
        thread."""
        if not hasattr(self._thread, "ops"):
            self._thread.ops = self._make_ops()
        self._update(self._thread.ops, {layer: tuple(gradients)})
        self._average_in(self._thread.ops, (layer,))

    def _own(self, array: Array, dtype: Any) -> Array:
        """Copy an array to memory that peers can read."""
        own = new_parameter(self._ops, array.shape, dtype)
        own[...] = array
        return own

    def _compile(self) -> None:
        """Compile the operations of updates on scratch arrays: otherwise several threads would
        compile them at once later."""
        for layer, params in self._params.items():
            for param, blob in zip(params, self._blobs[layer], strict=True):
                w, g = (self._ops.zeros(blob.shape, blob.dtype) for _ in range(2))
                self._solver.update(
                    self._ops,
                    0,
                    param,
                    w,
                    g,
                    self._solver.new_history(self._ops, param, w.dtype),
                    w,
                )
                self._ops.moving_average(w, g, 0.5, out=w)


class Races:
    """Tasks that run next to an actor's inbox. `watched` raises the first error of any of them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"<{len(self._tasks)} races>"

    def start(self, race: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        task = asyncio.create_task(race)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def watched(self) -> None:
        """Wait for an error. If cancelled, cancel the running tasks."""
        try:
            await self._failed
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)
