"""The house: the allowed imports between packages, the one file for each foreign library, and the
sizes of files, functions and folders.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.house.source import (
    OURS,
    PACKAGES,
    ROOT,
    TESTS,
    dotted,
    files_of,
    functions_of,
    imports_of,
    lines_of,
    nodes_of,
    top,
    tree_of,
)

# ops <- nets <- roles -> runtime
MAY_IMPORT = {
    "ops": {"ops"},
    "nets": {"nets", "ops"},
    "roles": {"roles", "nets", "ops", "runtime"},
    "runtime": {"runtime"},
}
ONE_FILE_EACH = ("zmq", "cupy", "prometheus_client")
MOST_LINES = 400
MOST_LINES_OF_TESTS = 500
MOST_LINES_OF_A_FUNCTION = 60
MOST_MODULES = 20
LOOPS = "loops that are compiled as a whole; most of its lines are arguments, one a line"
STEPS = "steps of a life in the order in which they happen"
# Folders with one kind of thing in each file: they have as many files as there are kinds.
ONE_KIND_A_FILE = {
    "nets/layers": "a family of layer types",
    "ops/cpu/elementwise": "a family of kernels",
    "ops/reference": "a family of operations",
    "roles/commands": "a command",
    "roles/formats": "a wire format",
    "roles/presets": "a family of presets",
    "runtime/cli": "a command",
}
# Files, "file function" pairs and folders that are larger than a reader expects, each with its
# reason.
LARGE = {
    "ops/cpu/conv/block_loops.py run_tiles": LOOPS,
    "ops/cpu/conv/direct_plans.py _work": "the arguments of a kernel, one a line",
    "ops/cpu/conv/pixel_loops.py _products": LOOPS,
    "ops/cpu/conv/winograd_loops.py winograd_forward": LOOPS,
    "ops/cpu/conv/winograd_weight_loops.py winograd_gradient": LOOPS,
    "ops/cpu/gemm/gemm.py": "the plan of a product and the loops that it counts on",
    "ops/cpu/gemm/gemm.py product": LOOPS,
    "ops/cuda/normalise.py _backward": "the arguments of kernels, one a line",
    "ops/cuda/normalise.py _forward": "the arguments of kernels, one a line",
    "ops/cuda/windows.py pool_forward": "the arguments of kernels, one a line",
    "ops/reference/recurrent.py": "LSTM and RNN, which share their checks and products",
    "nets/graph": "the parts of one class, Net, and the objects that it is made of",
    "runtime/actors": "an actor and what its process does for it, from routes to copies of arrays",
    "roles/learning": "plain objects without messages, each of them used by several roles",
    "roles/planning": "a module for each step from [train] to a topology, and each sort of check",
    "roles/commands/convert.py convert": "half of it is the help of the command",
    "roles/coordination/coordinator.py": "one class: the handlers of the lead, a few lines each",
    "roles/tuning/search.py": "one class: the questions of a search in their order",
    "runtime/cluster/process.py _live": STEPS,
    "runtime/runs/process_run.py": f"one class: {STEPS}",
    "runtime/runs/process_run.py __init__": "the attributes of a run, each with its comment",
    "runtime/runs/run.py _live": STEPS,
    "runtime/transport/zeromq.py": "the one file that knows ZeroMQ",
    "tests/nets/test_layers.py": "a table of cases, and the tests that each case goes through",
    "tests/ops/cases/spatial.py pool": "a table of cases",
    "tests/roles/test_ledgers.py "
    "test_every_report_of_an_iteration_counts_once_and_its_staleness_is_the_largest": (
        "one story, step by step"
    ),
}
# they report the time of day to people and to people's programs; the last gives the event loop its
# clock
TIME_OF_DAY = {
    "runtime/report/rundir.py",
    "runtime/report/tensorboard.py",
    "runtime/machine/loop.py",
    # its thread renews the time for other hosts, also while the loop is blocked
    "runtime/records/up_lock.py",
    # its thread touches a file as a sign of life, and finds old files of killed runs
    "runtime/records/target_files.py",
    "runtime/records/presence.py",  # a command's look at that time
    "runtime/records/sweeping.py",  # the age of a file that a killed process left
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
    # a thread that prefetches or computes sends no message
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


def test_no_code_unpickles_or_evaluates_anything() -> None:
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


def test_larger_files_functions_and_folders_have_a_reason() -> None:
    """Files, functions and folders over the usual sizes are in LARGE, and no others are."""
    modules = Counter(name.rpartition("/")[0] for name in OURS if not name.endswith("/__init__.py"))
    assert ONE_KIND_A_FILE.keys() <= modules.keys()
    found = {
        folder: count
        for folder, count in modules.items()
        if count > MOST_MODULES and folder not in ONE_KIND_A_FILE
    }
    for name in OURS + TESTS:
        most = MOST_LINES if name in OURS else MOST_LINES_OF_TESTS
        if (lines := lines_of(name)) > most:
            found[name] = lines
        for function in functions_of(name):
            lines = (function.end_lineno or 0) - function.lineno + 1
            if lines > MOST_LINES_OF_A_FUNCTION:
                found[f"{name} {function.name}"] = lines
    assert {what: size for what, size in found.items() if what not in LARGE} == {}, (
        "divide it, or give its reason in LARGE"
    )
    assert [what for what in LARGE if what not in found] == [], "no longer large: take it off LARGE"


def test_every_module_opens_with_its_rule() -> None:
    silent = [name for name in OURS if not ast.get_docstring(tree_of(name))]
    tests = [
        name
        for name in TESTS
        if not name.endswith("__init__.py") and not ast.get_docstring(tree_of(name))
    ]
    assert silent + tests == []


def test_text_files_have_one_encoding_whatever_the_locale_is() -> None:
    """Python's default is the locale's encoding. `open` without a mode reads text, too."""
    found = [
        f"{name}:{node.lineno}"
        for name in OURS
        for node in nodes_of(name)
        if isinstance(node, ast.Call) and is_text_without_encoding(node)
    ]
    assert found == []


def is_text_without_encoding(call: ast.Call) -> bool:
    """Whether a call opens a file, or the pipes of a process, as text in the locale's encoding."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    keywords = {keyword.arg for keyword in call.keywords}
    if "encoding" in keywords:
        return False
    if name in ("read_text", "write_text"):
        return len(call.args) <= (name == "write_text")
    mode = [
        word.value
        for word in call.args
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    ]
    # `x.open()` may be the method of any class
    is_open = name == "fdopen" or (name == "open" and (mode or isinstance(call.func, ast.Name)))
    return bool(keywords & {"text", "universal_newlines"}) or (
        bool(is_open) and not any("b" in said for said in mode)
    )


def test_input_is_checked_by_errors_that_an_optimising_python_keeps() -> None:
    """An assert may only state an invariant. An assert with a message is the mark of one that
    checks input.
    """
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


def test_no_two_files_of_tests_have_one_name_for_pytest() -> None:
    """pytest imports a file of tests by its path below the nearest folder that is no package."""
    names = Counter(_name_for_pytest(Path(name)) for name in TESTS if "/test_" in name)
    assert [name for name, count in names.items() if count > 1] == []


def _name_for_pytest(file: Path) -> Path:
    folder = file.parent
    while (ROOT / folder / "__init__.py").exists():
        folder = folder.parent
    return file.relative_to(folder)
