"""A module `roles` of the user next to a script: Python imports it in place of Convoy's package.

Nothing is wrong if the script wants its own module. If it wants Convoy's, an attribute or a module
is missing far from the cause. Then a line after Python's traceback names the file.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from types import TracebackType

NAME = "roles"
# without pathlib, whose import takes 10 ms: before Convoy handles Ctrl-C, Python shows a traceback
OURS = __file__.rpartition("/runtime/")[0] + f"/{NAME}/__init__.py"


def name_when_it_is_in_the_way() -> None:
    """From now on, an exception that ends this process because `roles` is not Convoy's is followed
    by a line with the file of that module. Does nothing if the script has no such module."""
    file = _other()
    if file is None:
        return
    shown = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        shown(kind, error, trace)
        if _missing(error, file):
            sys.stderr.write(
                f"{file} is imported in place of Convoy's package '{NAME}': rename it, or keep the "
                "script in another folder\n"
            )

    sys.excepthook = show


def _other() -> str | None:
    """The file of the user's module `roles` in the script's folder; None if there is none."""
    spec = PathFinder.find_spec(NAME, sys.path[:1])
    return None if spec is None or spec.origin == OURS else spec.origin


def _missing(error: BaseException, file: str) -> bool:
    """Whether the error is that the module `roles` of this file lacks something."""
    module = sys.modules.get(NAME)
    if getattr(module, "__file__", None) != file:
        return False
    if isinstance(error, AttributeError):
        return error.obj is module
    return isinstance(error, ImportError) and (error.name or "").partition(".")[0] == NAME
