"""Alarms for every test: no asyncio task, socket file or child process may be left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is imported: bits depend on the number of BLAS threads

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
if WORKER:  # what a test finds left behind must be its own: test files that run at the same time see other folders
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix=f"{WORKER}-")

import pytest  # noqa: E402
import pytest_asyncio  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from tests.stranger.installed import install  # noqa: E402

__all__ = ["install"]

# How long a case takes, or how many are drawn in vain, says something about the machine, not about the code.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data sets and Caffe files; tests that need it skip by name where it is absent."""
    if not (SHARED / "data").is_dir():
        pytest.skip("needs ../shared/data, which is not here")
    return SHARED / "data"


def pytest_sessionfinish() -> None:
    if WORKER and tempfile.tempdir is not None:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)


@pytest_asyncio.fixture(autouse=True)
async def no_stray_task() -> AsyncIterator[None]:
    yield
    stray = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not stray, f"tasks left behind: {stray}"


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    def sockets() -> set[str]:  # of ended processes and of this one: another run on this machine may have its own
        found = [path.name for path in Path(tempfile.gettempdir()).glob("convoy-sockets-*")]
        owners = {name: name.split("-")[2] for name in found}
        return {name for name in found if owners[name] == str(os.getpid()) or not Path("/proc", owners[name]).exists()}

    def children() -> set[str]:
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    before = sockets(), children()
    yield
    assert sockets() <= before[0], "socket files left behind"
    assert children() <= before[1], "processes left behind"
