"""Every error the runtime raises, drawn by what the reader can do about it, and which of several is
told.

ConvoyError                     (exit_code)
 |- ConfigError            2    mend the named lines of cluster.toml
 |- LaunchError            3    free the port, install the program, reach the host
 |   `- Absent                    .machine cannot take part
 |- RoleDied               4    read the named role's log
 |- ProgramFailed          1    the program itself gave up (a loss of NaN): change its settings
 |- MessageError                a message was malformed: .reason labels the counter
 |   `- Unsendable              its receiver does not understand it: told to the sender
 |- ActorStopped                the peer is stopping or gone; nobody will answer
 |- AskTimeout                  the peer did not answer in time
 |- Refused                     the peer's handler answered an ask with an error
 `- Deadlock                    on the virtual clock: everyone waits and nothing is due
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from runtime.terminal_text import bounded, one_line

E = TypeVar("E", bound="ConvoyError")


class ConvoyError(Exception):
    """Base of all errors that are told to people without a traceback."""

    exit_code = 1
    by = ""  # the process or actor of the run that it befell
    silent: Collection[str] = ()  # machines of which nothing was heard any more when the run ended


class ConfigError(ConvoyError):
    """The configuration is wrong. `problems` holds one readable line per mistake."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        self.problems = [bounded(one_line(problem)) for problem in problems]
        super().__init__("\n".join(self.problems))


class LaunchError(ConvoyError):
    """A process could not be placed or started: port in use, program missing, host out of reach."""

    exit_code = 3


class Absent(LaunchError):
    """A `machine` cannot be reached, or cannot take part as it is."""

    def __init__(self, machine: str, why: str) -> None:
        super().__init__(f"machine '{machine}'{why}")
        self.machine = machine


class RoleDied(ConvoyError):
    """A role process died, hung or failed, and it is not restarted (any more)."""

    exit_code = 4


class ProgramFailed(ConvoyError):
    """The program reports that its own work failed, in words for its user."""


class MessageError(ConvoyError):
    """A message is malformed or not legal here; it was rejected and changed nothing.

    `reason` is a short label (bad_header, too_large, bad_shape, bad_type, unknown_kind,
    wrong_version, ...) under which the rejection is counted; `illegal` is what no row of an actor's
    table takes (`Conversation`).
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason


class Unsendable(MessageError):
    """What an actor would send, its receiver does not understand: a mistake of the sender, not of
    what it handles."""


class ActorStopped(ConvoyError):
    """The actor asked, or the asking actor itself, has stopped: no answer will come."""


class AskTimeout(ConvoyError):
    """No answer within the asker's timeout."""


class Refused(ConvoyError):
    """The asked actor's handler raised: its error, in words."""


class Deadlock(ConvoyError):
    """On the virtual clock only: every actor waits and no event is due."""


def by(name: str, error: E) -> E:
    """The error, of this process or actor of the run."""
    error.by = name
    return error


def with_silent(machines: Collection[str], error: E | None) -> E | None:
    """What ended a run, and the machines of which nothing was heard any more by then."""
    if error is not None:
        error.silent = machines
    return error


def root_of(error: BaseException) -> BaseException:
    """The error that people should hear of: of several that a task group raised, the first that
    does not merely say that a peer has stopped."""
    while isinstance(error, BaseExceptionGroup):
        inner: tuple[BaseException, ...] = error.exceptions
        error = next((one for one in inner if not isinstance(root_of(one), ActorStopped)), inner[0])
    return error
