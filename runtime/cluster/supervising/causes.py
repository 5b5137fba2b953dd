"""Choosing the cause to report, out of several reports of one death. This is a plain decision, on
which the supervisor acts.

When A dies, B may report first that it cannot reach A. A failure that a process reports therefore
waits FAILURE_SECONDS for an exit that explains it. An exit with a status waits as long for that
process's own report, which explains more than the status. Some causes need no explanation: a
signal, a silence, a program that gave up. They do not come here and are reported at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from runtime.cluster.launcher import Launched
from runtime.errors import ConvoyError, RoleDied, by
from runtime.user_code import blocked_at

FAILURE_SECONDS = 0.5

LastWish = Callable[[ConvoyError | None], Awaitable[None]]  # called with the outcome of a run


class Causes:
    """Failures and exits with a status, kept until one of them is reported."""

    def __init__(self) -> None:
        self._failures: dict[str, ConvoyError] = {}  # process -> its first reported failure
        self._exits: dict[str, ConvoyError] = {}
        self._first: float | None = None

    def __repr__(self) -> str:
        return f"<causes: {len(self._failures)} failures, {len(self._exits)} exits>"

    def __bool__(self) -> bool:
        return self._first is not None

    def failed(self, process: str, error: ConvoyError, now: float) -> None:
        """Note that a process reports its own failure, or the failure of one of its actors."""
        self._failures.setdefault(process, error)
        self._first = now if self._first is None else self._first

    def exited(self, process: str, error: ConvoyError, now: float) -> None:
        """Note that a process ended by itself with a status other than 0, which `error`
        describes."""
        self._exits.setdefault(process, error)
        self._first = now if self._first is None else self._first

    def told(self, now: float) -> ConvoyError | None:
        """Return the cause, once FAILURE_SECONDS have passed since the first report.

        The first process that ended counts: its own report, or else its status. If no process has
        ended, the first failure is the cause.
        """
        if self._first is None or now < self._first + FAILURE_SECONDS:
            return None
        for process, error in self._exits.items():
            return self._failures.get(process, error)
        return next(iter(self._failures.values()))


def death(
    process: str, actors: Sequence[str], where: str, launched: Launched, why: str
) -> RoleDied:
    """Return the error for a process that ended or counts as dead: the reason `why` and the last
    lines of its log."""
    last = launched.last_lines()
    lines = "".join(f"\n    {line}" for line in last)
    if line := blocked_at(last):
        why = f"{why}, at {line}"
    tail = (
        (f"; the last lines of {launched.log}:{lines}")
        if lines
        else f"; its log {launched.log} is empty"
    )
    return by(process, RoleDied(f"process {process} ({', '.join(actors)}) on {where} {why}{tail}"))


def cut(
    ends: Mapping[str, str], silent: Sequence[str], seconds: float, *, both: bool, one_host: bool
) -> str:
    """Describe a broken link for people. `ends` has its two processes and where they are, the
    reporting one first. `both` is True if both report it. The `silent` processes may have ended,
    since no sign shows that they live. `one_host`: no network is between the two."""
    process, peer = ends
    text = (
        f"the link from {process} to {peer} is lost: its connection broke, or carried no "
        "sign of life for "
    )
    text += f"{seconds:g} s (liveness.link_seconds). "
    text += f"{'Both ends report' if both else f'{process} alone reports'} it. "
    text += (
        (f"No sign of life comes from {' and '.join(silent)} either")
        if silent
        else "Both processes live"
    )
    text += f": {' and '.join(f'{name} on {where}' for name, where in ends.items())}; "
    if one_host:
        return (
            f"{text}both are on one host: look at its load and at the logs of the two, or raise "
            "liveness.link_seconds"
        )
    text += "look at the "
    return text + ("hosts and the network between them" if silent else "network between them")


async def nothing(outcome: ConvoyError | None) -> None:
    """Do nothing at the end of a run, before its processes are ended."""
