"""Of several reports of one death, which is told: a plain decision, on which the supervisor acts.

When A dies, B may report first that it cannot reach A. So whatever a process says of itself waits
FAILURE_SECONDS for an exit that explains it; and an exit with a status waits as long for that
process's own words, which tell more than the status. What needs no explanation (a signal, a
silence, a program that gave up) does not come here: it is told at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from runtime.cluster.launcher import Launched
from runtime.errors import ConvoyError, RoleDied, by

FAILURE_SECONDS = 0.5

LastWish = Callable[[ConvoyError | None], Awaitable[None]]  # with the outcome of a run


class Causes:
    """Failures and exits with a status, until one is told."""

    def __init__(self) -> None:
        self._failures: dict[str, ConvoyError] = {}  # process -> the first that it reported
        self._exits: dict[str, ConvoyError] = {}
        self._first: float | None = None

    def __repr__(self) -> str:
        return f"<causes: {len(self._failures)} failures, {len(self._exits)} exits>"

    def __bool__(self) -> bool:
        return self._first is not None

    def failed(self, process: str, error: ConvoyError, now: float) -> None:
        """A process says that it, or one of its actors, failed."""
        self._failures.setdefault(process, error)
        self._first = now if self._first is None else self._first

    def exited(self, process: str, error: ConvoyError, now: float) -> None:
        """A process ended by itself with a status other than 0; `error` says which."""
        self._exits.setdefault(process, error)
        self._first = now if self._first is None else self._first

    def told(self, now: float) -> ConvoyError | None:
        """The cause, once FAILURE_SECONDS have passed since the first report: of the first process
        that ended its own words, else its status; if none has ended, the first failure."""
        if self._first is None or now < self._first + FAILURE_SECONDS:
            return None
        for process, error in self._exits.items():
            return self._failures.get(process, error)
        return next(iter(self._failures.values()))


def death(
    process: str, actors: Sequence[str], where: str, launched: Launched, why: str
) -> RoleDied:
    """What is told of a process that ended, or counts as dead: `why`, and its last words."""
    lines = "".join(f"\n    {line}" for line in launched.last_lines())
    tail = (
        (f"; the last lines of {launched.log}:{lines}")
        if lines
        else f"; its log {launched.log} is empty"
    )
    return by(process, RoleDied(f"process {process} ({', '.join(actors)}) on {where} {why}{tail}"))


def cut(ends: Mapping[str, str], silent: Sequence[str], seconds: float, *, both: bool) -> str:
    """What is told of a link that broke: `ends` are its processes and where they are, the first
    that which reports it; or do `both`? Those that are `silent` may have ended, since nothing says
    that they live."""
    process, peer = ends
    text = (
        f"the link from {process} to {peer} is lost: its connection broke, or carried no "
        "sign of life for "
    )
    text += f"{seconds:g} s (liveness.link_seconds). "
    text += f"{'Both ends report' if both else f'{process} alone reports'} it. "
    text += (
        (f"Nothing is heard of {' and '.join(silent)} either") if silent else "Both processes live"
    )
    text += f": {' and '.join(f'{name} on {where}' for name, where in ends.items())}; look at the "
    return text + ("hosts and the network between them" if silent else "network between them")


async def nothing(outcome: ConvoyError | None) -> None:
    """What is done about the end of a run before its processes are ended, where nothing is."""
