"""The import of the program that a cluster.toml names: a module that may raise anything."""

import importlib
import os
import sys
import traceback
from pathlib import Path

from runtime.config.problems import found
from runtime.config.toml_source import show_text
from runtime.errors import ConfigError
from runtime.program_interface import Program, program_of

RUNTIME = f"{Path(__file__).parents[1]}{os.sep}"


def imported(name: str, search_dir: Path) -> Program | str:
    """Return the program, or the text of the mistake. `search_dir` is added at the end of
    sys.path."""
    if not all(part.isidentifier() for part in name.split(".")):
        return f"found {found(name)}, expected the name of a Python module, such as 'roles'"
    if (folder := str(search_dir.resolve())) not in sys.path:
        sys.path.append(folder)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            return f"no module named {name!r} on Python's path or next to the file"
        return f"program {name!r} cannot be imported: {_blame(error)}"
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the user's module may raise anything
        return f"program {name!r} cannot be imported: {_blame(error)}"
    try:
        return program_of(module, planned=True)
    except ConfigError as error:
        return error.problems[0]


def _blame(error: BaseException) -> str:
    """Describe the error in one line, with the place that raised it."""
    if isinstance(error, SyntaxError):
        return show_text(f"{error.msg} ({Path(error.filename or '?').name}:{error.lineno})", 300)
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if not f.filename.startswith(("<frozen", RUNTIME))  # leave out the code that raises for it
    ]
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return show_text(f"{type(error).__name__}: {error}{place}", 300)
