"""One training of airbench94 by each side of `benchmarks.cifar94`, as a user starts it: a process, or
for ours the commands `up` and `test`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.helpers.report import ROOT

TRAIN = [f"data_batch_{number}.bin.gz" for number in range(1, 6)]
TESTS = {"1000": "test_batch_1000.bin.gz", "10000": "test_batch_10000.bin.gz"}
RISING = 0.23  # the share of the training in which the rate rises
WAYS = ("plain", "flips")  # of testing, on both sides
CLUSTER = """[train]
net = "airbench94"
solver = "airbench94_solver"
recipe = "airbench94"
seed = {seed}
precision = "{precision}"
batch = {batch}
epochs = {epochs}
test_epochs = {epochs}
[train.schedule]
warmup_epochs = {warmup}
[train.strategy]
preset = "single"
[train.data]
train = {train}
test = {test}
[[machine]]
threads = {threads}
"""


@dataclass(frozen=True)
class Size:
    """The length of a training, the images of an update, and the threads that it may use."""

    epochs: float = 9.9
    batch: int = 1024
    threads: int = 1

    def __str__(self) -> str:
        return f"{self.epochs:g} epochs of batches of {self.batch}, {self.threads} threads"


@dataclass(frozen=True)
class Trial:
    """A training: `seconds` from the typed command to its end, a test included, the last `loss`, and
    the shares of correct images by test file and way of testing."""

    seconds: float
    loss: float
    accuracy: dict[str, dict[str, float]]

    def plain(self) -> dict[str, Any]:
        """The trial as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Variant:
    """A way in which PyTorch computes."""

    half: bool = False
    compiled: bool = False

    def __str__(self) -> str:
        way = "torch.compile" if self.compiled else "eager"
        return f"{'bfloat16' if self.half else 'float32'}, {way}"

    @property
    def options(self) -> list[str]:
        """The options of the port."""
        return [f"--{name}" for name, given in asdict(self).items() if given]


VARIANTS = [Variant(half, compiled) for half in (False, True) for compiled in (False, True)]


class Failed(Exception):
    """A command that ended with an error, with the end of its output."""


def ours(data: Path, size: Size, precision: str, seed: int) -> Trial:
    """Train with `up` in a precision, then score with `test`. Raises Failed."""
    with tempfile.TemporaryDirectory(prefix="convoy-cifar94-") as name:
        folder = Path(name)
        cluster = folder / "cluster.toml"
        text = CLUSTER.format(
            seed=seed, precision=precision, train=_source(data, TRAIN), test=_source(data, [TESTS["10000"]]),
            warmup=RISING * size.epochs, **asdict(size),
        )  # fmt: skip
        cluster.write_text(text, "utf-8")
        began = time.perf_counter()
        output([sys.executable, "-m", "runtime", "up", str(cluster)], folder)
        seconds = time.perf_counter() - began
        run = next((folder / "runs").glob("*/events.jsonl"))
        events = [json.loads(line) for line in run.read_text("utf-8").splitlines()]
        loss = [event["loss"] for event in events if event["event"] == "progress"][-1]
        accuracy = {
            images: {way: _accuracy(run.parent, folder, data, images, way) for way in WAYS}
            for images in TESTS
        }
    return Trial(seconds, float(loss), accuracy)


def _accuracy(run: Path, folder: Path, data: Path, images: str, way: str) -> float:
    """The share of correct images of a test file, by the run's checkpoint."""
    settings = [
        f"train.data.test={_source(data, [TESTS[images]])}",
        f"train.data.test_flips={'true' if way == 'flips' else 'false'}",
    ]
    words = [word for each in settings for word in ("--set", each)]
    command = [sys.executable, "-m", "runtime", "test", str(run), "cluster.toml", "--json", *words]
    return float(json.loads(output(command, folder).splitlines()[-1])["scores"]["accuracy"])


def _source(data: Path, files: list[str]) -> str:
    return f'{{ format = "cifar10", files = {json.dumps([str(data / name) for name in files])} }}'


def port(data: Path, size: Size, variant: Variant, seed: int) -> Trial:
    """Train and score with PyTorch. Raises Failed."""
    command = [*_port(data, size, variant), "--seed", str(seed), "--epochs", f"{size.epochs:g}"]
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        seconds = 0.0
        for line in process.stdout:
            lines.append(json.loads(line))
            if lines[-1].get("done"):
                seconds = time.perf_counter() - began
        assert process.stderr is not None
        errors = process.stderr.read()
    if process.returncode:
        raise Failed(errors[-2000:])
    done, *scores = lines
    accuracy = {of.pop("images"): of for of in scores}
    return Trial(seconds, done["loss"], accuracy)


def pace(data: Path, size: Size, variant: Variant, updates: int) -> tuple[float, float]:
    """The seconds of PyTorch's first update, which may compile, and of each later one. Raises
    Failed."""
    found = json.loads(output([*_port(data, size, variant), "--pace", str(updates)], ROOT))
    return found["first"], found["next"]


def _port(data: Path, size: Size, variant: Variant) -> list[str]:
    words = [sys.executable, "-m", "benchmarks.cifar94.port", str(data)]
    words += ["--threads", str(size.threads), "--batch", str(size.batch)]
    return words + variant.options


def output(command: list[str], folder: Path) -> str:
    """The output of a command. Raises Failed if it ends with an error."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed((done.stdout + done.stderr)[-2000:])
    return done.stdout
