"""The boards of docs/monitoring, as their script generates them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from tests.house.pages import DOCS

MONITORING = DOCS / "monitoring"


def boards() -> dict[Path, Callable[[], str]]:
    """The function that generates each board, by file. Empty if the package that generates boards
    is missing.
    """
    if importlib.util.find_spec("grafana_foundation_sdk") is None:
        return {}
    return {MONITORING / "boards" / f"{board.name}.json": board.json for board in script().BOARDS}


def script() -> ModuleType:
    """Import docs/monitoring/boards.py. Raises ImportError if the package that generates boards is
    missing.
    """
    spec = importlib.util.spec_from_file_location("boards", MONITORING / "boards.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    sys.path.remove(str(MONITORING))
    return made
