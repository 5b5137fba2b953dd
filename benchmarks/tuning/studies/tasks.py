"""The nets that learn in the studies: LeNet on MNIST and CIFAR-10 quick."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.helpers.report import ROOT
from benchmarks.presets.runs import Data
from benchmarks.tuning.kept import FILE as TRIALS
from benchmarks.tuning.kept import Kept, Repeated
from benchmarks.tuning.learning import DATA
from benchmarks.tuning.runs import Task, lenet

FOLDER = ROOT / "benchmarks" / "tuning" / "studies"
PICTURES = ROOT / "docs" / "pictures"


@contextmanager
def digits(iterations: int, loss: float) -> Iterator[Task]:
    """LeNet on MNIST up to a mean loss. Without MNIST, on the digits that Convoy has."""
    mnist = DATA / "mnist"
    data = Data(mnist if mnist.is_dir() else None, None)
    with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
        task = replace(lenet(data, Path(folder), iterations, 0.0), loss=loss)
        yield task if data.mnist else replace(task, name="LeNet on the digits")


def kept(study: str, *others: str) -> Kept:
    """The trials of a study. Those of `tradeoff` and of other studies are known too."""
    own, *known = (FOLDER / f"{name}.jsonl" for name in (study, *others))
    return Kept(own, TRIALS, *known)


def iterations(runs: Repeated) -> float:
    """The mean iterations to the target; infinite if a trial did not reach it."""
    found = runs.iterations
    return float("inf") if isinstance(found, str) else found
