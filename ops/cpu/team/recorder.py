"""The recorder of a team's work: kernels that a replay runs again without Python between them.

After a kernel of milliseconds the processor's caches hold nothing of Python. The calls that lead to
the next kernel then take 0.3 ms and more, ten times as long as in a loop: 16 % of a step of
MobileNet v2 on one thread, 22 % on two (measured once, 2026-11-30).

A kernel's work depends on its block of arguments alone, so a recording is a list of kernels and of
copies of their blocks. It holds as long as all arrays stay where they are. Other work of an
operation, such as a copy by NumPy, is a function in the list (`Team.do`), or it spoils the
recording (`Team.spoil`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np

from ops.cpu.codegen.kernel import Kernel
from ops.cpu.team.workspace import Workspace
from ops.recording import Recording

KernelCall = tuple[int, ctypes.Structure]  # the address of a kernel, its block
Call = Callable[[], object]


class Recorder:
    """Collects the work of one thread. `whole`: whether a replay can do all of it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._age = workspace.age  # scratch memory may move before the work is done
        self._calls: list[KernelCall | Call] = []
        self._held: list[object] = []
        self.whole = True

    def __repr__(self) -> str:
        return f"<recorder of {len(self._calls)} calls, whole={self.whole}>"

    def ran(self, kernel: Kernel, block: ctypes.Structure) -> None:
        """Note that a kernel ran with this block."""
        self._calls.append((kernel.address, type(block).from_buffer_copy(block)))

    def hold(self, kept: object) -> None:
        """Keep what the addresses in blocks refer to: tables of a plan that may be given up."""
        self._held.append(kept)

    def did(self, call: Call) -> None:
        """Note other work, which `call` does."""
        self._calls.append(call)

    def recording(self, run_all: Callable[[int, int], object], gap: str) -> Recording:
        """The recorded work. `run_all`: see `Team.run_all`; `gap`: see `Recording`."""
        calls: list[Call] = []
        kernels: list[KernelCall] = []
        for call in self._calls:
            if isinstance(call, tuple):
                kernels.append(call)
                continue
            calls += [*self._together(run_all, kernels), call]
            kernels = []
        calls += self._together(run_all, kernels)
        workspace, age = self._workspace, self._age
        return Recording(calls, self._held, gap, lambda: workspace.age != age)

    def _together(
        self, run_all: Callable[[int, int], object], kernels: list[KernelCall]
    ) -> list[Call]:
        """One call that runs kernels one after the other; none if there are none."""
        if not kernels:
            return []
        table = np.array([(at, ctypes.addressof(block)) for at, block in kernels], np.int64)
        self._held += [table, kernels]
        return [partial(run_all, table.ctypes.data, len(kernels))]
