"""Programs: the kernels of some work, recorded once and run again without Python between them.

After a kernel of milliseconds the processor's caches hold nothing of Python. The calls that lead to
the next kernel then take 0.3 ms and more, ten times as long as in a loop: 16 % of a step of
MobileNet v2 on one thread, 22 % on two (measured once, 2026-11-30).

A kernel's work depends on its block of arguments alone, so a program is a list of kernels and of
copies of their blocks. It may be run as long as all arrays stay where they are. Other work of an
operation, such as a copy by NumPy, is a function in the list (`Recorder.do`), or it spoils the
recording.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ops.cpu.codegen.kernel import Kernel
from ops.cpu.team.workspace import Workspace

Step = Callable[[], object]


class Recorder:
    """Collects the work of one thread."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._age = workspace.age  # scratch memory may move before the work is done
        self._calls: list[tuple[int, ctypes.Structure] | Step] = []
        self._held: list[object] = []
        self._whole = True

    def ran(self, kernel: Kernel, block: ctypes.Structure) -> None:
        """Note that a kernel ran with this block."""
        self._calls.append((kernel.address, type(block).from_buffer_copy(block)))

    def hold(self, kept: object) -> None:
        """Keep what the addresses in blocks refer to: tables of a plan that may be given up."""
        self._held.append(kept)

    def did(self, step: Step) -> None:
        """Note other work, which is done by `step`."""
        self._calls.append(step)

    def spoil(self) -> None:
        """Note work that cannot be repeated."""
        self._whole = False

    def program(self, team: Runner) -> Program | None:
        """The recorded work; None if some of it cannot be repeated."""
        if not self._whole:
            return None
        return Program(team, self._workspace, self._age, self._calls, self._held)


class Runner:
    """What runs a list of kernels."""

    def run_all(self, calls: Any, count: int) -> None:
        """Run `count` kernels. `calls`: the address of their addresses and of their blocks."""
        raise NotImplementedError


class Program:
    """Work that can be done again."""

    def __init__(
        self,
        team: Runner,
        workspace: Workspace,
        age: int,
        calls: Sequence[tuple[int, ctypes.Structure] | Step],
        held: Sequence[object],
    ) -> None:
        self._team = team
        self._workspace = workspace
        self._age = age
        self._held = held
        self._steps: list[Step] = []
        several: list[tuple[int, ctypes.Structure]] = []
        for call in calls:
            if isinstance(call, tuple):
                several.append(call)
            else:
                self._add(several)
                several = []
                self._steps.append(call)
        self._add(several)

    def __repr__(self) -> str:
        return f"<program of {len(self._steps)} steps>"

    @property
    def moved(self) -> bool:
        """Whether scratch memory has moved since, so that the work must be recorded anew."""
        return self._age != self._workspace.age

    def run(self) -> None:
        """Do the work."""
        for step in self._steps:
            step()

    def _add(self, calls: list[tuple[int, ctypes.Structure]]) -> None:
        if not calls:
            return
        blocks = [block for _, block in calls]
        places = [(kernel, ctypes.addressof(block)) for kernel, block in calls]
        table = np.array(places, np.int64)
        run = self._team.run_all
        at = table.ctypes.data
        count = len(calls)

        def step(held: object = (blocks, table)) -> None:
            run(at, count)

        self._steps.append(step)
