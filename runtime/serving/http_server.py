"""A small HTTP server in its own thread; too frequent requests cannot starve the process.

New connections wait in the system's queue until the thread looks at it. The thread then accepts all
waiting connections, at most WAITING, and pauses long enough to keep the rate at PER_SECOND. Before
it reads from a connection it asks the kernel which user made it. A user without permission gets a
refusal if the request has arrived by the next look; then the connection is closed. Of the permitted
connections at most CONNECTIONS are open, each until it is silent for too long. A further one
replaces a connection that has asked for nothing yet, or else the one whose last answer is the
oldest, and never a connection whose request waits for its answer. So a reader that keeps its
connection, as Prometheus does, is served however many connections arrive that ask for nothing, and
each request of a burst is served. The server gives at most ANSWERS answers a second.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from runtime.serving.readers import Readers

PER_SECOND = 50  # connections; refusing one costs 50 to 100 us
WAITING = 25  # held by the system; it drops further connections, and their clients try again
CONNECTIONS = 16
ANSWERS = 20
REQUEST_BYTES = 8192
# to send the request, for a reader that will be refused or replaced
ASKING_SECONDS = 0.2
ANSWER_SECONDS = 5.0  # to send the first request, and to receive an answer
# between two requests; Prometheus asks once a minute by default
SILENT_SECONDS = 150.0
RETRY_SECONDS = 1.0  # pause after a connection could not be accepted
FULL_SECONDS = 0.05  # pause while no open connection may be replaced

_WORDS = (
    b"This run shows its metrics to its own user and those of metrics.readers in cluster.toml.\n"
)
REFUSAL = (b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s") % (
    len(_WORDS),
    _WORDS,
)
_END = b"\r\n\r\n"

Start = Callable[..., Any]
# a WSGI application; the server supports the part of WSGI that pages need
Application = Callable[[dict[str, Any], Start], Iterable[bytes]]


@dataclass
class _Visit:
    """An open connection: when it was accepted, whether a request waits for its answer, and the
    time of the last answer."""

    since: float
    waits: bool = False
    answered: float | None = None


class Server:
    """Serves an application on `address` and `port` to permitted `readers`, until it is closed.
    Port 0 takes a free port. Raises OSError if the server cannot listen there. `taken` counts the
    connections accepted so far."""

    def __init__(self, application: Application, address: str, port: int, readers: Readers) -> None:
        self._application = application
        self._readers = readers
        self._open: dict[asyncio.Task[None], _Visit] = {}
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
        self._over = asyncio.Event()  # belongs to that loop
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
        """Refuse the connections held back at the last look, accept new ones, and pause. If none
        are waiting, sleep until one arrives."""
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
        """Accept the waiting connections. Returns the pause, in seconds, that keeps the rate."""
        for number in range(WAITING):
            if not self._has_room():
                return max(FULL_SECONDS, number / PER_SECOND)
            try:
                connection, theirs = self._socket.accept()
            except BlockingIOError:
                return number / PER_SECOND
            except OSError:  # perhaps no file descriptor is left
                return RETRY_SECONDS
            self.taken += 1
            self._meet(connection, theirs[:2])
        return WAITING / PER_SECOND

    def _has_room(self) -> bool:
        """Whether a further connection may be open now."""
        return len(self._open) < CONNECTIONS or self._replaceable() is not None

    def _replaceable(self) -> asyncio.Task[None] | None:
        """The connection that a further one replaces, None if there is none now. A new connection
        has a moment to ask."""
        asleep = {task: visit for task, visit in self._open.items() if not visit.waits}
        mute = [task for task, visit in asleep.items() if visit.answered is None]
        if not mute:
            return min(asleep, key=lambda task: asleep[task].answered or 0.0, default=None)
        oldest = min(mute, key=lambda task: asleep[task].since)
        return oldest if self._loop.time() - asleep[oldest].since >= ASKING_SECONDS else None

    def _meet(self, connection: socket.socket, theirs: tuple[str, int]) -> None:
        admitted = False
        with suppress(OSError):  # perhaps no file descriptor is left to ask the kernel
            admitted = self._readers.admits(
                self._socket.family, theirs, connection.getsockname()[:2]
            )
        if not admitted:
            self._refused.append(connection)
            return
        if len(self._open) >= CONNECTIONS and (silent := self._replaceable()) is not None:
            del self._open[silent]
            silent.cancel()
        visit = _Visit(self._loop.time())
        task = self._loop.create_task(self._talk(connection, f"{theirs[0]}:{theirs[1]}", visit))
        self._open[task] = visit
        task.add_done_callback(lambda done: self._open.pop(done, None))
        # closes the socket even if the task was cancelled before it ran
        task.add_done_callback(lambda _: connection.close())

    def _refuse(self) -> None:
        for connection in self._refused:
            with connection, suppress(OSError):  # no request has arrived, or the client has gone
                if connection.recv(REQUEST_BYTES, socket.MSG_DONTWAIT):
                    connection.send(REFUSAL, socket.MSG_DONTWAIT)
        self._refused.clear()

    # -- with a reader

    async def _talk(self, connection: socket.socket, theirs: str, visit: _Visit) -> None:
        """Answer the requests of one connection. Ends when the reader is silent for too long, sends
        something that is not a request, or takes too long to receive an answer."""
        reader, writer = await asyncio.open_connection(sock=connection, limit=REQUEST_BYTES)
        writer.transport.set_write_buffer_limits(0)  # drain() waits until the system has the answer
        seconds = ANSWER_SECONDS
        goes_on = True
        try:
            while goes_on:
                async with asyncio.timeout(seconds):
                    request = await reader.readuntil(_END)
                visit.waits = True
                await self._answers.acquire()
                self._loop.call_later(1.0, self._answers.release)
                answer, goes_on = self._answer(request, theirs)
                async with asyncio.timeout(ANSWER_SECONDS):
                    writer.write(answer)
                    await writer.drain()
                visit.answered = self._loop.time()
                visit.waits = False
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
        """The application's answer as an HTTP response, and whether another request may follow.
        Raises ValueError if `request` is not an HTTP request."""
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
