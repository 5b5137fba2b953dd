"""The lines of predictions: text, JSON or CSV, printed or written to a file."""

from __future__ import annotations

import csv
import io
import json as json_text
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nets import NetError
from nets.files.binary import replacing
from nets.predict import Prediction
from roles.commands.common import say
from runtime.errors import ConfigError
from runtime.reasons import reason
from runtime.terminal_text import one_line


def lines_of(json: bool, output: Path | None) -> Callable[[Prediction], str]:
    """Return the function that makes the lines of a prediction. Raises ConfigError for a file with
    another ending than FORMATS has."""
    kind = "json" if json else "text" if output is None else output.suffix.removeprefix(".")
    if kind not in FORMATS or (json and output is not None):
        found_file = f"{output}{' and --json' if json else ''}"
        expected = "a file that ends with .csv or .json, or --json alone"
        raise ConfigError([f"--output: found {found_file}, expected {expected}"])
    return FORMATS[kind]


@contextmanager
def lines_to(output: Path | None) -> Iterator[Callable[[str], object]]:
    """Give a function that prints lines, or writes them to a file. Raises NetError if the file
    cannot be written."""
    if output is None:
        yield say
        return
    try:
        with replacing(output) as temporary, temporary.open("w", encoding="utf-8") as file:
            if output.suffix == ".csv":
                file.write(f"{','.join(COLUMNS)}\n")
            yield lambda line: file.write(f"{line}\n")
    except OSError as error:
        raise NetError(f"{output}: cannot be written: {reason(error)}") from None
    say(f"wrote {output}")


def _as_text(found: Prediction) -> str:
    """Return the lines of an image. A name has one line, whatever its characters are."""
    if found.error:
        return one_line(f"{found.name}: {found.error}")
    classes = (f"  {each.score:.4f}  {one_line(each.name)}" for each in found.classes)
    return "\n".join([one_line(found.name), *classes])


def _as_json(found: Prediction) -> str:
    said: dict[str, object] = {"image": found.name}
    if found.error:
        return json_text.dumps(said | {"error": found.error})
    return json_text.dumps(said | {"classes": [each._asdict() for each in found.classes]})


def _as_csv(found: Prediction) -> str:
    """Return a row for each class, or one for an image that could not be read."""
    rows: list[tuple[object, ...]] = [
        (found.name, rank, each.number, each.name, f"{each.score:.9g}", "")
        for rank, each in enumerate(found.classes, 1)
    ]
    if found.error:
        rows = [(found.name, "", "", "", "", found.error)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().removesuffix("\n")


COLUMNS = ("image", "rank", "number", "name", "score", "error")  # of a .csv file
FORMATS: dict[str, Callable[[Prediction], str]] = {
    "text": _as_text,
    "json": _as_json,
    "csv": _as_csv,
}
