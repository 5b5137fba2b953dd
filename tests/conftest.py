"""Checks around every test: no asyncio task, socket file or child process may be left behind. And
the selection of the tests of a run.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import signal
import tempfile
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path

# Set before numpy is imported, since bits depend on the number of BLAS threads. Two test processes
# with kernels on two threads each take 1.8 times as long on two cores as with one thread each.
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "CONVOY_THREADS"):
    os.environ[variable] = "1"

# Some machines forbid bytecode files for all programs. Each of the hundreds of runs would then
# compile all its modules again: 1.9 s of the 5.2 s of processor time that a run of six processes
# needs to start and end.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell ignores SIGINT in background processes, and runs inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Files that a test finds left behind must be its own, so every test process has a temporary folder
# that no other program uses. `tmp_path` stays where pytest keeps it for people to look at.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
OWN = tempfile.mkdtemp(prefix=f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-")
os.environ["TMPDIR"] = tempfile.tempdir = OWN
# runs of tests are not for the Prometheus of the user
os.environ["XDG_STATE_HOME"] = f"{OWN}/state"

import pytest  # noqa: E402
import pytest_asyncio  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from tests.stranger.installed import install  # noqa: E402

__all__ = ["install"]

# The time of a case, or the number of rejected draws, depends on the machine more than on the code.
# The examples of `house` depend on the test alone, so that one commit has one answer. Other examples
# at each run: `--hypothesis-profile=explore`.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("house", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("house")

TESTS = Path(__file__).resolve().parent
# Of a slow test that names no other limit. Some take a minute, and a busy machine had a third of its
# usual speed.
SLOW_SECONDS = 300
LONG = ("benchmarks", "chaos", "gpu", "journeys", "stranger")
SHARED = TESTS.parents[1] / "shared"


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data sets and Caffe files. Tests that need it are skipped with this reason
    if it is absent.
    """
    if not (SHARED / "data").is_dir():
        pytest.skip("needs ../shared/data, which is not here")
    return SHARED / "data"


def is_long(path: Path) -> bool:
    """Return whether a test file lies directly in tests/ or in one of the rooms whose files take
    long.
    """
    if not path.is_relative_to(TESTS):
        return False
    room, *rest = path.relative_to(TESTS).parts
    return not rest or room in LONG


@cache
def files_naming(word: str) -> frozenset[Path]:
    """The test files that contain a word, if the word is part of the name of a test; otherwise
    none.
    """
    word = word.lower()
    texts = (
        {path: path.read_text("utf-8").lower() for path in TESTS.rglob("test_*.py")}
        if word.isidentifier()
        else {}
    )
    if not any(re.search(rf"def (?=test)\w*{word}", text) for text in texts.values()):
        return frozenset()
    return frozenset(
        path for path, text in texts.items() if word in text or word in str(path.relative_to(TESTS))
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        metavar="I/N",
        help="of the slow tests only part I of N, from 0 (tests/part.py)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A run of one named test or one file starts no worker processes, and includes the test also if
    it is slow.
    """
    paths = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    named = bool(files_naming(config.option.keyword)) or any("::" in path for path in paths)
    given = config.invocation_params.args
    if (named or (len(paths) == 1 and Path(paths[0]).is_file())) and not any(
        argument.startswith(("-n", "--numprocesses")) for argument in given
    ):
        config.option.numprocesses = 0
        config.option.dist = "no"
    if named and not any(argument.startswith("-m") for argument in given):
        config.option.markexpr = ""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import fewer files. `-k` with a part of a test's name imports only the files that contain the
    word; `-m slow` only those that can have a slow test.

    Each process of a run collects all its tests, which takes 7 to 10 s of processor time for all of
    them.
    """
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    wanted = files_naming(config.option.keyword)
    unwanted = bool(wanted) and collection_path not in wanted
    if not unwanted and config.option.markexpr == "slow":
        unwanted = not re.search(r"mark\.(slow|few)\b", collection_path.read_text("utf-8"))
    return True if unwanted else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Prepare the collected tests.

    Coroutines must leave no task behind. Of a grid marked `few`, the cases that are not chosen are
    slow. Slow tests have more time. Folders whose files take long come first, since a long file at
    the end leaves a core idle.
    """
    items.sort(key=lambda item: not is_long(item.path))
    grids: dict[object, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if pytest_asyncio.is_async_test(item) and "no_stray_task" not in item.fixturenames:
            # set up first, so that it looks when all other fixtures are torn down
            item.fixturenames.insert(0, "no_stray_task")
        if item.get_closest_marker("few"):
            grids[item.parent, item.originalname].append(item)
    unknown: list[str] = []
    for cases in grids.values():
        marker = cases[0].get_closest_marker("few")
        parts = marker.args if marker else ()
        unknown += [
            f"{cases[0].originalname}[{part}"
            for part in parts
            if not any(part in c.name for c in cases)
        ]
        for case in cases:
            if not any(part in case.name for part in parts):
                case.add_marker("slow")
    if part := config.getoption("part"):
        number, count = map(int, part.split("/"))
        other = [item for item in items if _number(item) % count != number]
        left = [item for item in other if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=left)
        gone = {*left}
        items[:] = [item for item in items if item not in gone]
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))
    # only without node ids are the grids complete
    if unknown and not any("::" in path for path in config.args):
        raise pytest.UsageError(f"marked `few` with a part that no case's name contains: {unknown}")


def _number(item: pytest.Item) -> int:
    """A number of the test's function, the same in every run: all cases of a grid share fixtures."""
    return zlib.crc32(item.nodeid.partition("[")[0].encode())


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Freeze the collected tests for the garbage collector. They stay until the end, a look at all
    of them takes 0.3 s, and one test may ask for ten collections.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    shutil.rmtree(OWN, ignore_errors=True)


@pytest_asyncio.fixture
async def no_stray_task() -> AsyncIterator[None]:
    yield
    stray = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not stray, f"tasks left behind: {stray}"


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # the thread has ended since
        return []


def _command(pid: str) -> str:
    try:
        return f"{pid} {Path('/proc', pid, 'cmdline').read_text()}".replace("\0", " ")
    except OSError:  # it has ended since
        return pid


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    # of ended processes and of this one: runs that a fixture keeps have their own
    def sockets() -> set[str]:
        found = [path.name for path in Path(tempfile.gettempdir()).glob("convoy-sockets-*")]
        owners = {name: name.split("-")[2] for name in found}
        return {
            name
            for name in found
            if owners[name] == str(os.getpid()) or not Path("/proc", owners[name]).exists()
        }

    def children() -> set[str]:
        # of all threads: a thread that ends leaves its processes to another one
        return {pid for path in Path("/proc/self/task").glob("*/children") for pid in _words(path)}

    before = sockets(), children()
    yield
    assert sockets() <= before[0], "socket files left behind"
    left = children() - before[1]
    assert not left, f"processes left behind: {[_command(pid) for pid in left]}"
