"""A client of a run on another machine: the same client, over a connection that it dials, see
`cluster/operators`.

It copies files of the run into its own folder. Code that reads the run directory of a local run
reads these copies.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from runtime.attached.attach import Client
from runtime.cluster.clients import CLIENT
from runtime.cluster.operators.operator_key import FILE, LIMITS, OPERATOR, OperatorKey
from runtime.cluster.operators.operator_messages import (
    JOURNAL,
    PLAN,
    FilePart,
    FilesFound,
    FindFiles,
    ReadFile,
    is_open,
)
from runtime.errors import ActorStopped, AskTimeout, ConfigError, ConvoyError, Refused
from runtime.messages.message import Message
from runtime.plan.run_plan import RunPlan
from runtime.plan.topology import SUPERVISOR
from runtime.transport import Endpoints, Transport
from runtime.transport.dialed import SCHEME, Dialing

R = TypeVar("R")
DIAL_SECONDS = 5.0  # to make the connection itself
# ZeroMQ gives up a peer that is silent about the key after 5 s; it refuses a wrong key at once
SILENT_SECONDS = 4.5
FILE_SECONDS = 30.0  # for one part of a file


class RemoteClient(Client):
    """A client of the run that admits `card`. It copies the run's files to `folder`, which it has
    for itself. `place` is the run directory on the other machine, "" before the run has admitted
    the client."""

    # not the base's __init__: the plan is not known before the run admits the client
    def __init__(self, card: OperatorKey, folder: Path, patience: float) -> None:
        self.directory = folder
        self._patience = patience
        self.name = f"{CLIENT}far-{secrets.token_hex(8)}"
        self.place = ""  # the run directory there, once admitted
        self._card = card
        self._copied: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<client of the run {self.place or 'that answers'} at {self._card.address}>"

    async def __aenter__(self) -> Self:
        now = asyncio.get_running_loop().time
        since = now()
        try:
            return await super().__aenter__()
        except ConvoyError:
            was_silent = now() - since > SILENT_SECONDS
            if not self.place:
                await self._knock()
                if was_silent:
                    raise ConvoyError(f"the run {self.called} does not answer") from None
            raise

    @property
    def called(self) -> str:
        return f"at {self._card.address}"

    async def refresh(self, *patterns: str) -> None:
        """Extend the copies of the files that match `patterns` to their present length. At the end
        of the run they are complete. Raises ConvoyError if the run is gone."""
        for path, (size, written) in (await self._found(patterns)).items():
            if size < self._copied.get(path, 0):  # a new file of that name
                del self._copied[path]
            with suppress(Refused):  # the file was removed meanwhile
                await self._copy(path, self.directory / path, size, written)

    async def fetch(self, path: str, to: Path) -> None:
        """Copy one file of the run in its present state. Raises OSError if it cannot be written,
        and ConvoyError if the run is gone or has no such file."""
        found = await self._found((path,))
        if path not in found:
            raise ConvoyError(f"the run {self.called} has no {path}")
        part = to.with_name(f".{to.name}.part")
        self._copied.pop(path, None)
        try:
            await self._copy(path, part, *found[path])
            part.replace(to)
        finally:
            self._copied.pop(path, None)
            part.unlink(missing_ok=True)

    async def _found(self, patterns: tuple[str, ...]) -> dict[str, tuple[int, float]]:
        """Path -> its size in bytes, and the time when it was written."""
        found = await self._answered(FindFiles(patterns=patterns), FilesFound)
        self.place = found.directory
        files = json.loads(found.files.tobytes())
        # the answer is not trusted: only open files are copied
        return {path: (size, at) for path, (size, at) in files.items() if is_open(path)}

    async def _copy(self, path: str, to: Path, size: int, written: float) -> None:
        at = self._copied.get(path, 0)
        if at and at >= size:
            return
        await asyncio.to_thread(to.parent.mkdir, parents=True, exist_ok=True)
        with to.open("ab" if at else "wb") as file:
            while at < size:
                data = (await self._answered(ReadFile(path=path, offset=at), FilePart)).data
                if not data.size:
                    break
                file.write(data.data)
                at = self._copied[path] = at + data.size
        os.utime(to, (written, written))

    async def _answered(self, wanted: Message, answer: type[R]) -> R:
        """Ask the supervisor. This works even after the end of the run, while the connection
        stands."""
        try:
            return await self._voice.ask(SUPERVISOR, wanted, answer, timeout=FILE_SECONDS)
        except AskTimeout:
            raise ConvoyError(f"the run {self.called} does not answer") from None
        except ActorStopped:
            await asyncio.shield(self._over)
            if self.is_broken or not self.place:
                raise self._ended() from None
            text = (
                f"the run {self.called} is over, and was gone before the rest of its "
                "files was copied here"
            )
            raise ConvoyError(text) from None

    # -- the way to the run

    async def _way(self) -> Transport:
        return Dialing(
            self.name,
            self._node.deliver,
            self._node.reject,
            LIMITS,
            user=OPERATOR,
            keys=self._card.keys,
            on_link_lost=self._cut,
        )

    async def _knock(self) -> None:
        """Raise ConvoyError if nothing listens there. ZeroMQ does not report why a connection
        failed."""
        host, _, port = self._card.address.rpartition(":")
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
        except (OSError, ValueError, OverflowError) as error:  # OSError includes TimeoutError
            number = getattr(error, "errno", None)
            why = (
                os.strerror(number)
                if number and number > 0
                else str(error) or f"no answer within {DIAL_SECONDS:g} s"
            )
            text = (
                f"no run can be reached at {self._card.address}: {why}; it may be over, "
                "or listen elsewhere"
            )
            raise ConvoyError(text) from None

    def _where(self) -> Endpoints:
        address = SCHEME + self._card.address
        return Endpoints((address,), (address,))

    async def _arrive(self) -> None:
        try:
            await self.refresh(PLAN, JOURNAL)
            self._plan = await asyncio.to_thread(RunPlan.read, self.directory)
        except ConfigError as error:
            raise ConvoyError(
                f"the run {self.called} has no plan that can be read here: {error}"
            ) from None
        await super()._arrive()

    async def _grow(self) -> None:
        with suppress(ConvoyError):
            await self.refresh(PLAN, JOURNAL)
            await super()._grow()

    def _cut(self) -> None:
        """The connection is gone, so no answer will come."""
        self._node.lost(SUPERVISOR)
        self._lost()

    def _ended(self) -> ConvoyError:
        if self.place:
            return super()._ended()
        text = (
            f"{self._card.address} does not admit this key: it belongs to another "
            "run, or to one that is over"
        )
        return ConvoyError(f"{text}; copy {FILE} of the run's directory again")
