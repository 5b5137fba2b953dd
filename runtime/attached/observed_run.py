"""A run as observed from outside, on this machine or, by `--connect`, on another one. Every command
uses it.

    async with run_here(run, below) as seen: ...       a run directory
    async with run_there(card) as seen: ...            the run that listens there

Read its files below `directory`, after a `refresh`. Show `place` to people.
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

FAR_SECONDS = 25.0  # for a remote run to admit a client, which may wait behind strangers
DIAL_AGAIN_SECONDS = 0.25


class ObservedRun(ABC):
    """A run as observed from outside. `is_here` says that its run directory is on this machine.
    `directory` holds its files or copies of them; `place` is the run directory itself."""

    directory: Path
    place: Path
    is_here: bool

    def __repr__(self) -> str:
        return f"<run {self.place}, seen from {'here' if self.is_here else 'elsewhere'}>"

    @property
    def name(self) -> str:
        """The name of the run directory."""
        return self.place.name

    @abstractmethod
    async def lives(self) -> bool:
        """Return whether the run lives, even if it does not answer, or if only its own host can
        reach it."""

    async def answers(self) -> bool:
        """Return whether this process can be a client of the run."""
        return await self.lives()

    async def presence(self) -> Presence | None:
        """The contents of the lock of its `up`, if this is the present run of that `up`. None for a
        run on another machine."""
        return None

    @abstractmethod
    def client(self) -> AbstractAsyncContextManager[Client]:
        """A client of the run, to be entered. Raises ConvoyError if the run is over or does not
        answer."""

    @abstractmethod
    async def refresh(self, *patterns: str) -> None:
        """Update these files (some of `operator_messages.OPEN`) in `directory`."""

    @abstractmethod
    async def bring(self, path: str) -> Path:
        """Bring one of these files to a path where the person can open it. Raises OSError if it
        cannot be written here, and ConvoyError if the run cannot be reached."""

    @abstractmethod
    async def follow(self, name: str, patience: float) -> None:
        """Observe the run that continues this one. Raises ConvoyError if it does not begin in
        time."""


class LocalRun(ObservedRun):
    """A run on this machine, observed through its run directory."""

    is_here = True

    def __init__(self, directory: Path) -> None:
        self.directory = self.place = directory

    async def lives(self) -> bool:
        """A run that has ended does not live, even if another one follows it."""
        if await self.answers():
            return True
        presence = await self.presence()
        return presence is not None and presence.lives and presence.holder.state != BETWEEN

    async def answers(self) -> bool:
        return await asyncio.to_thread(listens, self.directory)

    async def presence(self) -> Presence | None:
        return await asyncio.to_thread(present_in, self.directory)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        async with await asyncio.to_thread(Client, self.directory, PATIENCE) as client:
            yield client

    async def refresh(self, *patterns: str) -> None:
        """Do nothing: the files are the run's own."""

    async def bring(self, path: str) -> Path:
        """The file is here already."""
        return self.directory / path

    async def follow(self, name: str, patience: float) -> None:
        self.directory = self.place = self.directory.parent / name


class RemoteRun(ObservedRun):
    """A run on another machine, observed over a connection that stands while this is entered."""

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
        """Raises ConvoyError if the connection broke, since then it is not known whether the run
        lives."""
        if self._client is not None and self._client.is_broken:
            raise ConvoyError(
                f"the connection to {self._card.address} broke; the run {self.name} may go on"
            )
        return self._client is not None and not self._client.over

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """The one existing client."""
        yield self._joined()

    async def refresh(self, *patterns: str) -> None:
        await self._joined().refresh(*patterns)

    async def bring(self, path: str) -> Path:
        """The file is written into the working directory; its name begins with the name of the
        run."""
        to = Path(f"{self.name}-{path}")
        await self._joined().fetch(path, to)
        return to

    async def follow(self, name: str, patience: float) -> None:
        """The following run listens at the address of this one, with the same keys."""
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
            raise ConvoyError(f"there is no connection to a run at {self._card.address}")
        return self._client


@asynccontextmanager
async def run_here(run: Path | None, below: Path) -> AsyncIterator[ObservedRun]:
    """The run with this path or name, see `finding.meant`."""
    yield LocalRun(await meant(run, below))


@asynccontextmanager
async def run_there(card: OperatorKey) -> AsyncIterator[ObservedRun]:
    """The run that admits this card. Raises ConvoyError if no run admits it."""
    async with RemoteRun(card) as seen:
        yield seen
