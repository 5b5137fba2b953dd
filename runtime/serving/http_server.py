"""A small HTTP server in a thread of its own, for pages that nobody may use to starve the process.

Whoever connects waits, in the system's hands, until the thread looks. That takes in all who wait,
WAITING at most, and sleeps for as long as they are worth at PER_SECOND. The kernel says who they
are before anything is read of them. Who may not read is told so, if it has asked by the next look,
and closed. Of those who may, CONNECTIONS are open, each until it is silent for too long; a further
one takes the place of whoever was answered longest ago. So a reader that keeps its connection, as
Prometheus does, is served whatever goes on at the door. ANSWERS are given in a second at most.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from runtime.serving.readers import Readers

PER_SECOND = 50  # connections; one that is refused costs 50 to 100 us
WAITING = 25  # that the system holds; it drops what comes beyond, and the other end tries again
CONNECTIONS = 16
ANSWERS = 20
REQUEST_BYTES = 8192
ASKING_SECONDS = 0.2  # for the request of somebody who is to be refused
ANSWER_SECONDS = 5.0  # for the first request, and for taking an answer
# between two requests; Prometheus asks once a minute, if nobody tells it otherwise
SILENT_SECONDS = 150.0
RETRY_SECONDS = 1.0  # until somebody is taken in again who could not be

_WORDS = (
    b"This run shows its metrics to its own user and those of metrics.readers in cluster.toml.\n"
)
REFUSAL = (b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s") % (
    len(_WORDS),
    _WORDS,
)
_END = b"\r\n\r\n"

Start = Callable[..., Any]
# WSGI's, of which this serves what pages need
Application = Callable[[dict[str, Any], Start], Iterable[bytes]]


class Server:
    """Serves an application to `readers` on `port` of `address` until it is closed; 0 takes a free
    one. OSError if it cannot. `taken`: connections so far."""

    def __init__(self, application: Application, address: str, port: int, readers: Readers) -> None:
        self._application = application
        self._readers = readers
        self._open: dict[asyncio.Task[None], float] = {}  # when it was last answered; 0: not yet
        self._refused: list[socket.socket] = []
        self._rest: asyncio.TimerHandle | None = None
        self.taken = 0
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, port))
            self._socket.listen(WAITING)
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()  # of that loop
        self._answers = asyncio.Semaphore(ANSWERS)
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<pages on port {self.port}, {len(self._open)} of {self.taken} connections>"

    def close(self) -> None:
        """Stop serving and free the port."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        with self._socket:
            self._look()
            await self._over.wait()
            self._loop.remove_reader(self._socket)
            if self._rest is not None:
                self._rest.cancel()
            self._refuse()
            self._readers.close()

    # -- at the door

    def _look(self) -> None:
        """Refuse whom it met the last time, take in who waits, and rest; if nobody does, wait for
        somebody."""
        self._loop.remove_reader(self._socket)
        self._refuse()
        seconds = self._take()
        if self._refused:
            seconds = max(seconds, ASKING_SECONDS)
        if seconds:
            self._rest = self._loop.call_later(seconds, self._look)
        else:
            self._loop.add_reader(self._socket, self._look)

    def _take(self) -> float:
        """Take in who waits: how many seconds of rest they are worth."""
        for number in range(WAITING):
            try:
                connection, theirs = self._socket.accept()
            except BlockingIOError:
                return number / PER_SECOND
            except OSError:  # no descriptor left, perhaps
                return RETRY_SECONDS
            self.taken += 1
            self._meet(connection, theirs[:2])
        return WAITING / PER_SECOND

    def _meet(self, connection: socket.socket, theirs: tuple[str, int]) -> None:
        admitted = False
        with suppress(OSError):  # no descriptor left to ask the kernel with, perhaps
            admitted = self._readers.admits(
                self._socket.family, theirs, connection.getsockname()[:2]
            )
        if not admitted:
            self._refused.append(connection)
            return
        if len(self._open) >= CONNECTIONS:
            silent = min(self._open, key=self._open.__getitem__)
            del self._open[silent]
            silent.cancel()
        task = self._loop.create_task(self._talk(connection, f"{theirs[0]}:{theirs[1]}"))
        self._open[task] = 0.0
        task.add_done_callback(lambda done: self._open.pop(done, None))
        # also if it had no turn before it was cancelled
        task.add_done_callback(lambda _: connection.close())

    def _refuse(self) -> None:
        for connection in self._refused:
            with connection, suppress(OSError):  # nothing has come, or nobody is there any more
                if connection.recv(REQUEST_BYTES, socket.MSG_DONTWAIT):
                    connection.send(REFUSAL, socket.MSG_DONTWAIT)
        self._refused.clear()

    # -- with a reader

    async def _talk(self, connection: socket.socket, theirs: str) -> None:
        """Answer its requests, until it is silent for too long, says what is no request, or is too
        slow."""
        reader, writer = await asyncio.open_connection(sock=connection, limit=REQUEST_BYTES)
        writer.transport.set_write_buffer_limits(0)  # drained is when the system has it all
        me = asyncio.current_task()
        assert me is not None
        seconds = ANSWER_SECONDS
        goes_on = True
        try:
            while goes_on:
                async with asyncio.timeout(seconds):
                    request = await reader.readuntil(_END)
                await self._answers.acquire()
                self._loop.call_later(1.0, self._answers.release)
                answer, goes_on = self._answer(request, theirs)
                async with asyncio.timeout(ANSWER_SECONDS):
                    writer.write(answer)
                    await writer.drain()
                self._open[me] = self._loop.time()
                seconds = SILENT_SECONDS
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.close()
                await writer.wait_closed()
        except (
            TimeoutError,
            OSError,
            ValueError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            pass
        finally:
            writer.transport.abort()

    def _answer(self, request: bytes, theirs: str) -> tuple[bytes, bool]:
        """What the application says, as HTTP, and whether another request may follow. ValueError if
        this is none."""
        first, *lines = request.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ")
        path, _, query = target.partition("?")
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REMOTE_ADDR": theirs,
        }
        for line in lines:
            name, _, value = line.partition(":")
            environ[f"HTTP_{name.strip().upper().replace('-', '_')}"] = value.strip()
        goes_on = version == "HTTP/1.1" and environ.get("HTTP_CONNECTION", "").lower() != "close"
        head: list[str] = []

        def start(status: str, headers: list[tuple[str, str]], *_: object) -> None:
            head.extend([f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)])

        body = b"".join(self._application(environ, start))
        head += [
            f"Content-Length: {len(body)}",
            (f"Connection: {'keep-alive' if goes_on else 'close'}"),
            "",
            "",
        ]
        return "\r\n".join(head).encode("latin-1") + (b"" if method == "HEAD" else body), goes_on
