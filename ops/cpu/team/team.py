"""The one thread pool of a process: `size` threads that run one kernel together, each its own
share.

A kernel gets its number and the size of the team and works out its share from these two alone, so
results repeat to the last bit, whoever runs a share: the caller runs the shares that other threads
have not begun. Between kernels the threads wait in machine code without the GIL:
handing work over costs under 1 us, Python's locks 60. After `PATIENCE` turns a thread sleeps until
it is needed. Linux may wake it on the core of the thread that needs it and leave it there for tens
of milliseconds, so it then moves to another core (a kernel of 0.2 ms took 0.6 to 1.2 before).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property, partial

import numpy as np

from ops.cpu.codegen.compiled import addresses
from ops.cpu.codegen.kernel import CALL, Kernel
from ops.cpu.codegen.wanted import load, wanted
from ops.cpu.team.handover import AWAKE, FIELDS, LEAST_ALONE, PENALTY, WAKE, build_handover
from ops.cpu.team.recorder import Recorder
from ops.errors import Array

LINE = 16  # int64 numbers between two threads' states, so that they share no cache line
CORE = 2  # index in a thread's line of the core on which it woke; the two before are `handover`'s
_core = (
    getattr(ctypes.PyDLL(None), "sched_getcpu", None) if hasattr(os, "sched_setaffinity") else None
)


class Team:
    """`size` threads, the caller's among them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._turn = threading.Lock()
        self._locks = [threading.Lock() for _ in range(1, size)]
        self._state = np.zeros((FIELDS + size) * LINE, np.int64)
        self._state[FIELDS * LINE + PENALTY] = LEAST_ALONE
        self._recorders: dict[int, Recorder] = {}  # of the threads that record, by their number
        if size == 1:
            return
        at = addresses("handover", build_handover)
        self._post = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(at("post"))
        self._finish = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(at("finish"))
        self._serve = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(at("serve"))
        ended: list[bool] = []
        for number, lock in enumerate(self._locks, 1):
            lock.acquire()
            self._state[(FIELDS + number) * LINE] = AWAKE
            of = (self._serve, self._state, number, size, lock, ended)
            threading.Thread(target=_member, args=of, name=f"kernels-{number}", daemon=True).start()
        weakref.finalize(self, _end, self._locks, ended).atexit = False

    def __repr__(self) -> str:
        return f"<Team of {self.size}>"

    def run(self, kernel: Kernel, block: ctypes.Structure) -> None:
        """Run the kernel on every thread with this block of arguments and wait for all."""
        if wanted:
            load()
        if recorder := self._recorder:
            recorder.ran(kernel, block)
        where = kernel.address
        at = ctypes.addressof(block)
        if self.size == 1:
            CALL(where)(0, 1, at)
            return
        with self._turn:
            if asleep := self._post(self._state.ctypes.data, self.size, where, at):
                self._finish_awake(asleep, where, at)

    @contextlib.contextmanager
    def recording(self, recorder: Recorder) -> Iterator[None]:
        """Let `recorder` note the work of the calling thread. Other threads may use the team and
        record, too."""
        thread = threading.get_ident()
        self._recorders[thread] = recorder
        try:
            yield
        finally:
            del self._recorders[thread]

    @property
    def _recorder(self) -> Recorder | None:
        """The recorder of the calling thread."""
        return self._recorders.get(threading.get_ident()) if self._recorders else None

    def do(self, function: Callable[..., object], *arguments: object, **named: object) -> None:
        """Call a function whose work is part of an operation, so that replays call it too."""
        if recorder := self._recorder:
            recorder.did(partial(function, *arguments, **named))
        function(*arguments, **named)

    def hold(self, kept: object) -> None:
        """Note that the addresses in blocks refer to what `kept` keeps."""
        if recorder := self._recorder:
            recorder.hold(kept)

    def spoil(self) -> None:
        """Note that an operation does something that no replay does."""
        if recorder := self._recorder:
            recorder.whole = False

    def run_all(self, calls: int, count: int) -> None:
        """Run `count` kernels. `calls`: the address of their addresses and of their blocks."""
        with self._turn:
            state = self._state.ctypes.data
            size = self.size
            done, asleep = divmod(self._sequence(state, size, calls, 0, count), 1 << 16)
            while done < count:  # threads slept when this kernel was posted
                where, at = (ctypes.c_int64 * 2).from_address(calls + 16 * done)
                self._finish_awake(asleep, where, at)
                done, asleep = divmod(self._sequence(state, size, calls, done + 1, count), 1 << 16)

    @cached_property
    def _sequence(self) -> Callable[[int, int, int, int, int], int]:
        at = addresses("handover", build_handover)
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)(at("sequence"))

    def _finish_awake(self, asleep: int, where: int, at: int) -> None:
        """Wake the threads that sleep, of which there are so many, and finish the kernel that was
        posted."""
        self._state[FIELDS * LINE + CORE] = _core() if _core else 0
        for lock in self._doors(asleep):
            lock.release()
        self._finish(self._state.ctypes.data, self.size, where, at, 0)

    def _doors(self, asleep: int) -> list[threading.Lock]:
        """The locks of the threads that sleep, of which there are so many. Usually all do; to look
        for some takes 10 us, and after a long kernel 60."""
        if asleep == len(self._locks):
            return self._locks
        marks = self._state[(FIELDS + 1) * LINE + WAKE :: LINE]
        return [self._locks[member] for member in np.flatnonzero(marks)]


def _member(
    serve: Callable[[int, int, int], None],
    state: Array,
    number: int,
    size: int,
    lock: threading.Lock,
    ended: list[bool],
) -> None:
    """Serve as a thread of a team. The thread holds no reference to its team, so that an unused
    team is freed and ends its threads."""
    while not ended:
        serve(state.ctypes.data, number, size)  # returns when the thread is to sleep
        lock.acquire()
        if _core:
            _settle(state[FIELDS * LINE + CORE :: LINE], number)


def _settle(cores: Array, number: int) -> None:
    """Move to a free core, if there is one, when the caller or an earlier member has this thread's
    core."""
    assert _core is not None
    taken = {int(core) for core in cores[:number]}
    if _core() in taken:
        allowed = os.sched_getaffinity(0)
        # a sandbox may forbid it; a slow thread is better than none
        with contextlib.suppress(OSError):
            if free := allowed - taken:
                os.sched_setaffinity(0, free)  # moves it at once
                os.sched_setaffinity(0, allowed)
    cores[number] = _core()


def _end(locks: list[threading.Lock], ended: list[bool]) -> None:
    """Wake every thread for the last time. A thread that is awake sees `ended` before it sleeps."""
    ended.append(True)
    for lock in locks:
        # a thread whose share the caller ran has perhaps not woken yet: its lock is free already
        with contextlib.suppress(RuntimeError):
            lock.release()
