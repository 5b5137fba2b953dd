"""The table of wire formats in docs/configuration.md, from their classes."""

from __future__ import annotations

from roles.formats.format import FORMATS
from tests.house.pages import table


def markdown() -> str:
    """A row for each format, in the order of the list."""
    rows = [
        (f"`{name}`", kind.bytes_said, " ".join((kind.__doc__ or "").split()))
        for name, kind in FORMATS.items()
    ]
    return table(("format", "bytes for n numbers", "loss"), rows)
