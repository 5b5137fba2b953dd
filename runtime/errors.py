"""Every error of Convoy, sorted by what the reader can do about it. No logic lives here.

ConvoyError                what went wrong is in str(); .exit_code is the status of the command line
 |- ConfigError            2  mend the file: one problem a line
 |- LaunchError            3  free the port, install the program, choose another machine
 |- RoleDied               4  read the log of the role: it died, or gave up restarting
 |- ProgramFailed          1  change the experiment: the program itself reported failure (a loss that is NaN)
 |- MessageError           1  a message is malformed: .reason says how, in one word that metrics can count
 |- ActorStopped           1  the peer is gone or stopping: the asker decides whether to ask another
 |- AskTimeout             1  no answer in time: the asker decides whether to ask again
"""


class ConvoyError(Exception):
    """Base of all errors that Convoy raises on purpose."""

    exit_code = 1


class ConfigError(ConvoyError):
    """The configuration has mistakes: `problems` lists all of them, str() shows one a line."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class LaunchError(ConvoyError):
    """A role could not be placed or launched: a port in use, a program missing on the host."""

    exit_code = 3


class RoleDied(ConvoyError):
    """A role process died, or its supervisor gave up restarting it."""

    exit_code = 4


class ProgramFailed(ConvoyError):
    """The program ran and reported failure itself."""


class MessageError(ConvoyError):
    """A message is malformed. `reason` is a label: bad_header, too_large, bad_shape, bad_type, unknown_kind,
    wrong_version and the like."""

    def __init__(self, text: str, *, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class ActorStopped(ConvoyError):
    """The asked actor is gone or stopping: no answer will come."""


class AskTimeout(ConvoyError):
    """The asked actor did not answer in time: an answer may still come, and is then dropped."""
