"""Errors in a net, its data or its checkpoint, with texts for the user who can correct it.

Also the helper that finds the nearest name. Bad input never ends in a traceback.

    NetError(ValueError)        the file or value is wrong; `problems` has one readable line per
                                mistake
     |- PrototxtError           a net or solver prototxt
     |- DataError               a data source or its configuration
     |   |- SampleError         one sample of it
     |- CheckpointError         a checkpoint file
"""

import difflib
from collections.abc import Iterable


class NetError(ValueError):
    """One or more mistakes in the user's input. `str()` has one mistake per line."""

    problems: list[str]

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class PrototxtError(NetError):
    """A net or solver definition cannot be read or makes no sense: correct the prototxt."""


class DataError(NetError):
    """A data source cannot be read: correct its configuration or its files."""


class SampleError(DataError):
    """A sample is damaged, or has another shape than the others, however often it is read: correct
    or remove its file."""


class CheckpointError(NetError):
    """A checkpoint file is damaged, not a checkpoint, or of another version."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the nearest of `choices`, or "" if no choice is near."""
    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" (did you mean '{by_lower[near[0]]}'?)" if near else ""
