"""`__all__` of packages that only import, and the tables of names that a package imports late.

A package whose `__init__` has only imports exports the names that it imports. A package with a
table `_PLACE_OF` exports the names that it imports for type checkers; the table gives the module of
each name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.house.source import ROOT

WIDTH = 100
ALL = "__all__"
PLACES = "_PLACE_OF"


def packages() -> list[Path]:
    """The packages whose lists are generated."""
    found = [ROOT / name for name in ("ops", "nets", "roles", "runtime")]
    inits = sorted(path for package in found for path in package.rglob("__init__.py"))
    return [path for path in inits if offered(ast.parse(path.read_text("utf-8"))) is not None]


def offered(tree: ast.Module) -> dict[str, str] | None:
    """The module from which each exported name is imported, by name. None if the package has no
    generated list, or if it also exports names that it defines itself.
    """
    assigned = {name for node in tree.body for name in _targets(node)}
    if PLACES in assigned:
        late = [node for node in tree.body if isinstance(node, ast.If)]
        return _imported(child for node in late for child in node.body)
    plain = all(isinstance(node, ast.ImportFrom) or _is_list(node) for node in tree.body[1:])
    return _imported(tree.body) if plain and ALL in assigned else None


def _targets(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_list(node: ast.stmt) -> bool:
    return _targets(node) == [ALL]


def _imported(nodes: Iterable[ast.stmt]) -> dict[str, str]:
    return {
        alias.asname or alias.name: node.module or ""
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }


def written(file: Path) -> str:
    """The text of an `__init__` with its lists."""
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    places = offered(tree) or {}
    names = sorted(places, key=_rank)
    lines = text.splitlines(keepends=True)
    for node in reversed(tree.body):
        if _targets(node) == [ALL]:
            made = _filled(f"{ALL} = [", [f'"{name}"' for name in names], "]")
        elif _targets(node) == [PLACES]:
            rows = [f'"{name}": "{places[name]}"' for name in names]
            made = _filled(f"{PLACES} = {{", rows, "}")
        else:
            continue
        lines[node.lineno - 1 : node.end_lineno] = [made]
    return "".join(lines)


def _rank(name: str) -> tuple[int, str]:
    """The sort key of a name: constants, then classes, then functions, as ruff sorts them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def _filled(begin: str, items: list[str], end: str) -> str:
    line = f"{begin}{', '.join(items)}{end}\n"
    if len(line) <= WIDTH + 1:
        return line
    return "".join([f"{begin}\n", *(f"    {item},\n" for item in items), f"{end}\n"])
