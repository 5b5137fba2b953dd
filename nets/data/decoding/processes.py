"""Processes that decode pictures next to the threads that read.

A reading thread takes an idle process, sends it the names or the bytes of several pictures at a
time, and waits without the interpreter's lock. The process reads the files, and writes the pixels
into memory that both share. Threads alone do not decode faster for being many: resizing holds the
lock most of the time.

    reading thread                             process (`process.py`)
          |  --- header, bytes (stdin) -------->   reads and decodes the pictures
          |  --- the next request ------------->   writes the pixels to the shared memory
          |  <-- a line of JSON (stdout) -------
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding.encoded import Picture, Shape, check_shape, decoded
from nets.data.pictures.notices import NOTICES
from nets.errors import DataError

TOGETHER = 8  # pictures of a request: each answer wakes a thread, which disturbs the processes
AHEAD = 2  # requests that a process has at a time, so that it need not wait for a busy parent
PIPE = 1 << 20  # bytes of requests: some pictures; the system's limit for a user's pipe
# bytes of the shared memory in front of the images: the number of pictures that a process has
# decoded of a batch; the others fill a line of the cache
PROGRESS, LINE = 8, 64
PATIENCE = 5.0  # seconds after which a process that closed its output counts as alive
# libraries that start threads when they are imported
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
# glibc's allocator keeps what is freed, up to these bytes: giving pages of large arrays back and
# taking new ones doubled the time of a picture
_KEPT = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
READY = b"ready\n"  # the first line of a process
SIZES = struct.Struct("=QQ")  # the bytes of a request's header and of its picture
_log = logging.getLogger("nets")


@dataclass(frozen=True)
class SharedMemory:
    """Memory that other processes can map. `take(size)` returns a block of bytes, most of them from
    the addresses `start` to `start + size`, which map the file at `path`."""

    take: Callable[[int], NDArray[np.uint8]]
    start: int
    size: int
    path: str

    def offset(self, block: NDArray[Any]) -> int | None:
        """Return the place of a block in the file, None if it lies elsewhere."""
        found = int(block.ctypes.data) - self.start
        return found if 0 <= found < self.size else None


class DecodingProcesses:
    """`count` processes, which begin with `start`. A call decodes pictures as a `Decoder` does: in
    an idle process, or in the calling thread as long as there is none. All methods may be called
    from any thread."""

    def __init__(self, count: int, memory: SharedMemory) -> None:
        self._count = count
        self._memory = memory
        self._lock = threading.Lock()
        self._idle: deque[_Process] = deque()
        self._all: list[_Process] = []
        self._starting: threading.Thread | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<{len(self._all)} decoding processes, {len(self._idle)} idle>"

    def start(self) -> None:
        """Start the processes in the background; they are ready in a second or two. Later calls do
        nothing."""
        with self._lock:
            if self._starting is not None or self._closed:
                return
            starting = threading.Thread(target=self._start, name="decoding-start")
            try:
                starting.start()
            except RuntimeError as error:  # the user has too many threads
                _log.warning("no processes to decode pictures can be started: %s", error)
                return
            self._starting = starting

    def __call__(self, pictures: Iterable[Picture], count: int, shape: Shape) -> NDArray[np.uint8]:
        """Decode the pictures into shared memory. Raises DataError, too, if a process ends
        meanwhile: the error names the picture."""
        process = self._take()
        if process is None:
            return decoded(pictures, count, shape)
        try:
            block = self._memory.take(LINE + count * math.prod(shape))
            offset = self._memory.offset(block)
            if offset is None:  # a small block, which is not shared
                return decoded(pictures, count, shape)
            images_NCHW = block[LINE:].reshape(count, *shape)
            process.decode(pictures, images_NCHW, block[:PROGRESS].view(np.int64), offset)
            return images_NCHW
        finally:
            if process.lives:
                self._idle.append(process)

    def wait_until_started(self) -> None:
        """Wait until all processes are ready or have ended."""
        if self._starting is not None:
            self._starting.join()

    def close(self) -> None:
        """End the processes at once. A thread that waits for one gets a DataError. May be called
        twice."""
        with self._lock:
            self._closed = True
            self._idle.clear()
        for process in self._all:
            process.end()
        self.wait_until_started()

    def _start(self) -> None:
        try:
            file = os.open(self._memory.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                for _ in range(self._count):
                    with self._lock:
                        if self._closed:
                            return
                        self._all.append(_Process(file, self._memory.size))
            finally:
                os.close(file)
        except OSError as error:
            _log.warning("no more processes to decode pictures can be started: %s", error)
        for process in self._all:
            if process.is_ready():
                self._idle.append(process)
            elif not self._closed:
                _log.warning("a decoding process did not start: it ended %s", process.ended)
        _log.info("the run waited for images: decoding processes: %d", len(self._idle))

    def _take(self) -> _Process | None:
        """Return a process that is idle and lives. None if there is none."""
        with suppress(IndexError):
            while True:
                process = self._idle.pop()
                if process.lives:
                    return process
                if not self._closed:
                    _log.warning("an idle decoding process ended %s; others decode", process.ended)
        return None


class _Process:
    """One process. One thread at a time uses it."""

    def __init__(self, file: int, size: int) -> None:
        environment = {
            **os.environ,
            **dict.fromkeys(_ONE_THREAD, "1"),
            **_KEPT,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nets.data.decoding.process", str(file), str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(file,),
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin
        self._answers = self._process.stdout
        with suppress(OSError):  # the pipes of this user have all memory that the system allows
            fcntl.fcntl(self._requests, fcntl.F_SETPIPE_SZ, PIPE)

    def __repr__(self) -> str:
        return f"<decoding process {self._process.pid}>"

    @property
    def lives(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    @property
    def ended(self) -> str:
        """How the process ended, in words."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return "without an answer"
        if code >= 0:
            return f"with exit code {code}"
        with suppress(ValueError):
            return f"by {signal.Signals(-code).name}"
        return f"by signal {-code}"

    def is_ready(self) -> bool:
        """Wait until the process is ready. False if it ended."""
        return self._line() == READY

    def decode(
        self,
        pictures: Iterable[Picture],
        images_NCHW: NDArray[np.uint8],
        progress: NDArray[np.int64],
        offset: int,
    ) -> None:
        """Decode pictures into a block of shared memory, which lies in its file from `offset` on:
        `progress`, the number of pictures that are done, and the images. Raises the error of the
        first picture that has one. No answer is left unread."""
        progress[0] = at = 0
        asked: deque[_Request] = deque()
        fault: Exception | None = None
        try:
            for some in _together(pictures):
                request = _Request(at, some, images_NCHW[at : at + len(some)])
                self._ask(request, offset)
                asked.append(request)
                at += len(some)
                if len(asked) == AHEAD and (fault := self._fault(asked.popleft(), progress)):
                    break
        finally:
            while asked:
                later = self._fault(asked.popleft(), progress)
                fault = fault or later
            if fault is not None:
                raise fault from None

    def end(self) -> None:
        """Kill the process, which keeps nothing, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):
                pipe.close()

    def _ask(self, request: _Request, offset: int) -> None:
        shape = request.images.shape[1:]
        place = offset + LINE + request.first * math.prod(shape)
        about = [
            (None if picture.data is None else len(picture.data), *picture[1:-1])
            for picture in request.pictures
        ]
        head = json.dumps([place, shape, offset, about]).encode()
        data = b"".join(picture.data or b"" for picture in request.pictures)
        # if the process has ended, its answer is missing, and `_fault` reports that
        with suppress(OSError, ValueError):
            self._requests.write(SIZES.pack(len(head), len(data)) + head)
            self._requests.write(data)
            self._requests.flush()

    def _fault(self, request: _Request, progress: NDArray[np.int64]) -> Exception | None:
        """Wait until the pictures of a request are decoded. Return the error of the first that has
        one."""
        line = self._line()
        if not line:
            at = min(max(int(progress[0]) - request.first, 0), len(request.pictures) - 1)
            return DataError(
                f"{request.pictures[at].where}: the process that decoded this picture ended "
                f"{self.ended}: if the log has no other cause, such as too little memory, convert "
                "or remove the picture"
            )
        found = None
        for answer, *of in zip(json.loads(line), request.pictures, request.images, strict=True):
            for notice in answer.get("notices", ()):
                NOTICES.note(of[0].where, *notice)
            found = found or _fault_of(answer, *of)
        return found

    def _line(self) -> bytes:
        """The next line of the process's answers, b"" if it has ended, also within a line."""
        try:
            line = self._answers.readline()
        except (OSError, ValueError):  # `end` has closed the pipe
            return b""
        return line if line.endswith(b"\n") else b""


class _Request(NamedTuple):
    """Pictures that a process gets together, their images, and the number of those before them."""

    first: int
    pictures: list[Picture]
    images: NDArray[np.uint8]  # (n, C, H, W)


def _together(pictures: Iterable[Picture]) -> Iterator[list[Picture]]:
    """Yield the pictures of each request. Those before one that cannot be read come before its
    error."""
    some: list[Picture] = []
    failed = None
    try:
        for picture in pictures:
            some.append(picture)
            if len(some) == TOGETHER:
                yield some
                some = []
    except Exception as error:  # noqa: BLE001  # raised behind the pictures before it
        failed = error
    if some:
        yield some
    if failed is not None:
        raise failed


def _fault_of(
    answer: dict[str, Any], picture: Picture, image_CHW: NDArray[np.uint8]
) -> Exception | None:
    """Return the error that a process has found in a picture."""
    try:
        if "shape" not in answer:  # its error comes again here
            image_CHW[...] = decoded([picture], 1, image_CHW.shape)[0]
        else:
            check_shape(tuple(answer["shape"]), picture.where, image_CHW.shape)
    except Exception as error:  # noqa: BLE001  # `decode` raises it behind the other answers
        return error
    return None
