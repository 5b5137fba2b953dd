"""The versions of the software that a process runs. They are recorded in the run directory, and
compared between machines before a run begins."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

from runtime.machine.commit import commit
from runtime.regular import is_file

PACKAGES = (
    "convoy-runtime",
    "numpy",
    "numba",
    "llvmlite",
    "pyzmq",
    "msgpack",
    "msgspec",
    "protobuf",
    "uvloop",
    "prometheus-client",
    "safetensors",
    "simplejpeg",
    "pillow",
)
OURS = ("runtime", "roles", "nets", "ops")
SOURCES = (".py", ".prototxt")  # the nets of the zoo are .prototxt files in the package


@cache
def versions() -> Mapping[str, str]:
    """Return package -> version ("not installed" if the package is missing), and the Python and
    platform in use. The look-up takes 20 ms once, and forked processes inherit its result."""
    system = [platform.system(), platform.release(), platform.machine()]
    if libc := "".join(platform.libc_ver()):
        # the same text as platform.platform(), which would start a process
        system += ["with", libc]
    found = {"python": platform.python_version(), "platform": "-".join(system)}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return MappingProxyType(found)


@cache
def sources() -> str:
    """Return the checksum of our packages' sources at the first call in this process or in the
    process it was forked from. This takes 35 ms on a slow core."""
    return checksum(OURS[0])


@cache
def identity(program: str) -> dict[str, str]:
    """Return the versions, and under "program" a checksum of the sources that a run of this program
    uses. A process that forks others calls this once before it forks them."""
    return {**versions(), "program": sources() if program in OURS else checksum(program)}


def build(program: str) -> dict[str, str]:
    """Return the labels of the metric `convoy_build_info` for a process of this program. `sources`
    is the checksum of `identity`."""
    found = identity(program)
    named = {
        "version": "convoy-runtime",
        "python": "python",
        "numpy": "numpy",
        "numba": "numba",
        "sources": "program",
    }
    return {"commit": commit(), **{label: found[name] for label, name in named.items()}}


def checksum(program: str) -> str:
    """Return a checksum of our packages' sources and of the program's, with their names. Their
    folders do not matter. For a program of one file, the modules next to it that it imports are
    included, and the modules that these import."""
    digest = hashlib.blake2b(digest_size=8)
    for name in dict.fromkeys((*OURS, program)):
        for called, path in _sources(name):
            with suppress(OSError):
                content = path.read_bytes()
                digest.update(f"{called} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _sources(name: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a module, or of a script given by its path, in the same order on every
    machine."""
    if os.sep in name:
        yield from _with_neighbours(Path(name))
        return
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name.partition(".")[0])
        if spec is not None and spec.submodule_search_locations:
            for folder in spec.submodule_search_locations:
                yield from _below(Path(folder))
        elif spec is not None and spec.origin:
            yield from _with_neighbours(Path(spec.origin))


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(SOURCES):
                path = Path(where, name)
                yield path.relative_to(folder.parent).as_posix(), path


def _with_neighbours(first: Path) -> Iterator[tuple[str, Path]]:
    """Yield a file, and the modules next to it that it imports, directly or through each other."""
    waiting = [first]
    known = {first}
    while waiting:
        path = waiting.pop()
        yield path.name, path
        with suppress(OSError, SyntaxError, ValueError):
            for name in sorted(_imports(ast.parse(path.read_bytes()))):
                beside = path.with_name(f"{name}.py")
                package = path.with_name(name)
                if is_file(beside) and beside not in known:
                    known.add(beside)
                    waiting.append(beside)
                elif is_file(package / "__init__.py") and package not in known:
                    known.add(package)
                    yield from _below(package)


def _imports(tree: ast.Module) -> set[str]:
    """Return the first part of the name of each imported module."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
