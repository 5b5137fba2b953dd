"""A part of the GPU benchmark: whole runs by `python -m runtime up`, with every role that computes
on the GPU.

Each run is made twice, with a deterministic cuBLAS (CUBLAS_WORKSPACE_CONFIG), and both must leave
the same bits. For host-accumulate, the part of an iteration that is exposed exchange is recorded
too: exchange during which nothing is computed.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from benchmarks.gpu.sizes import Sizes
from benchmarks.helpers.report import ROOT, Record

PRESETS = (("single", 1), ("omnivore", 2), ("host-accumulate", 2))
RUN_SECONDS = 25
ENDED = 128 + signal.SIGTERM  # the exit code of a run that was told to end, and has saved
RATES = {"lenet": 0.01, "cifar10_quick": 0.001, "resnet50": 0.001}
# of CIFAR-10; made-up images have small values around 0
MEANS = "mean_value: 125.3 mean_value: 123.0 mean_value: 113.9"
LEARNT = {"lenet": 0.9, "cifar10_quick": 0.5}  # least accuracy after a whole run, ten classes
DATA = {
    "lenet": '{{ format = "digits", split = "{split}" }}',
    "cifar10_quick": '{{ format = "synthetic", shape = [3, 32, 32], classes = 10, size = 2000 }}',
    "resnet50": '{{ format = "synthetic", shape = [3, 224, 224], classes = 1000, size = 320 }}',
}
CLUSTER = """
[placement]
processes = "{processes}"
[train]
net = "net.prototxt"
solver = "solver.prototxt"
batch = {batch}
devices = {{ {devices} }}
cudnn = "deterministic"
[train.data]
train = {train}
test = {test}
[train.strategy]
preset = "{preset}"
workers = {workers}
{shares}[liveness]
start_seconds = 60.0
progress_seconds = 60.0
"""
SOLVER = """
net: "net.prototxt"
base_lr: {rate} momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed"
max_iter: {iterations} display: {display} snapshot: 0
"""


def runs(record: Record, sizes: Sizes) -> None:
    """Record the accuracy, speed and exposed exchange of each net with each preset, and check that
    a second run leaves the same bits."""
    record.table(
        "Runs on the device",
        "net",
        "preset",
        "workers",
        "iterations",
        "accuracy",
        "images/s",
        "seconds",
        "exposed, part of an iteration",
        "the same bits again",
    )
    assert record.path is not None
    whole = len(sizes.runs) > 1
    for net, batch, iterations in sizes.runs:
        for preset, workers in PRESETS:
            made = []
            for turn in ("first", "again"):
                folder = record.path.with_suffix("") / f"{net}-{preset}-{turn}"
                configured(folder, net, batch, iterations, preset, workers, sizes.device)
                made.append(journal(record, folder, f"{net}, {preset}"))
            if None in made:
                continue
            first, again = made
            end = first["finished"][-1]
            same = bits(first) == bits(again)
            cells = (
                end["iterations"],
                end["accuracy"],
                steady(first),
                end["seconds"],
                exposed(first, batch),
                same,
            )
            record.row(net, preset, workers, *cells)
            if not same:
                record.fail(f"{net}, {preset}: a second run left other bits")
            if whole and end["accuracy"] < LEARNT[net]:
                record.fail(
                    f"{net}, {preset}: accuracy {end['accuracy']:.3f}, expected at "
                    f"least {LEARNT[net]}"
                )


def configured(
    folder: Path,
    net: str,
    batch: int,
    iterations: int,
    preset: str,
    workers: int,
    device: str,
    processes: str = "one-per-actor",
    others: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write cluster.toml and its solver. `others`: actors with another device."""
    folder.mkdir(parents=True)
    display = max(1, min(50, iterations // 20))
    text = (ROOT / "nets" / "zoo" / f"{net}.prototxt").read_text().replace(MEANS, "scale: 50")
    (folder / "net.prototxt").write_text(text)
    text = SOLVER.format(rate=RATES[net], iterations=iterations, display=display)
    (folder / "solver.prototxt").write_text(text)
    train, test = (DATA[net].format(split=split) for split in ("train", "test"))
    devices = ", ".join(f'"{name}" = "{where}"' for name, where in {**others, "*": device}.items())
    text = CLUSTER.format(
        batch=batch, devices=devices, train=train, test=test, preset=preset, workers=workers,
        processes=processes, shares='shares = "throughput"\n' if others else "",
    )  # fmt: skip
    (folder / "cluster.toml").write_text(text)


def journal(
    record: Record, folder: Path, what: str, seconds: float = RUN_SECONDS
) -> dict[str, Any] | None:
    """Make a run, which gets SIGTERM after so many seconds. Returns its events by kind and its
    directory; None if it failed, with its output in the record."""
    output, code = _run_up(folder, seconds)
    found: dict[str, Any] = {"directory": next(folder.glob("runs/*"), None)}
    for file in folder.glob("runs/*/events.jsonl"):
        for line in file.read_text().splitlines():
            event = json.loads(line)
            found.setdefault(event["event"], []).append(event)
    if code in (0, ENDED) and "finished" in found:
        return found
    record.fail(f"{what}: ended with {code}:\n\n```\n{output[-3000:]}\n```")
    return None


def bits(found: dict[str, Any]) -> bytes:
    """The bytes of all arrays in the run's last checkpoint."""
    from nets.files import checkpoint

    arrays, _ = checkpoint.load(found["directory"] / found["checkpoint"][-1]["file"])
    return b"".join(arrays[name].tobytes() for name in sorted(arrays))


def steady(found: dict[str, Any]) -> float:
    """Images a second after the first passes, which compile and choose: over the last two thirds of
    the reports."""
    said = found.get("progress", [])
    said = said[len(said) // 3 :]
    began, ended = said[0], said[-1]
    if began is ended:
        return float(found["finished"][-1]["images_per_second"])
    images = sum(
        later["images_per_second"] * (later["elapsed_seconds"] - earlier["elapsed_seconds"])
        for earlier, later in itertools.pairwise(said)
    )
    return float(images / (ended["elapsed_seconds"] - began["elapsed_seconds"]))


def exposed(found: dict[str, Any], batch: int) -> float:
    """The part of an iteration that is exposed communication, in which nothing is computed; 0 if
    the run reports none."""
    said = [event for event in found.get("progress", []) if event.get("images_per_second")]
    parts = [
        event.get("exposed_seconds", 0.0) * event["images_per_second"] / batch
        for event in said[len(said) // 3 :]
    ]
    return median(parts) if parts else 0.0


def _run_up(folder: Path, seconds: float) -> tuple[str, int | None]:
    """The output and exit code of `up`. A run that is not over after `seconds` gets SIGTERM, and
    SIGKILL five seconds later."""
    command = [sys.executable, "-m", "runtime", "up", "cluster.toml"]
    path = str(ROOT) + os.pathsep + os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": path, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    with (folder / "output.txt").open("w") as file:
        running = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(5)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
    return (folder / "output.txt").read_text(), running.returncode
