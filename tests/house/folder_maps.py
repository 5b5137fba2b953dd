"""The map of a folder in the docstring of its `__init__`: a line for each module.

A module's line is the first sentence of its docstring. If that sentence is long, the line is its
part before a colon or semicolon. The map is the paragraph that begins with the name of a module or
folder. The paragraphs before and after it are written by hand, and so is the order of the lines. A
new module is added at the end. A folder without an `__init__`, such as the zoo, keeps its line.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

from tests.house.source import ROOT

WIDTH = 100
SENTENCE = re.compile(r"(.*?(?:\?|[^.](?=\.)))\.?(?:\s|$)")
LONG = 80  # characters: a longer sentence ends at its first colon or semicolon
WORDS = 3  # the fewest words before that colon or semicolon


def first_sentence(docstring: str) -> str:
    """The first sentence of a docstring on one line; of a long sentence, its first clause."""
    text = " ".join(docstring.split("\n\n")[0].split())
    found = SENTENCE.match(text)
    sentence = found[1] if found else text
    if len(sentence) <= LONG:
        return sentence
    ends = [match.start() for match in re.finditer(r"[:;] ", sentence)]
    return next((sentence[:end] for end in ends if len(sentence[:end].split()) >= WORDS), sentence)


def inside(folder: Path) -> dict[str, str]:
    """The map line of each module and folder, by name (a folder ends with a slash). "" if the code
    has no docstring.
    """
    found = {path.stem: path for path in folder.glob("[a-z]*.py")}
    found |= {
        f"{path.name}/": path / "__init__.py"
        for path in folder.iterdir()
        if path.is_dir() and not path.name.startswith(("_", "."))
    }
    return {name: _line_of(path) for name, path in sorted(found.items())}


def _line_of(path: Path) -> str:
    if not path.exists():
        return ""
    return first_sentence(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")


def mapped(docstring: str, lines: dict[str, str]) -> str:
    """The docstring with the folder's map, made of these lines."""
    parts = docstring.split("\n\n")
    names = {name.rstrip("/"): name for name in lines}
    at = next((n for n, part in enumerate(parts) if _begins(part, names)), None)
    before = _by_hand(parts[at], names) if at is not None else {}
    order = [*before, *(name for name in lines if name not in before)]
    said = {name: lines[name] or before.get(name, "") for name in order}
    made = _table({name: line for name, line in said.items() if line})
    if at is not None:
        parts[at] = made
    elif made:
        parts.insert(1, made)
    return "\n\n".join(part for part in parts if part)


def _begins(part: str, names: dict[str, str]) -> bool:
    first = re.match(r"(\w+)/?(?: .*?)?  +\S", part)
    return first is not None and first[1] in names


def _by_hand(part: str, names: dict[str, str]) -> dict[str, str]:
    """The lines of a map by name, in the order of the map."""
    found: dict[str, str] = {}
    for line in re.sub(r"\n +", " ", part).splitlines():
        words = line.split()
        while words and (name := names.get(words[0].rstrip("/"))) is not None:
            words.pop(0)
            found.setdefault(name, " ".join(words))
    return found


def _table(lines: dict[str, str]) -> str:
    width = max(map(len, lines), default=0) + 2
    rows = [
        textwrap.fill(
            line,
            WIDTH,
            initial_indent=name.ljust(width),
            subsequent_indent=" " * width,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, line in lines.items()
    ]
    return "\n".join(rows)


def written(file: Path) -> str:
    """The text of an `__init__` with its map."""
    text = file.read_text("utf-8")
    opening = ast.parse(text).body[0]
    lines = text.splitlines(keepends=True)
    end = opening.end_lineno or 1
    made = mapped(ast.get_docstring(ast.parse(text)) or "", inside(file.parent))
    closing = '\n"""\n' if "\n" in made else '"""\n'
    return f'"""{made}{closing}{"".join(lines[end:])}'


def maps() -> list[Path]:
    """The files with a map."""
    found = [ROOT / name for name in ("ops", "nets", "roles", "runtime")]
    return sorted(path for package in found for path in package.rglob("__init__.py"))
