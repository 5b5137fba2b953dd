"""A run as who is outside sees it, on this machine or, by `--connect`, on another. Every command
looks through this.

    async with run_here(run, below) as seen: ...       a run directory
    async with run_there(card) as seen: ...            whatever listens there

Its files are read below `directory`, after they were refreshed; people are told of `place`.
"""

from __future__ import annotations

import asyncio
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from runtime.attached.attach import Client
from runtime.attached.finding import PATIENCE, listens, meant, present_in
from runtime.attached.remote_client import RemoteClient
from runtime.cluster.operators.operator_key import OperatorKey
from runtime.errors import ConvoyError
from runtime.records.lock_file import BETWEEN
from runtime.records.presence import Presence

FAR_SECONDS = 25.0  # in which a run elsewhere lets a client in, who may wait behind strangers
DIAL_AGAIN_SECONDS = 0.25


class ObservedRun(ABC):
    """See the module docstring. `is_here`: its run directory is one of this machine."""

    directory: Path
    place: Path
    is_here: bool

    def __repr__(self) -> str:
        return f"<run {self.place}, seen from {'here' if self.is_here else 'elsewhere'}>"

    @property
    def name(self) -> str:
        """Of the run directory."""
        return self.place.name

    @abstractmethod
    async def lives(self) -> bool:
        """Does it live, even if it does not answer, or only its own host can reach it?"""

    async def answers(self) -> bool:
        """Can this process take part in it?"""
        return await self.lives()

    async def presence(self) -> Presence | None:
        """What the lock of its `up` says, if this is the present run of that; None of a run
        elsewhere."""
        return None

    @abstractmethod
    def client(self) -> AbstractAsyncContextManager[Client]:
        """Take part in it. ConvoyError if it is over, or does not answer."""

    @abstractmethod
    async def refresh(self, *patterns: str) -> None:
        """Have these files (some of `operators.words.OPEN`) in `directory` as they are now."""

    @abstractmethod
    async def bring(self, path: str) -> Path:
        """One of these files, where the person can open it. OSError if it cannot be written here;
        ConvoyError."""

    @abstractmethod
    async def follow(self, name: str, patience: float) -> None:
        """See another run from now on, which goes on from this one. ConvoyError if it is not there
        in time."""


class LocalRun(ObservedRun):
    """By its run directory."""

    is_here = True

    def __init__(self, directory: Path) -> None:
        self.directory = self.place = directory

    async def lives(self) -> bool:
        """See Seen.lives. A run that has ended lives no more, also if another follows."""
        if await self.answers():
            return True
        presence = await self.presence()
        return presence is not None and presence.lives and presence.holder.state != BETWEEN

    async def answers(self) -> bool:
        """See Seen.answers: somebody listens at its socket."""
        return await asyncio.to_thread(listens, self.directory)

    async def presence(self) -> Presence | None:
        """See Seen.presence."""
        return await asyncio.to_thread(present_in, self.directory)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """See Seen.client."""
        async with await asyncio.to_thread(Client, self.directory, PATIENCE) as client:
            yield client

    async def refresh(self, *patterns: str) -> None:
        """See Seen.refresh: they are."""

    async def bring(self, path: str) -> Path:
        """See Seen.bring: it is."""
        return self.directory / path

    async def follow(self, name: str, patience: float) -> None:
        """See Seen.follow."""
        self.directory = self.place = self.directory.parent / name


class RemoteRun(ObservedRun):
    """Over a connection, which stands as long as it is entered."""

    is_here = False

    def __init__(self, card: OperatorKey) -> None:
        self._card = card
        self._stack = AsyncExitStack()
        self._client: RemoteClient | None = None

    async def __aenter__(self) -> RemoteRun:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="convoy-copies-"))
        self.directory = Path(folder)
        client = RemoteClient(self._card, self.directory, FAR_SECONDS)
        try:
            self._client = await self._stack.enter_async_context(client)
        except BaseException:
            await self._stack.aclose()
            raise
        self.place = Path(client.place)
        return self

    async def __aexit__(self, *told: object) -> None:
        self._client = None
        await self._stack.aclose()

    async def lives(self) -> bool:
        """See Seen.lives. ConvoyError if the connection broke: nobody knows."""
        if self._client is not None and self._client.is_broken:
            raise ConvoyError(
                f"the connection to {self._card.address} broke; the run {self.name} may go on"
            )
        return self._client is not None and not self._client.over

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """See Seen.client: the one that there is."""
        yield self._joined()

    async def refresh(self, *patterns: str) -> None:
        """See Seen.refresh."""
        await self._joined().refresh(*patterns)

    async def bring(self, path: str) -> Path:
        """See Seen.bring: into the working directory, behind the name of the run."""
        to = Path(f"{self.name}-{path}")
        await self._joined().fetch(path, to)
        return to

    async def follow(self, name: str, patience: float) -> None:
        """See Seen.follow: it will listen where this one did, with the same keys."""
        until = asyncio.get_running_loop().time() + patience
        while True:
            await self.__aexit__()
            try:
                await self.__aenter__()
            except ConvoyError as error:
                why = str(error)
            else:
                if self.name == name:
                    return
                why = f"{self.name} answers there"
            if asyncio.get_running_loop().time() > until:
                raise ConvoyError(f"{name} has not begun within {patience:g} s: {why}")
            await asyncio.sleep(DIAL_AGAIN_SECONDS)

    def _joined(self) -> RemoteClient:
        if self._client is None:
            raise ConvoyError(f"no run at {self._card.address} is looked at")
        return self._client


@asynccontextmanager
async def run_here(run: Path | None, below: Path) -> AsyncIterator[ObservedRun]:
    """The run of this path or name, see `finding.meant`."""
    yield LocalRun(await meant(run, below))


@asynccontextmanager
async def run_there(card: OperatorKey) -> AsyncIterator[ObservedRun]:
    """The run that lets this card in. ConvoyError if none does."""
    async with RemoteRun(card) as seen:
        yield seen
