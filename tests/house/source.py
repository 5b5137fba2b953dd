"""The source files of the project, as syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ops", "nets", "roles", "runtime")
GENERATED = {"nets/schema/caffe_pb2.py", "nets/schema/onnx_net_pb2.py"}


def files_of(*packages: str) -> list[str]:
    """The Python files of these folders, without the generated ones."""
    found = [
        str(path.relative_to(ROOT))
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    return [name for name in found if name not in GENERATED]


OURS = files_of(*PACKAGES)
TESTS = files_of("tests")


def lines_of(name: str) -> int:
    """The number of lines of a file."""
    return len((ROOT / name).read_text("utf-8").splitlines())


@cache
def tree_of(name: str) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse((ROOT / name).read_text("utf-8"))


@cache
def nodes_of(name: str) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree."""
    return tuple(ast.walk(tree_of(name)))


def dotted(node: ast.AST) -> str:
    """The dotted name, such as "a.b.c", or "" for any other expression."""
    if isinstance(node, ast.Attribute):  # unparsing all expressions would take seconds
        return f"{before}.{node.attr}" if (before := dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


@cache
def imports_of(name: str) -> list[tuple[str, int]]:
    """The full module name and the line of each import anywhere in a file."""
    return list(_imports_of(name))


def _imports_of(name: str) -> Iterator[tuple[str, int]]:
    for node in nodes_of(name):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield ("." * node.level + (node.module or ""), node.lineno)
        elif isinstance(node, ast.Call) and dotted(node.func) in (
            "__import__",
            "importlib.import_module",
        ):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield (first.value, node.lineno)


def top(module: str) -> str:
    """The package of a module."""
    return module.partition(".")[0]


def functions_of(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions and methods of a file."""
    yield from (
        node for node in nodes_of(name) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def classes(wanted: Callable[[ast.ClassDef], bool], *packages: str) -> list[type]:
    """The `wanted` classes at the top level of modules of these packages, in the order of modules
    and lines.
    """
    return [
        getattr(import_module(name.removesuffix(".py").replace("/", ".")), node.name)
        for name in files_of(*packages)
        for node in tree_of(name).body
        if isinstance(node, ast.ClassDef) and wanted(node)
    ]


def opening_of(module: str) -> str:
    """The first paragraph of a module's docstring on one line, whatever its line breaks."""
    return " ".join((import_module(module).__doc__ or "").strip().partition("\n\n")[0].split())
