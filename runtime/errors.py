"""Every error that the runtime raises, with the remedy for its reader, and the choice of the error
that is shown if there are several.

    ConvoyError                     (exit_code)
     |- ConfigError            2    correct the named lines of cluster.toml
     |- LaunchError            3    free the port, install the program, reach the host
     |   `- Absent                    .machine cannot take part
     |- RoleDied               4    read the named role's log
     |- ProgramFailed          1    the program itself gave up (a loss of NaN): change its settings
     |   `- NameTaken           1    an actor has a name of the runtime: choose another name
     |- ItemFailed             1    the function of `runtime.map` failed with .item, the .number-th
     |- MessageError                a message was malformed or illegal: .reason labels the counter
     |   `- Unsendable              its receiver does not understand it: raised at the sender
     |- ActorStopped                the peer is stopping or gone; no answer will come
     |- AskTimeout                  the peer did not answer in time
     |- Refused                     the peer's handler answered an ask with an error, or an actor
     |                              cannot be started or ended
     `- Deadlock                    on the virtual clock: every actor waits and no event is due
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from runtime.terminal_text import bounded, one_line

E = TypeVar("E", bound="ConvoyError")


class ConvoyError(Exception):
    """Base of all errors that are shown to the user without a traceback."""

    exit_code = 1
    by = ""  # the process or actor of the run that had the error
    silent: Collection[str] = ()  # machines that were silent when the run ended


class ConfigError(ConvoyError):
    """The configuration is wrong. `problems` holds one readable line per mistake."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        self.problems = [bounded(one_line(problem)) for problem in problems]
        super().__init__("\n".join(self.problems))


class LaunchError(ConvoyError):
    """A process could not be placed or started: a port is in use, a program is missing, or a host
    cannot be reached."""

    exit_code = 3


class Absent(LaunchError):
    """A `machine` cannot be reached, or cannot take part in its present state."""

    def __init__(self, machine: str, why: str) -> None:
        super().__init__(f"machine '{machine}'{why}")
        self.machine = machine


class RoleDied(ConvoyError):
    """A role process died, hung or failed, and is not restarted (any more)."""

    exit_code = 4


class ProgramFailed(ConvoyError):
    """The program reports that its own work failed, in words for its user."""


class NameTaken(ProgramFailed, TypeError):
    """An actor class, or an actor, takes a name that the runtime uses on every actor. It is a
    TypeError too, like Python's own errors about the definition of a class."""


class ItemFailed(ConvoyError):
    """The function of `runtime.map` raised an error with the item of this number (from 0), or its
    workers died."""

    def __init__(self, number: int, item: Any, text: str) -> None:
        super().__init__(text)
        self.number = number
        self.item = item


class MessageError(ConvoyError):
    """A message is malformed or not legal here. It was rejected and changed nothing.

    `reason` is a short label (bad_header, too_large, bad_shape, bad_type, unknown_kind,
    wrong_version, ...) under which the rejection is counted. The reason `illegal` is for a message
    that no row of an actor's table takes (`Conversation`).
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
        self.text = text


class Unsendable(MessageError):
    """A message that its receiver would not understand. It is a mistake of the sender, and not of
    the message that the sender handles."""


class ActorStopped(ConvoyError):
    """The asked actor or the asking actor has stopped: no answer will come."""


class AskTimeout(ConvoyError):
    """No answer came within the asker's timeout."""


class Refused(ConvoyError):
    """The handler of the asked actor raised an error, which this error has in words. Or an actor
    cannot be started or ended (`Actor.spawn`, `Actor.end`), for a reason in words.

    `mistaken`: the asker's words are wrong, so that the same ask would be refused again."""

    mistaken = False


class Deadlock(ConvoyError):
    """On the virtual clock only: every actor waits and no event is due."""


def by(name: str, error: E) -> E:
    """Return the error, marked as an error of this process or actor of the run."""
    error.by = name
    return error


def with_silent(machines: Collection[str], error: E | None) -> E | None:
    """Return the error that ended a run, with the machines that were silent by then."""
    if error is not None:
        error.silent = machines
    return error


def root_of(error: BaseException) -> BaseException:
    """Return the error to show to the user. Of several errors of a task group it is the first that
    is more than the report of a stopped peer."""
    while isinstance(error, BaseExceptionGroup):
        inner: tuple[BaseException, ...] = error.exceptions
        error = next((one for one in inner if not isinstance(root_of(one), ActorStopped)), inner[0])
    return error
