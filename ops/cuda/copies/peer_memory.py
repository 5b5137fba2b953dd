"""Memory of a device that processes share through handles of CUDA IPC.

The process that owns memory queues an event behind the work that writes it. A reader lets its own
stream wait for that event, so no host waits. The reader gives memory back once its stream has
passed all work that reads it. Sources: CUDA Runtime API, "cudaIpcGetMemHandle",
"cudaIpcOpenMemHandle"; CUDA Programming Guide, "Interprocess Communication".
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from queue import SimpleQueue
from typing import Any

from ops.errors import Array, OpsError, Shape, first_line

# bytes: cudaMalloc puts smaller allocations into one of this size, and a handle shares all of it
WHOLE = 2 << 20
# A reader waits for the latest record of an event. With more events it waits for less work that
# came after the array.
EVENTS = 16


class PeerMemory:
    """The memory of one device that this process shares, and that of other processes. Make it in
    the thread that computes: all work on shared arrays runs in the stream of that thread. Any
    thread may call the methods; `record` is called in the thread that computes."""

    def __init__(self, cupy: Any, device: int) -> None:
        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        self._device = device
        self._stream = cupy.cuda.get_current_stream()
        self._last = 0
        # calls that wait for work of the device; a finaliser may add one
        self._waiting: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def __repr__(self) -> str:
        return f"<shared memory of cuda:{self._device}>"

    @cached_property
    def name(self) -> str:
        """The name of the device, the same in every process of this machine."""
        found = self._runtime.getDeviceProperties(self._device)["uuid"]
        return bytes(found).hex()

    @cached_property
    def _events(self) -> list[Any]:
        with self._cupy.cuda.Device(self._device):
            kind = self._cupy.cuda.Event
            return [kind(disable_timing=True, interprocess=True) for _ in range(EVENTS)]

    def event_handles(self) -> list[bytes]:
        """The handles of the events that `record` uses. Raises OpsError if the driver refuses."""
        return [self._granted(self._runtime.ipcGetEventHandle, one.ptr) for one in self._events]

    def allocate(self, size: int) -> tuple[int, bytes]:
        """Allocate `size` bytes, a multiple of WHOLE, until the process ends. Returns their address
        and handle. Raises OpsError if there is too little memory, or if the driver refuses."""
        with self._cupy.cuda.Device(self._device):
            try:
                address = self._granted(self._runtime.malloc, size)
            except OpsError:
                self._cupy.get_default_memory_pool().free_all_blocks()
                address = self._granted(self._runtime.malloc, size)
            try:
                return address, self._granted(self._runtime.ipcGetMemHandle, address)
            except OpsError:
                self._runtime.free(address)
                raise

    def array(
        self, address: int, size: int, shape: Shape, dtype: Any, strides: Shape, owner: object
    ) -> Array:
        """An array in `size` bytes at an address. It keeps `owner` until its last view is gone."""
        cuda = self._cupy.cuda
        memory = cuda.UnownedMemory(address, size, owner, self._device)
        found: Array = self._cupy.ndarray(
            shape, dtype, memptr=cuda.MemoryPointer(memory, 0), strides=strides or None
        )
        return found

    def record(self) -> tuple[Any, int]:
        """Mark the work so far. Returns an event of this process, and its number."""
        self._last = (self._last + 1) % EVENTS
        event = self._events[self._last]
        event.record(self._stream)
        return event, self._last

    def open(self, handle: bytes) -> int:
        """Open the memory of another process. Returns its address here. Raises OpsError if the
        driver refuses."""
        self._waiter  # noqa: B018  # starts here: a finaliser cannot start a thread
        with self._cupy.cuda.Device(self._device):
            address: int = self._granted(self._runtime.ipcOpenMemHandle, handle)
            return address

    def open_event(self, handle: bytes) -> int:
        """Open an event of another process, for `wait`. Raises OpsError if the driver refuses."""
        with self._cupy.cuda.Device(self._device):
            event: int = self._granted(self._runtime.ipcOpenEventHandle, handle)
            return event

    def wait(self, event: int) -> None:
        """Let later work wait for what the other process has recorded. The host goes on. Raises
        OpsError if the device is lost."""
        with self._cupy.cuda.Device(self._device):
            self._granted(self._runtime.streamWaitEvent, self._stream.ptr, event)

    def close(self, address: int) -> None:
        """Give memory of another process back once the work so far is done. A finaliser may call
        this."""
        self.when_done(lambda: self._quietly(self._runtime.ipcCloseMemHandle, address))

    def close_event(self, event: int) -> None:
        """Give an event of another process back once the work so far is done. A finaliser may call
        this."""
        self.when_done(lambda: self._quietly(self._runtime.eventDestroy, event))

    def when_done(self, call: Callable[[], object]) -> None:
        """Call `call()` in a thread once the device has done the work so far. The work of a stream
        is known when it is queued: a finaliser may call this after the last use of an array."""
        self._waiting.put(call)

    @cached_property
    def _waiter(self) -> threading.Thread:
        thread = threading.Thread(target=self._wait_for_work, name="device returns", daemon=True)
        thread.start()
        return thread

    def _wait_for_work(self) -> None:
        with self._cupy.cuda.Device(self._device):
            event = self._cupy.cuda.Event(block=True, disable_timing=True)
            while True:
                call = self._waiting.get()
                self._quietly(event.record, self._stream)
                self._quietly(event.synchronize)
                call()

    def _quietly(self, call: Callable[..., object], *arguments: Any) -> None:
        """Make a call. An error of the device is reported by the work of an actor that meets it."""
        with suppress(self._runtime.CUDARuntimeError):
            call(*arguments)

    def _granted(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self._runtime.CUDARuntimeError as error:
            raise OpsError(first_line(error)) from None
