"""A small HTTP server in a thread of its own, for pages that nobody may use to starve the process.

At most CONNECTIONS are open; further ones are closed as soon as they are accepted, before anything is made for them.
Each has ANSWER_SECONDS for a request of at most REQUEST_BYTES and its answer, and is then closed. So a process spends a
bounded number of descriptors and one thread. Who may not read is told so.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

from runtime.actors.readers import Readers

CONNECTIONS = 16
WAITING = 128  # that the system holds until they are accepted; fewer would make honest ones wait for seconds
REQUEST_BYTES = 8192
ANSWER_SECONDS = 5.0
RETRY_SECONDS = 1.0  # until somebody is accepted again who could not be

_WORDS = b"This run shows its metrics to its own user and those of metrics.readers in cluster.toml.\n"
REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_WORDS), _WORDS)

Start = Callable[..., Any]
Application = Callable[[dict[str, Any], Start], Iterable[bytes]]  # WSGI's, of which this serves what pages need


class Server:
    """Serves an application to `readers` on `port` of `address` until it is closed; 0 takes a free one. OSError if it
    cannot."""

    def __init__(self, application: Application, address: str, port: int, readers: Readers) -> None:
        self._application, self._readers = application, readers
        self._open = 0
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, port))
            self._socket.listen(WAITING)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()  # of that loop
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<pages on port {self.port}, {self._open} connections>"

    def close(self) -> None:
        """Stop serving and free the port."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        with self._socket:
            accepting = asyncio.create_task(self._accept())
            await self._over.wait()
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)

    async def _accept(self) -> None:
        self._socket.setblocking(False)
        answering: set[asyncio.Task[None]] = set()
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._socket)
            except OSError:  # no descriptor left, perhaps
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if self._open >= CONNECTIONS:
                connection.close()
            else:
                self._open += 1
                answering.add(task := asyncio.create_task(self._connected(connection)))
                task.add_done_callback(answering.discard)

    async def _connected(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=REQUEST_BYTES)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
                ends = writer.get_extra_info("peername")[:2], writer.get_extra_info("sockname")[:2]
                admitted = self._readers.admits(self._socket.family, *ends)
                writer.write(self._answer(request) if admitted else REFUSAL)
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no request, or a reader that is too slow: it is closed
        finally:
            writer.transport.abort()
            self._open -= 1

    def _answer(self, request: bytes) -> bytes:
        """What the application says, as HTTP. ValueError if this is no request."""
        first, *lines = request.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
        for line in lines:
            name, _, value = line.partition(":")
            environ[f"HTTP_{name.strip().upper().replace('-', '_')}"] = value.strip()
        head: list[str] = []

        def start(status: str, headers: list[tuple[str, str]], *_: object) -> None:
            head.extend([f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)])

        body = b"".join(self._application(environ, start))
        head += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
        return "\r\n".join(head).encode("latin-1") + (b"" if method == "HEAD" else body)
