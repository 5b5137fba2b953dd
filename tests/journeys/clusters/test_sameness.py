"""Machines with different programs or data: a run over them does not begin, and the error names the
machine and the difference."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.support import ROOT, configure, events, run_directory, run_up
from tests.stranger.installed import write_metadata

TWINS = """
from runtime import Actor, ActorSpec, Topology
class Lead(Actor):
    async def run(self):
        self.emit("ran")
ROLES = {"twin": Lead}
def plan(config, options):
    return Topology(__name__, (ActorSpec("one", "twin"), ActorSpec("two", "twin")), (("one", "two"),), "one")
"""
TWO = 'program = "twins"\n[launcher]\nkind = "plain"\n[[machine]]\nname = "a"\n'
TWO += (
    '[[process]]\nname = "two"\nmachine = "b"\nactors = ["two"]\n[[process]]\nname = '
    '"one"\nmachine = "a"\n'
)
TWO += 'actors = ["one"]\n[[machine]]\nname = "b"\nhost = "elsewhere"\naddress = "127.0.0.1"\n'
HOST = f"(host {platform.node()})"


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | None], Path]:
    """`twins(folder)` writes a cluster.toml of two machines, started by a launcher of a package.
    The second machine looks for modules and packages in `folder` first."""
    site = tmp_path / "site"
    write_metadata(site, {"convoy.launchers": {"plain": "tests.stranger.launcher:PlainLauncher"}})
    path = os.pathsep.join((str(site), str(ROOT), str(tmp_path)))
    monkeypatch.setenv("PYTHONPATH", path)
    (tmp_path / "twins.py").write_text(TWINS)

    def write(first: Path | None) -> Path:
        cluster = tmp_path / "cluster.toml"
        there = f'environment = {{ PYTHONPATH = "{first}{os.pathsep}{path}" }}\n' if first else ""
        cluster.write_text(TWO + there)
        return cluster

    return write


def other_numpy(folder: Path, version: str) -> Path:
    """A folder with metadata of numpy that name another version."""
    made = folder / "other" / f"numpy-{version}.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: numpy\nVersion: {version}\n")
    return made.parent


def test_another_version_on_one_machine_ends_the_run_before_it_begins(
    tmp_path: Path, twins: Callable[[Path | None], Path]
) -> None:
    cluster = twins(other_numpy(tmp_path, "1.5.0"))
    done = run_up(cluster)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"machine 'b' {HOST} has numpy 1.5.0, expected {np.__version__} as on ")
    assert events(run_directory(cluster), "ran") == events(run_directory(cluster), "began") == []


@pytest.mark.slow
def test_a_patch_of_a_package_is_a_warning_and_the_run_goes_on(
    tmp_path: Path, twins: Callable[[Path | None], Path]
) -> None:
    minor = ".".join(np.__version__.split(".")[:2])
    cluster = twins(other_numpy(tmp_path, f"{minor}.99"))
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    told = [event["text"] for event in events(run_directory(cluster), "warning")]
    assert len(told) == 1
    assert told[0].startswith(f"machine 'b' {HOST} has numpy {minor}.99, expected {np.__version__}")


@pytest.mark.slow
def test_another_source_of_the_program_on_one_machine_ends_the_run(
    tmp_path: Path, twins: Callable[[Path | None], Path]
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "twins.py").write_text(TWINS.replace("ran", "went"))
    done = run_up(twins(tmp_path / "old"))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"machine 'b' {HOST} has a program whose sources have the checksum ")
    assert line.endswith("and 1 more: install the same versions and sources there")


# -- different data


def digits(folder: Path, change: int = 0) -> None:
    """Write images in IDX files. `change` alters one pixel."""
    folder.mkdir()
    images = np.random.default_rng(1).integers(0, 256, (100, 28, 28), dtype=np.uint8)
    images[99, 0, 0] ^= change
    for name, array in (("images", images), ("labels", np.arange(100, dtype=np.uint8) % 10)):
        header = bytes((0, 0, 8, array.ndim)) + b"".join(
            size.to_bytes(4, "big") for size in array.shape
        )
        (folder / name).write_bytes(header + array.tobytes())


def with_data_roots(folder: Path) -> Path:
    """A cluster.toml of two machines, each with a worker and its own data."""
    machines = "".join(
        (f'[[machine]]\nname = "{name}"\nthreads = 1\ndata = "{folder}/{name}"\n') for name in "ab"
    )
    cluster = configure(folder, "sync", workers=2, iterations=2, more=machines)
    idx = '{ format = "idx", images = "images", labels = "labels" }'
    cluster.write_text(cluster.read_text().replace('{ format = "digits", split = "train" }', idx))
    return cluster


@pytest.mark.few("one bit")
@pytest.mark.parametrize("change", [0, pytest.param(1, id="one bit differs")])
def test_each_machine_reads_below_its_own_root_and_must_find_the_same_data(
    tmp_path: Path, change: int
) -> None:
    digits(tmp_path / "a")
    digits(tmp_path / "b", change)
    cluster = with_data_roots(tmp_path)
    done = run_up(cluster)
    if not change:
        assert done.returncode == 0, done.stderr
        assert len(events(run_directory(cluster), "progress")) == 2
        return
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"machine 'b' {HOST} has data of TRAIN 100 samples (1, 28, 28), checksum "
    )
    assert f"as on machine 'a' {HOST}" in line
    assert line.endswith("give every machine the same data and files")
    assert events(run_directory(cluster), "began") == []
