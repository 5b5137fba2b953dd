"""The numbers of a run as a table, log.csv next to the journal: one row for each progress report
and each test.

The columns are the same in every run, so that a spreadsheet or a script finds them by name. Scores
other than the loss and the accuracy are in the last column, as "accuracy_5=0.98 f1=0.7".
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

FILE = "log.csv"
EVENTS = ("progress", "test")
# seconds since the run began, and since 1970; the second is empty on virtual time
STAMP = ("t", "unix_seconds")
NAMED = (
    "iteration",
    "max_iter",
    "epoch",
    "net",
    "loss",
    "accuracy",
    "learning_rate",
    "elapsed_seconds",
    "images_per_second",
    "staleness",
    "exposed_seconds",
)
COLUMNS = (*STAMP, "event", *NAMED, "others")


def header() -> str:
    """The first line of the file."""
    return _line(COLUMNS)


def row(stamp: Mapping[str, float], event: str, fields: Mapping[str, Any]) -> str:
    """The line of a progress report or test."""
    others = " ".join(f"{name}={value}" for name, value in fields.items() if name not in NAMED)
    known = (fields.get(name, "") for name in NAMED)
    return _line((*(stamp.get(name, "") for name in STAMP), event, *known, others))


def _line(cells: tuple[Any, ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
