"""The program of a topology, where its actors live: an importable module, or the script that laid the topology out.

A script's own module is `__main__`, which no other process can import: there it is loaded by its path, under the name
SCRIPT, as `multiprocessing` does it. So a script keeps what starts a run under `if __name__ == "__main__":`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

from runtime.actors.actor import Actor
from runtime.errors import ConfigError, LaunchError
from runtime.messages.message import SCRIPT
from runtime.plan.topology import ActorSpec

MAIN = "__main__"
GUARD = 'keep that under `if __name__ == "__main__":`'

_loading: list[str] = []  # scripts that are being loaded for their roles
_failed: dict[str, BaseException] = {}  # and those that could not be: the first error tells more than the second


def main_program() -> str:
    """What other processes call the program `__main__`: a module's name, or the path of its file.

    ConfigError if it has neither, as in a notebook.
    """
    main = sys.modules[MAIN]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name)
    if file is None or not Path(file).is_file():
        text = "the topology's program is __main__, which has no file here: its roles cannot reach other processes; "
        text += "write them into a module, or run the actors in this process with processes='here'"
        raise ConfigError([f"topology: {text}"])
    return str(Path(file).resolve())


def is_script(program: str) -> bool:
    """Is it the path of a file?"""
    return os.sep in program


def import_program(program: str) -> ModuleType:
    """The program's module, imported by its name or, a script, by its path; what its import raises comes through."""
    if not is_script(program):
        return importlib.import_module(program)
    known = sys.modules.get(SCRIPT)
    if known is not None and known.__file__ == program:
        return known
    if program in _failed:
        raise _failed[program]
    return _loaded(program)


def _loaded(path: str) -> ModuleType:
    loader = SourceFileLoader(SCRIPT, path)
    spec = ModuleSpec(SCRIPT, loader, origin=path)
    spec.has_location = True
    module = sys.modules[SCRIPT] = importlib.util.module_from_spec(spec)
    _loading.append(path)
    try:
        loader.exec_module(module)
    except BaseException as error:  # noqa: BLE001  # raised again, the same one each time
        del sys.modules[SCRIPT]
        ended = LaunchError(f"{path}: ends when its roles are loaded: {GUARD}")
        _failed[path] = ended if isinstance(error, SystemExit) else error
        raise _failed[path] from None
    finally:
        _loading.pop()
    return module


def stop_if_loading() -> None:
    """LaunchError if a script that is loaded for its roles would start a run of its own."""
    if _loading:
        raise LaunchError(f"{_loading[-1]}: starts a run when its roles are loaded: {GUARD}")


def actor_of(module: ModuleType, spec: ActorSpec) -> Actor:
    """A new actor. LaunchError if the program has no such role."""
    roles = getattr(module, "ROLES", None)
    if not isinstance(roles, dict):
        raise LaunchError(f"program '{module.__name__}' has no ROLES, a table of role names and actor classes")
    if spec.role not in roles:
        known = ", ".join(sorted(roles))
        raise LaunchError(f"actor '{spec.name}': the program has no role '{spec.role}'; its roles are {known}")
    made: Actor = roles[spec.role](**spec.options)
    return made
