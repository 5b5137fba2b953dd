"""Helpers for tests of runs that follow one another: a net whose numbers repeat to the last bit,
and its runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.helpers.survivor import Survivor
from nets.files import checkpoint
from tests.helpers.fc_shards import configured, lenet_with_dropout
from tests.helpers.support import Simulated

ITERATIONS = 24
SAVED_EVERY = 5
Starts = Callable[[Path], Survivor]
PRESETS = {
    "sync": (2, ""),
    "replicas": (2, ""),
    "firecaffe": (4, ""),
    "one-weird-trick": (2, 'scheme = "b"\n'),
    "parameter-server": (2, ""),
    "host-accumulate": (2, ""),
    "mxnet-sync": (2, "servers = 2\n"),
    "islands": (3, 'options = { quorum = "all", period = 2, speeds = [1, 2, 1] }\n'),
}
REPEATS_BY_ITSELF = ("islands",)  # its models learn apart, so it cannot equal one process


def cluster_of(
    folder: Path,
    preset: str,
    restarts: int,
    more: str = "",
    *,
    iterations: int = ITERATIONS,
    every: int = SAVED_EVERY,
) -> Path:
    """Write the cluster.toml of LeNet with dropout, whose numbers repeat to the last bit. A
    checkpoint is saved each `every` iterations.
    """
    workers, strategy = PRESETS[preset]
    if preset not in REPEATS_BY_ITSELF:
        strategy += "reproducible = true\n"
    cluster = configured(
        folder,
        preset,
        workers=workers,
        batch=20,
        net=lenet_with_dropout(),
        iterations=iterations,
        strategy=strategy,
        more=(f"[recovery]\nrestarts = {restarts}\n{more}"),
    )
    solver = folder / "solver.prototxt"
    solver.write_text(solver.read_text().replace("snapshot: 0", f"snapshot: {every}"))
    return cluster


def last_checkpoint(runs: Path, iterations: int = ITERATIONS) -> Path:
    """The checkpoint that the last run saved at its end."""
    # a process that dies as its run ends may leave a run before with the same file
    found = runs.rglob(f"checkpoint-{iterations:07d}.safetensors")
    *_, path = sorted(found, key=lambda file: file.stat().st_mtime_ns)
    return path


def assert_same_bits(path: Path, expected: Simulated) -> None:
    arrays, _ = checkpoint.load(path)
    assert arrays.keys() == expected.arrays.keys()
    differ = [
        name for name, array in expected.arrays.items() if arrays[name].tobytes() != array.tobytes()
    ]
    assert differ == []
