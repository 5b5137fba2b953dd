"""cuDNN's choices between starts: one small file for each pass of a shape, on one card, with one
version of each library. So a second start tries nothing.

The files are JSON, in the folder of `ops.cache`. A file has all that its choice was made for, and
is used only if all of it is the same now. Each is written under another name and renamed, so
processes that start at once read whole files; the last one counts. A file that cannot be read or
written costs the time of a trial, and one line in the log.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ops.cuda.conv.candidates import Key, Recipe
from ops.cuda.conv.cudnn import Engine

MOST_BYTES = 1 << 16  # no choice is so long
LOWERING = "lowering"
_log = logging.getLogger("ops.cudnn")


class Kept(NamedTuple):
    """A choice that was read; no recipe stands for lowering."""

    recipe: Recipe | None


class KeptChoices:
    """The choices of one card. `made_for` names the card, its driver, and the versions of the
    libraries. Nothing is kept without a folder."""

    def __init__(self, folder: Path | None, made_for: Mapping[str, str]) -> None:
        self._folder = folder
        self._made_for = dict(made_for)
        self._told = False  # whether a failure to write was logged
        self._unread: set[int | None] = set()  # the system's errors of reading that were logged

    def __repr__(self) -> str:
        return f"<cuDNN's choices in {self._folder}>"

    def read(self, key: Key) -> Kept | None:
        """The choice for a pass. None if it was never made, was made for something else, or cannot
        be read; the last two are logged, an error of the system once for all files."""
        wanted = self._facts(key)
        path = self._path(wanted)
        if path is None:
            return None
        try:
            with open(path, "rb", opener=_at_once) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ValueError("it is not a regular file; delete it")  # noqa: TRY301  # told below
                return parsed(file.read(MOST_BYTES), wanted)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in self._unread:
                return None
            self._unread.add(error.errno)
            why = error.strerror or str(error)
        except ValueError as error:
            why = str(error)
        _log.warning("cuDNN, %s of %s: the choice in %s is not used: %s", key[1], key[0], path, why)
        return None

    def write(self, key: Key, recipe: Recipe | None) -> None:
        """Keep a choice. The first failure is logged."""
        wanted = self._facts(key)
        path = self._path(wanted)
        if path is None:
            return
        text = json.dumps({"made for": wanted, "choice": _written(recipe)}, indent=1)
        new = path.with_suffix(f".{os.getpid()}.{os.urandom(4).hex()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(text, "utf-8")
            new.replace(path)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            if not self._told:
                self._told = True
                _log.warning(
                    "cuDNN's choices are not kept in %s: %s; the next start tries them again",
                    self._folder,
                    error.strerror or error,
                )

    def _facts(self, key: Key) -> dict[str, Any]:
        """All that a choice depends on, in the types of JSON."""
        shape, direction, steps, epilogue = key
        g = shape.geometry
        return {
            **self._made_for,
            "pass": str(direction),
            "images": list(shape.in_shape),
            "outputs": shape.outputs,
            "kernel": list(g.kernel),
            "stride": list(g.stride),
            "pad": list(g.pad),
            "dilation": list(g.dilation),
            "groups": g.groups,
            "stored": [str(dtype) for dtype in shape.stored],
            "steps": list(steps),
            "epilogue": str(epilogue),
        }

    def _path(self, wanted: Mapping[str, Any]) -> Path | None:
        if self._folder is None:
            return None
        digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
        return self._folder / f"{digest[:32]}.json"


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a process that writes into it, as into a named pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def parsed(data: bytes, wanted: Mapping[str, Any]) -> Kept:
    """The choice in the bytes of a file. Raises ValueError, with a text for people, if it is none,
    or was made for something else than `wanted`."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("found no JSON, expected a choice of cuDNN; delete the file") from None
    if not isinstance(found, dict) or found.keys() != {"made for", "choice"}:
        raise ValueError("expected the keys 'made for' and 'choice'; delete the file")
    made_for = found["made for"]
    if made_for != wanted:
        kept = made_for if isinstance(made_for, dict) else {}
        what = next((name for name in wanted if kept.get(name) != wanted[name]), "something else")
        raise ValueError(
            f"it was made for {what} {str(kept.get(what))[:80]}, expected {wanted.get(what)}"
        )
    choice = found["choice"]
    return Kept(None if choice == LOWERING else _recipe(choice))


def _written(recipe: Recipe | None) -> object:
    if recipe is None:
        return LOWERING
    return {
        "engine": recipe.engine.number,
        "knobs": dict(recipe.engine.knobs),
        "folded": None if recipe.folded is None else list(recipe.folded),
        "whole": recipe.whole,
    }


def _recipe(choice: Any) -> Recipe:
    expected = {"engine", "knobs", "folded", "whole"}
    found = choice if isinstance(choice, dict) and choice.keys() == expected else {}
    engine, knobs, folded, whole = (
        found.get(name) for name in ("engine", "knobs", "folded", "whole")
    )
    block = (1, 1) if folded is None else tuple(folded) if isinstance(folded, list) else ()
    numbers = [engine, *(knobs.values() if isinstance(knobs, dict) else [None]), *block]
    right = all(type(number) is int and number >= 0 for number in numbers)
    if not right or len(block) != 2 or type(whole) is not bool:
        raise ValueError(
            f"found the choice {str(choice)[:80]}, expected an engine; delete the file"
        )
    assert isinstance(knobs, dict)
    return Recipe(
        Engine(int(found["engine"]), tuple(sorted(knobs.items()))),
        None if folded is None else (block[0], block[1]),
        whole,
    )
