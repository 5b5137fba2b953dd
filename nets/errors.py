"""What can be wrong with a net, its data or its checkpoint, told to the person who can mend it.

Also the helper that finds the nearest name. Bad input never ends in a traceback.

    NetError(ValueError)        the file or value is wrong; `problems` has one readable line per
                                mistake
     |- PrototxtError           a net or solver prototxt
     |- DataError               a data source or its configuration
     |- CheckpointError         a checkpoint file
"""

import difflib
from collections.abc import Iterable


class NetError(ValueError):
    """One or more mistakes in what the user gave; `str()` is one mistake a line."""

    problems: list[str]

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class PrototxtError(NetError):
    """A net or solver definition cannot be read or makes no sense: mend the prototxt."""


class DataError(NetError):
    """A data source cannot be read: mend its configuration or its files."""


class CheckpointError(NetError):
    """A checkpoint file is damaged, foreign or of another version."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the nearest of `choices`, or "" when nothing is near."""
    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" (did you mean '{by_lower[near[0]]}'?)" if near else ""
