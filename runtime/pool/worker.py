"""The program of a pool: workers that call one function with the items that they are asked, and an
idle lead, whose end ends the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from runtime.actors.actor import Actor
from runtime.errors import LaunchError, Unsendable
from runtime.memory.arena import IN_PLACE_FROM
from runtime.messages.message import Array, Envelope, Message, message
from runtime.messages.plain_values import Value, packed, unpacked
from runtime.pool.function_place import function_at
from runtime.user_code import told

# of a function: what also ends a program, in a thread
ERRORS = (Exception, SystemExit, KeyboardInterrupt)


@message
class Call(Message):
    """Call the function with this item, a plain value in the form of Value. Answered with
    Outcome."""

    tree: Array
    arrays: tuple[Array, ...]


@message
class Outcome(Message):
    """The answer to Call: the function's result, in the form of Value, or its `error` in words."""

    error: str
    tree: Array
    arrays: tuple[Array, ...]


@message
class GetAlive(Message):
    """Answered at once: the worker lives, perhaps again."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Options of a worker: the place of its function (`function_place`), and the number of deaths
    that it may survive."""

    module: str
    name: str
    restarts: int = 0
    spread: ClassVar[bool] = True  # workers are shared out over the machines


class Worker(Actor):
    """Calls the function with one item at a time, in its compute thread."""

    Options = WorkerOptions

    def __init__(self, options: WorkerOptions) -> None:
        self._module = options.module
        self._name = options.name

    async def on_start(self) -> None:
        """Import the function. Raises LaunchError if it is not there."""
        try:
            self._function = await self.compute("import", function_at, self._module, self._name)
        except ERRORS as error:
            place = f"function '{self._name}' of {self._module}"
            raise LaunchError(f"{place} cannot be imported here: {told(error)}") from error

    async def on_call(self, message: Call, envelope: Envelope) -> Outcome:
        """Call the function with an item."""
        return await self.compute(self._name, self._called, message)

    async def on_get_alive(self, message: GetAlive, envelope: Envelope) -> bool:
        """Answer that the worker lives."""
        return True

    def _called(self, message: Call) -> Outcome:
        try:
            item = unpacked(Value(tree=message.tree, arrays=message.arrays))
            result = self._function(item)
        except ERRORS as error:
            self.log.exception("%s failed", self._name)
            return _failed(told(error))
        try:
            value = packed(result, mover(self.memory))
        except Unsendable as error:
            return _failed(f"its result cannot be sent: {error.text}")
        return Outcome(error="", tree=value.tree, arrays=value.arrays)


class Lead(Actor):
    """Does nothing until it is asked to end."""

    async def run(self) -> None:
        """Wait for the end."""
        await asyncio.Event().wait()


def _failed(error: str) -> Outcome:
    return Outcome(error=error, tree=np.empty(0, np.uint8), arrays=())


def mover(memory: Callable[[int], Array]) -> Callable[[Array], Array]:
    """Return a function that copies large arrays into memory that peers on this host read in place.
    `memory(size)` gives `size` bytes of it."""

    def moved(array: Array) -> Array:
        if array.nbytes < IN_PLACE_FROM:
            return array
        copy = memory(array.nbytes).view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        return copy

    return moved


ROLES: dict[str, Any] = {"worker": Worker, "lead": Lead}
