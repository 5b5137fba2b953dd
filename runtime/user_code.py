"""The line of the user's code at which an error was raised, for messages that name it first.

The user's code is everything outside of Convoy's packages, Python's library and installed packages.
An installed package that extends Convoy, by entry points of the groups `convoy.*`, counts as the
user's code too.
"""

from __future__ import annotations

import inspect
import os
import re
import site
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from functools import cache
from itertools import dropwhile
from pathlib import Path

from runtime.errors import ConvoyError, LaunchError, ProgramFailed
from runtime.own_packages import OURS, PACKAGES

GENERATED = ("<frozen", "<string>", "<__array_function__")  # code without a file of its own
FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>.+)')
# errors whose text is for people and needs no line
IN_WORDS = (ProgramFailed, LaunchError)


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user's code in the error's traceback, such as
    "squares.py:12, in on_square". Returns "" if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users(frame.filename):
            return f"{short(frame.filename)}:{frame.lineno}, in {frame.name}"
    return ""


def start_of(function: Callable[..., object]) -> str:
    """Return the place where a function begins, in the form of `line_of`."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return repr(function)
    return f"{short(code.co_filename)}:{code.co_firstlineno}, in {code.co_name}"


def blocked_at(stacks: Iterable[str]) -> str:
    """Return the innermost line of the user's code in the current thread of `faulthandler`'s
    stacks, in the form of `line_of`. Returns "" if there is none."""
    current = dropwhile(lambda line: not line.startswith("Current thread"), stacks)
    for line in current:
        frame = FRAME.fullmatch(line.strip())
        if frame is not None and is_users(frame["file"]):
            return f"{short(frame['file'])}:{frame['line']}, in {frame['name']}"
    return ""


def told(error: BaseException) -> str:
    """Return an error in words: the line of the user's code first, then the kind of error and its
    text. The kind is left out of errors for people."""
    text = str(error)
    if not isinstance(error, ConvoyError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    line = "" if isinstance(error, IN_WORDS) else line_of(error)
    return f"{line}: {text}" if line else text


def is_users(file: str) -> bool:
    """Whether a file is the user's code."""
    if file.startswith(GENERATED):
        return False
    if not Path(file).is_absolute() and not Path(file).exists():
        return False  # the source of compiled code, as it was named where it was compiled
    ours, library, installed = _places()
    if file.startswith(ours):
        return False
    for folder in installed:
        if file.startswith(folder):
            first = file.removeprefix(folder).partition(os.sep)[0]
            return first.removesuffix(".py") in _extending()
    return not file.startswith(library)


@cache
def _places() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the folders of Convoy's packages, of Python's library, and of installed packages, each
    with a separator at its end."""
    paths = sysconfig.get_paths()
    library = {paths["stdlib"], paths["platstdlib"], str(Path(os.__file__).parent)}
    installed = {paths["purelib"], paths["platlib"], *site.getsitepackages()}
    if user := site.getusersitepackages():
        installed.add(user)
    ours = [str(OURS / name) for name in ("runtime", *PACKAGES)]
    return tuple(
        tuple(f"{folder}{os.sep}" for folder in sorted(folders))
        for folders in (ours, library, installed)
    )  # type: ignore[return-value]  # three of them


@cache
def _extending() -> frozenset[str]:
    """Return the names of the installed packages that extend Convoy."""
    from importlib.metadata import entry_points  # takes 30 ms, and only errors need it

    return frozenset(
        entry.module.partition(".")[0]
        for group in entry_points().groups
        if group.startswith("convoy.")
        for entry in entry_points(group=group)
    )


def short(file: str) -> str:
    """Return the path relative to the working folder, if the file is in or below it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the working folder was removed
        return file
