"""Functions by their place: the module and the qualified name by which another process finds the
same function. No code and no pickle travels."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

from runtime.errors import ConfigError
from runtime.plan.program import MAIN, main_program, module_of

ADVICE = "define it with `def` at the top level of a module or of the script"


def place_of(function: Callable[..., Any], *, here: bool = False) -> tuple[str, str]:
    """Return the module of a function, or the path of its script, and its qualified name. `here`:
    this process calls it, so the name `__main__` is enough.

    Raises ConfigError for a function that another process cannot find by these two.
    """
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not callable(function):
        raise _refused(f"found {type(function).__name__}, expected a function")
    if inspect.iscoroutinefunction(function):
        raise _refused(f"'{name}' is a coroutine function, expected a plain function")
    if not isinstance(module, str) or not isinstance(name, str):
        kind = type(function).__name__
        raise _refused(f"a {kind} has no name by which workers could find it: {ADVICE}")
    if "<" in name:  # <lambda>, or in the <locals> of a function
        kind = "a lambda" if name.endswith("<lambda>") else f"'{name}', inside of a function,"
        raise _refused(f"{kind} has no name by which workers could find it: {ADVICE}")
    try:
        found = _in(sys.modules.get(module) or importlib.import_module(module), name)
    except (ImportError, AttributeError):
        found = None
    if found is not function:
        text = f"'{name}' of module '{module}' is another object than the given function"
        raise _refused(f"{text}: {ADVICE}")
    return (main_program() if module == MAIN and not here else module), name


def function_at(module: str, name: str) -> Callable[..., Any]:
    """Return the function at a place that `place_of` has returned. Errors of the import are not
    caught."""
    found: Callable[..., Any] = _in(module_of(module), name)
    return found


def _in(module: object, name: str) -> Any:
    return reduce(getattr, name.split("."), module)


def _refused(text: str) -> ConfigError:
    return ConfigError([f"map(): function: {text}"])
