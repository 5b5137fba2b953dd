"""The one thread pool of a process: `size` threads that run one kernel together, each its own share.

A kernel gets its number and the size of the team and works out its share from them, so a share depends on nothing
else and results repeat to the last bit. Between kernels the threads wait in machine code without the GIL: handing work
over costs under 1 us, where Python locks cost 60. After `PATIENCE` turns a thread goes to sleep until it is needed.
What never lives here: how work is divided.
"""

from __future__ import annotations

import ctypes
import threading

import numpy as np

from ops.cpu.compiled import addresses
from ops.cpu.handover import AWAKE, FIELDS, build_handover
from ops.cpu.kernel import CALL, Kernel

LINE = 16  # int64 numbers apart: threads do not share the lines they write


class Team:
    """`size` threads, the caller's among them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._turn = threading.Lock()
        self._locks = [threading.Lock() for _ in range(1, size)]
        self._state = np.zeros((FIELDS + size) * LINE, np.int64)
        if size == 1:
            return
        at = addresses("handover", build_handover)
        self._post = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(at("post"))
        self._finish = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(at("finish"))
        self._serve = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(at("serve"))
        for number, lock in enumerate(self._locks, 1):
            lock.acquire()
            self._state[(FIELDS + number) * LINE] = AWAKE
            threading.Thread(target=self._member, args=(number, lock), name=f"kernels-{number}", daemon=True).start()

    def __repr__(self) -> str:
        return f"<Team of {self.size}>"

    def run(self, kernel: Kernel, block: ctypes.Structure) -> None:
        """Run the kernel on every thread with this block of arguments and wait for all."""
        where, at = kernel.address, ctypes.addressof(block)
        if self.size == 1:
            CALL(where)(0, 1, at)
            return
        with self._turn:
            state = self._state.ctypes.data
            sleepers = self._post(state, self.size, where, at)
            if sleepers:
                for number, lock in enumerate(self._locks, 1):
                    if sleepers >> number & 1:
                        lock.release()
                self._finish(state, self.size, where, at)

    def _member(self, number: int, lock: threading.Lock) -> None:
        while True:
            self._serve(self._state.ctypes.data, number, self.size)  # returns when it has fallen asleep
            lock.acquire()
