"""The name by which the user calls the command line, for messages that show a command."""

import sys
from pathlib import Path

SCRIPT = "convoy"  # the same command line as `python -m runtime`, see pyproject.toml
MODULE = "python -m runtime"


def typed_name() -> str:
    """Return the name by which this process was called: `convoy` or `python -m runtime`."""
    return SCRIPT if sys.argv and Path(sys.argv[0]).stem == SCRIPT else MODULE


def shown(command: str) -> str:
    """Return a command as the user types it, such as "convoy docs cluster", in backquotes."""
    return f"`{typed_name()} {command}`"
