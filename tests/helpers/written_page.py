"""The page of runs with made-up contents, and the data in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from runtime.page.lineage import whole
from runtime.page.page import page


def report(*directories: Path, lives: bool = False, static: bool = False) -> str:
    """The page of the runs in these directories."""
    return page([whole(directory, lives=lives) for directory in directories], static=static)


def page_data(text: str) -> dict[str, Any]:
    """The data that a page gives to its script."""
    (told,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    found: dict[str, Any] = json.loads(told)
    return found
