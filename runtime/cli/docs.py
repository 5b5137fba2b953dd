"""`docs`: a page of the documentation in the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from runtime.cli.arguments import Switch
from runtime.errors import ConfigError
from runtime.own_packages import DISTRIBUTION, OURS
from runtime.suggest import hint, near_hint
from runtime.typed_name import shown

FIRST = "README"
PLACE = ("share", DISTRIBUTION, "docs")  # of the pages of a wheel, below the prefix
PAGER = "FRX"  # options of `less`: end if it fits on the screen, colours, leave it on the screen
HEADING = re.compile(r"^(#+) (.*)$")


def docs(page: str = FIRST, *, list: Switch = False) -> int:  # noqa: A002  # the option's name
    """Show a page of the documentation.

    A terminal shows it formatted, in a pager; a pipe gets the Markdown.

    Parameters
    ----------
    page
        The name of the page, as messages write it: `cluster`, `docs/cluster.md`, or with a section:
        `docs/cluster.md#threads-and-cores`.
    list
        List the names of all pages, each with its title.
    """
    pages = _pages()
    if list:
        wide = max(map(len, pages))
        for name, path in pages.items():
            _write(f"{name:{wide}}  {_title(path)}\n")
        return 0
    name, _, section = page.partition("#")
    name = name.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        every = shown("docs --list")
        near = near_hint(name, pages)
        raise ConfigError([f"no page is called '{name}'{near}; all pages: {every}"])
    text = pages[name].read_text("utf-8")
    _show(_section(text, section, name) if section else text)
    return 0


def _pages() -> Mapping[str, Path]:
    """Return name -> file of every page: those next to Convoy's packages, else those of the
    installed wheel. Raises ConfigError if there are none."""
    beside = OURS / "docs"
    files = [(path.relative_to(beside), path) for path in beside.rglob("*.md")]
    if not files:
        files = _installed()
    if not files:
        text = f"{beside}: the pages of the documentation are missing"
        raise ConfigError([f"{text}: `pip install --force-reinstall --no-deps {DISTRIBUTION}`"])
    return {str(name.with_suffix("")): path for name, path in sorted(files)}


def _installed() -> list[tuple[Path, Path]]:
    try:
        files = distribution(DISTRIBUTION).files or ()
    except PackageNotFoundError:
        return []
    found = []
    for file in files:
        parts = file.parts
        if file.suffix == ".md" and PLACE[-2:] == parts[-3:-1]:
            found.append((Path(file.name), Path(str(file.locate()))))
        elif file.suffix == ".md" and PLACE[-2:] == parts[-4:-2]:
            found.append((Path(*parts[-2:]), Path(str(file.locate()))))
    return found


def _title(path: Path) -> str:
    return path.read_text("utf-8").partition("\n")[0].lstrip("# ")


def _section(text: str, wanted: str, page: str) -> str:
    """Return the section with this anchor, with the sections below it. Raises ConfigError if the
    page has none."""
    found: list[str] = []
    depth = 0
    known: list[str] = []
    for line in text.splitlines():
        if heading := HEADING.match(line):
            level = len(heading[1])
            known.append(_anchor(heading[2]))
            if found and level <= depth:
                break
            if known[-1] == wanted:
                depth = level
        if depth:
            found.append(line)
    if not found:
        raise ConfigError([f"page '{page}' has no section '{wanted}'{hint(wanted, known)}"])
    return "\n".join(found) + "\n"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        _write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", PAGER)
    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))


def _write(text: str) -> None:
    sys.stdout.write(text)
