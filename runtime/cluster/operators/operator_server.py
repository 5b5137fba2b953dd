"""The server for operators on other machines. They are clients as described in
`cluster/clients.py`, and their messages arrive here.

      operator                         up
         |  --- Attach, ... ---------->   the same messages and answers as for every client
         |  --- FindFiles ------------>   which files of the run exist, and their sizes
         |  --- ReadFile ------------->   a part of a file
         |  <-- Parting --------------   the run is over; its journal and logs may still be read

A connection without the key is dropped before any of its data is read. It is counted, and reported
once in a while.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from runtime.cluster.lifecycle import FIRST
from runtime.cluster.operators.operator_key import FILE, LIMITS, OperatorKeys
from runtime.cluster.operators.operator_messages import (
    OPEN,
    PART_BYTES,
    FilePart,
    FilesFound,
    FindFiles,
    ReadFile,
    is_open,
)
from runtime.config.sections import Operators
from runtime.errors import ConvoyError, LaunchError, MessageError
from runtime.machine.addresses import own
from runtime.messages.message import Envelope, Message, Refusal
from runtime.plan.topology import SUPERVISOR
from runtime.reasons import reason
from runtime.transport import Reject, Release, Transport
from runtime.transport.dialed import SCHEME, Answering
from runtime.transport.zeromq import can_encrypt

MOST_BYTES = 1 << 62  # of a file
LAST_SECONDS = 2.0  # for operators to read the rest of the files when the run is over


class OperatorServer:
    """The server of one run, which reads the run directory.

    `take(envelope, release, road)` handles a client's message, and returns False if the sender is
    not a client. `on_lost(client)` is called when a client has left.
    """

    def __init__(
        self,
        directory: Path,
        cards: OperatorKeys,
        take: Callable[[Envelope, Release, Transport], bool],
        reject: Reject,
        on_lost: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._cards = cards
        self._take = take
        self._reject = reject
        self._on_lost = on_lost
        self._leaves = asyncio.Event()  # set when a client leaves
        self._ids = itertools.count(1)
        self._answers: set[asyncio.Task[None]] = set()
        self.road: Answering | None = None  # while it is open

    def __repr__(self) -> str:
        return f"<desk for operators: {self.road!r}>"

    async def open(self, wanted: Operators) -> str:
        """Listen at the wanted address and write the file with the key. Returns the address, or ""
        if no address is configured. Raises LaunchError."""
        if wanted.address is None:
            return ""
        address = own(wanted.address)
        port = wanted.port
        if not can_encrypt():
            raise LaunchError(
                "operators.address: pyzmq was built without libsodium, which encrypts the links"
            )
        try:
            at = await self._listen(address, self._cards.port(port))
        except LaunchError:
            if port or not self._cards.port(port):
                raise
            # another program has taken the port since the run before
            at = await self._listen(address, 0)
        path = self._directory / FILE
        card = self._cards.given(at)
        try:
            card.write(path)
        except OSError as error:
            raise LaunchError(f"{path}: {reason(error)}: operators cannot get a key") from None
        return card.address

    async def _listen(self, address: str, port: int) -> str:
        self.road = Answering(
            SUPERVISOR, self._arrived, self._reject, LIMITS, address=f"{address}:{port or '*'}",
            keys=self._cards.keys(), on_link_lost=self._left,
        )  # fmt: skip
        return (await self.road.open()).control[0].removeprefix(SCHEME)

    async def read_out(self) -> None:
        """Wait a moment until the clients, which know that the run is over, have read the rest of
        the files."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                while self.road is not None and self.road.peers:
                    self._leaves.clear()
                    await self._leaves.wait()

    async def close(self) -> None:
        """Accept no more messages, and remove the file with the key, which is not valid any
        more."""
        for task in self._answers:
            task.cancel()
        await asyncio.gather(*self._answers, return_exceptions=True)
        if self.road is not None:
            (self._directory / FILE).unlink(missing_ok=True)
            await self.road.close()
            self.road = None

    def _left(self, client: str) -> None:
        self._leaves.set()
        self._on_lost(client)

    def _arrived(self, envelope: Envelope, size: int, release: Release) -> None:
        assert self.road is not None
        if isinstance(envelope.message, FindFiles | ReadFile):
            task = asyncio.create_task(
                self._answer(envelope, release), name="files for an operator"
            )
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        elif not self._take(envelope, release, self.road):
            # only clients may send messages here
            release()
            self._reject(
                envelope.sender,
                MessageError("refused", (f"{envelope!r}: its sender is not an attached client")),
            )
            self.road.disconnect(envelope.sender, "it is not a client")

    async def _answer(self, envelope: Envelope, release: Release) -> None:
        said: Message
        try:
            said = await asyncio.to_thread(answer, self._directory, envelope.message)
        except OSError as error:
            said = Refusal(error=reason(error))
        finally:
            release()
        try:
            if self.road is not None:
                number = next(self._ids)
                to = envelope.sender
                await self.road.send(
                    to, Envelope(said, number, SUPERVISOR, FIRST, to, "", envelope.id)
                )
        except ConvoyError:  # the client has left
            pass


def answer(directory: Path, wanted: Message) -> Message:
    """Return the answer to a request for files of the run directory. Raises OSError."""
    if isinstance(wanted, FindFiles):
        patterns = [pattern for pattern in wanted.patterns if pattern in OPEN]
        found = sorted(
            path for pattern in patterns for path in directory.glob(pattern) if _is_its_own(path)
        )
        facts = {
            path.relative_to(directory).as_posix(): (path.stat().st_size, path.stat().st_mtime)
            for path in found
        }
        return FilesFound(
            directory=str(directory.resolve()),
            files=np.frombuffer(json.dumps(facts).encode(), np.uint8),
        )
    assert isinstance(wanted, ReadFile)
    path = directory / wanted.path
    if not is_open(wanted.path) or not 0 <= wanted.offset < MOST_BYTES or not _is_its_own(path):
        return Refusal(error=f"{wanted.path!r:.80} is not a file that operators may read")
    with path.open("rb") as file:
        file.seek(wanted.offset)
        return FilePart(data=np.frombuffer(file.read(PART_BYTES), np.uint8))


def _is_its_own(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
