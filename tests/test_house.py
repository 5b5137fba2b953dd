"""The house: which package imports which, who alone may touch a library, and the size of things."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ops", "nets", "roles", "runtime")
GENERATED = {"nets/schema/caffe_pb2.py"}
# ops <- nets <- roles -> runtime
MAY_IMPORT = {
    "ops": {"ops"},
    "nets": {"nets", "ops"},
    "roles": {"roles", "nets", "ops", "runtime"},
    "runtime": {"runtime"},
}
ONE_FILE_EACH = ("zmq", "cupy", "prometheus_client")
# files over 350 lines and functions over 50, each with its reason
LONG = {
    "roles/commands/convert.py convert": "half of it is the help of the command",
    "runtime/cluster/process.py _live": (
        "the life of a process from Hello to its end, in the order in which it happens"
    ),
}
# they tell people, and programs of people, the time of the day; the last gives the event loop its
# clock
TIME_OF_DAY = {
    "runtime/report/rundir.py",
    "runtime/report/tensorboard.py",
    "runtime/machine/loop.py",
    # its thread renews the time for other hosts, also where the loop is blocked
    "runtime/records/up_lock.py",
    "runtime/records/presence.py",  # a command's look at that time
    "runtime/records/sweeping.py",  # how old a file is that a killed process left
}
CALLS_OF_TIME = {
    "time",
    "sleep",
    "monotonic",
    "perf_counter",
    "time_ns",
    "monotonic_ns",
    "perf_counter_ns",
}


def files_of(*packages: str) -> list[str]:
    found = [
        str(path.relative_to(ROOT))
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    return [name for name in found if name not in GENERATED]


OURS = files_of(*PACKAGES)
TESTS = files_of("tests")


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text("utf-8"))


@cache
def nodes_of(name: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(name)))


def dotted(node: ast.AST) -> str:
    """ "a.b.c", or "" for what is no such name: unparsing all expressions takes seconds."""
    if isinstance(node, ast.Attribute):
        return f"{before}.{node.attr}" if (before := dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


@cache
def imports_of(name: str) -> list[tuple[str, int]]:
    """(full module name, line) of everything a file imports, wherever in the file."""
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
    return module.partition(".")[0]


def functions_of(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (
        node for node in nodes_of(name) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_there_is_something_to_check() -> None:
    assert len(OURS) > 50
    assert {top(name.replace("/", ".")) for name in OURS} == set(PACKAGES)


def test_packages_import_along_the_arrows_only() -> None:
    against = [
        f"{name}:{line} imports {module}"
        for name in OURS
        for module, line in imports_of(name)
        if top(module) in PACKAGES and top(module) not in MAY_IMPORT[name.partition("/")[0]]
    ]
    assert against == []


def test_imports_name_their_package_in_full_so_that_the_arrows_can_be_seen() -> None:
    assert [
        f"{name}:{line}"
        for name in OURS
        for module, line in imports_of(name)
        if module.startswith(".")
    ] == []


def test_arrays_and_nets_know_nothing_of_messages_or_event_loops() -> None:
    foreign = {"asyncio", "zmq", "msgpack", "uvloop", "threading", "multiprocessing"}
    # a thread that prefetches or computes is no message
    allowed = {("ops", "threading"), ("nets", "threading")}
    found = [
        f"{name}:{line} imports {module}"
        for name in files_of("ops", "nets")
        for module, line in imports_of(name)
        if top(module) in foreign and (name.partition("/")[0], top(module)) not in allowed
    ]
    assert found == []


@pytest.mark.parametrize("library", ONE_FILE_EACH)
def test_one_file_knows_each_of_these_libraries(library: str) -> None:
    users = {name for name in OURS for module, _ in imports_of(name) if top(module) == library}
    assert len(users) <= 1, f"{library} is imported in {sorted(users)}"


def test_nobody_unpickles_or_evaluates_anything() -> None:
    forbidden = {
        "pickle",
        "cPickle",
        "_pickle",
        "dill",
        "cloudpickle",
        "shelve",
        "marshal",
        "joblib",
    }
    found = [
        f"{n}:{line} {module}"
        for n in OURS + TESTS
        for module, line in imports_of(n)
        if top(module) in forbidden
    ]
    for name in OURS:
        for node in nodes_of(name):
            if isinstance(node, ast.Call) and dotted(node.func) in ("eval", "exec"):
                found.append(f"{name}:{node.lineno} {dotted(node.func)}")
            if (
                isinstance(node, ast.keyword)
                and node.arg == "allow_pickle"
                and ast.unparse(node.value) != "False"
            ):
                found.append(f"{name}:{node.lineno} allow_pickle")
    assert found == []


def test_runtime_and_roles_take_time_from_the_event_loop_only() -> None:
    found = []
    for name in files_of("runtime", "roles"):
        if name in TIME_OF_DAY:
            continue
        found += [
            f"{name}:{line} imports time"
            for module, line in imports_of(name)
            if top(module) == "time"
        ]
        for node in nodes_of(name):
            if (
                isinstance(node, ast.Attribute)
                and dotted(node).startswith("time.")
                and node.attr in CALLS_OF_TIME
            ):
                found.append(f"{name}:{node.lineno} {dotted(node)}")
    assert found == []


def test_no_file_is_longer_than_350_lines_and_no_function_longer_than_50() -> None:
    long = {name for name in OURS if len((ROOT / name).read_text("utf-8").splitlines()) > 350}
    for name in OURS:
        for function in functions_of(name):
            if (function.end_lineno or 0) - function.lineno + 1 > 50:
                long.add(f"{name} {function.name}")
    assert long == set(LONG)


def test_no_file_of_tests_is_longer_than_400_lines() -> None:
    assert [
        name for name in TESTS if len((ROOT / name).read_text("utf-8").splitlines()) > 400
    ] == []


def test_every_module_opens_with_its_rule() -> None:
    silent = [name for name in OURS if not ast.get_docstring(tree_of(name))]
    tests = [
        name
        for name in TESTS
        if not name.endswith("__init__.py") and not ast.get_docstring(tree_of(name))
    ]
    assert silent + tests == []


def test_the_docstring_of_each_folder_names_all_that_is_in_it() -> None:
    missing = []
    for name in OURS:
        if name.endswith("/__init__.py"):
            words = set(re.findall(r"\w+", ast.get_docstring(tree_of(name)) or ""))
            folder = (ROOT / name).parent
            inside = {path.stem for path in folder.glob("[a-z]*.py")}
            inside |= {path.parent.name for path in folder.glob("*/__init__.py")}
            missing += [f"{folder.relative_to(ROOT)}: {stem}" for stem in sorted(inside - words)]
    assert missing == []


def test_input_is_checked_by_errors_that_an_optimising_python_keeps() -> None:
    """An assert may only state an invariant: a message of its own is the mark of one that checks
    input."""
    found = [
        f"{name}:{node.lineno}"
        for name in OURS
        for node in nodes_of(name)
        if isinstance(node, ast.Assert) and node.msg is not None
    ]
    assert found == []


def test_the_names_of_tests_are_sentences() -> None:
    short = [
        f"{name}:{function.lineno} {function.name}"
        for name in files_of("tests/runtime", "tests/roles", "tests/contracts")
        for function in functions_of(name)
        if function.name.startswith("test_") and function.name.count("_") < 3
    ]
    assert short == []
