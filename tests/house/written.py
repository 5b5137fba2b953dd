"""All generated lists: their files and the functions that make their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.house import exports, folder_maps
from tests.house.source import ROOT

COMMAND = "python -m tests.house --write"
Entry = tuple[str, Callable[[], str]]


def entries() -> Iterator[Entry]:
    """Files, each with the function that makes its text, in the order of writing. A file that has a
    map and lists appears twice.
    """
    for path in folder_maps.maps():
        yield f"{_name(path)} (map)", partial(folder_maps.written, path)
    for path in exports.packages():
        yield f"{_name(path)} (exports)", partial(exports.written, path)
    yield from _pages()


def _pages() -> Iterator[Entry]:
    """The pages. Making them imports the code, so the lists of packages are written before."""
    from benchmarks.papers.page import markdown
    from benchmarks.papers.papers import PAPERS
    from tests.house import (
        caffe_fields,
        commands,
        config_keys,
        conversations,
        layers,
        messages,
        metrics,
        wire_formats,
    )
    from tests.house.boards import boards
    from tests.house.pages import DOCS, page

    parts = {
        "caffe.md": {"fields": caffe_fields.markdown},
        "configuration.md": {
            "commands": commands.summary,
            "runtime keys": config_keys.runtime,
            "program keys": config_keys.program,
            "formats": wire_formats.markdown,
        },
        "layers.md": {"layers": layers.types, "solvers": layers.solvers},
        "metrics.md": {"metrics": metrics.markdown},
        "papers.md": {paper.key: partial(markdown, paper) for paper in PAPERS},
        "tuning.md": {"keys": config_keys.tuning},
    }
    for name, made in parts.items():
        yield _name(DOCS / name), partial(page, name, made)
    yield _name(DOCS / "commands.md"), commands.markdown
    yield _name(DOCS / "messages.md"), messages.markdown
    yield _name(DOCS / "conversations.md"), conversations.markdown
    for path, json in boards().items():
        yield _name(path), json


def path_of(name: str) -> Path:
    """The file of an entry."""
    return ROOT / name.partition(" ")[0]


def differing(*, write: bool = False) -> list[str]:
    """The entries whose files differ from the generated text; with `write`, these files are
    written.
    """
    found = []
    for name, make in entries():
        path = path_of(name)
        made = make()
        if path.exists() and path.read_text("utf-8") == made:
            continue
        found.append(name)
        if write:
            path.write_text(made, "utf-8")
    return found


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))
