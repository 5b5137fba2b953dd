"""A module `roles` of the user next to a script: Python imports it in place of Convoy's package.

Nothing is wrong if the script wants its own module. If it wants Convoy's, an attribute or a module
is missing far from the cause. Then a line after Python's traceback names the file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

NAME = "roles"
OURS = Path(__file__).resolve().parents[1] / NAME


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


def _other() -> Path | None:
    """The user's module `roles` in the script's folder; None if there is none."""
    folder = Path(sys.path[0] if sys.path else "")
    files = (folder / f"{NAME}.py", folder / NAME / "__init__.py")
    return next((file for file in files if file.is_file() and OURS not in file.parents), None)


def _missing(error: BaseException, file: Path) -> bool:
    """Whether the error is that the module `roles` of this file lacks something."""
    module = sys.modules.get(NAME)
    if getattr(module, "__file__", None) != str(file):
        return False
    if isinstance(error, AttributeError):
        return error.obj is module
    return isinstance(error, ImportError) and (error.name or "").partition(".")[0] == NAME
