"""The parts of the GPU benchmark: facts, contract, layers, steps, digits. Each runs in a process of its own.

Their order and time budgets are in `gpu`.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import ROOT, Record, seconds_of
from ops import Backend, get_backend

SAME_LOSS = 1e-3  # relative; sums of float32 in another order
SAME_ACCURACY = 0.02  # 7 of the 359 test images: rounding sends the two runs along different paths


@dataclass(frozen=True)
class Sizes:
    """How much is measured: whole sizes on a GPU, small ones in a rehearsal."""

    backend: str
    device: str
    contract: str  # pytest's -k
    layers: tuple[tuple[str, int, tuple[int, int, int], int], ...]  # zoo name, batch, image, passes on the CPU
    steps: tuple[tuple[str, int, tuple[int, int, int]], ...]
    passes: int
    digits: tuple[tuple[str, int, int], ...]  # preset, workers, iterations


LENET, CIFAR, IMAGENET = (1, 28, 28), (3, 32, 32), (3, 227, 227)
WHOLE = Sizes(
    backend="cupy",
    device="cuda:0",
    contract="cupy",
    layers=(("lenet", 64, LENET, 10), ("cifar10_quick", 100, CIFAR, 10), ("caffenet", 32, IMAGENET, 2)),
    steps=(("caffenet", 64, IMAGENET), ("vgg16", 8, (3, 224, 224))),
    passes=10,
    digits=(("single", 1, 300), ("omnivore", 2, 300)),
)
REHEARSAL = Sizes(
    backend="numpy",
    device="cpu",
    contract="numpy and dense",
    layers=(("lenet", 4, LENET, 2),),
    steps=(("cifar10_quick", 4, CIFAR),),
    passes=2,
    digits=(("single", 1, 3),),
)


def facts(record: Record, sizes: Sizes) -> None:
    """The GPU, its driver and the libraries; one kernel and one product prove that they work."""
    backend = get_backend(sizes.backend)
    if sizes.backend == "cupy":
        record.facts |= _gpu_facts(backend.xp)
    ones = backend.asarray(np.ones((256, 256), np.float32))
    start = time.perf_counter()
    total = float(backend.to_host(backend.xp.sum(backend.xp.matmul(ones, ones))))
    record.facts["first product, seconds"] = round(time.perf_counter() - start, 3)
    if total != 256.0**3:
        record.fail(f"a product of ones sums to {total}, expected {256.0**3}")


def contract(record: Record, sizes: Sizes) -> None:
    """The contract of array backends on this one, by pytest; what was counted when time ran out is kept."""
    command = [sys.executable, "-m", "pytest", "tests/contracts/test_backends.py", "-k", sizes.contract]
    command += [*_pytest_options(), "-v", "--tb=short", "--maxfail=40", "--color=no"]
    assert record.path is not None
    log = record.path.with_suffix(".log")
    with log.open("w") as file:
        done = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=False)
    counted(record, log)
    if done.returncode != 0:
        record.fail(f"pytest ended with {done.returncode}:\n\n```\n{log.read_text()[-3000:]}\n```")


def counted(record: Record, log: Path) -> None:
    """Count the outcomes in pytest's verbose output, name what failed; may be called on a log that is cut off."""
    outcomes = re.findall(r"^(\S.*?) (PASSED|FAILED|ERROR|SKIPPED)\b.*$", log.read_text(), re.MULTILINE)
    record.facts |= {name.lower(): sum(o == name for _, o in outcomes) for name in ("PASSED", "FAILED", "SKIPPED")}
    record.notes += [f"failed: {test.rpartition('::')[2]}" for test, o in outcomes if o in ("FAILED", "ERROR")]
    if not record.facts["passed"] and record.status != "failed":
        record.fail("no test ran")
    record.save()


def layers(record: Record, sizes: Sizes) -> None:
    """Forward and backward of every layer on NumPy and on the backend: medians, and their ratio."""
    for name, batch, image, cpu_passes in sizes.layers:
        title = f"{name}, batch {batch}: milliseconds of a layer, forward and backward"
        record.table(title, "layer", "type", "CPU fwd", "CPU bwd", "fwd", "bwd", "CPU / this")
        theirs, cpu_loss = _layer_times(get_backend("numpy"), name, batch, image, cpu_passes, record)
        ours, loss = _layer_times(get_backend(sizes.backend), name, batch, image, sizes.passes, record)
        for (layer, kind, *cpu), (_, _, *gpu) in zip(theirs, ours, strict=True):
            record.row(layer, kind, *(1e3 * t for t in (*cpu, *gpu)), sum(cpu) / sum(gpu))
        whole: list[float] = [sum(float(one[column]) for one in times) for times in (theirs, ours) for column in (2, 3)]
        record.row("sum", "", *(1e3 * t for t in whole), sum(whole[:2]) / sum(whole[2:]))
        if not math.isclose(loss, cpu_loss, rel_tol=SAME_LOSS):
            record.fail(f"{name}: the loss is {loss:.6g}, on the CPU {cpu_loss:.6g}, expected the same")


def steps(record: Record, sizes: Sizes) -> None:
    """Feed, forward, backward and update, as the preset single does them, on made-up images."""
    record.table("training steps", "net", "batch", "ms a step", "images/s", "TFLOP/s of products", "loss")
    for name, batch, image in sizes.steps:
        backend = get_backend(sizes.backend)
        step, net = _step(backend, name, batch, image)
        taken = seconds_of(step, repeats=sizes.passes, warmup=2, synchronize=_synchronize(backend))
        from nets.tools.volumes import volumes

        found = volumes(net)
        loss = net.scalars()["loss"]
        flops = (found.forward + found.backward) / taken / 1e12
        record.row(name, batch, 1e3 * taken, batch / taken, flops, loss)
        if not math.isfinite(loss):
            record.fail(f"{name}: the loss is {loss}")


def digits(record: Record, sizes: Sizes) -> None:
    """LeNet on the digits by `python -m runtime up`, everything on the device, beside the same run on the CPU."""
    assert record.path is not None
    record.table("LeNet on the digits", "preset", "workers", "on", "iterations", "accuracy", "images/s", "seconds")
    for preset, workers, iterations in sizes.digits:
        accuracies: dict[str, float] = {}
        for device in ("cpu", sizes.device):
            folder = record.path.with_suffix("") / f"{preset}-{device.replace(':', '')}-{len(accuracies)}"
            end = _train(record, folder, preset, workers, device, iterations)
            if end is not None:
                accuracies[device] = end["accuracy"]
                cells = (end["iterations"], end["accuracy"], end["images_per_second"], end["seconds"])
                record.row(preset, workers, device, *cells)
        if len(accuracies) == 2 and abs(accuracies["cpu"] - accuracies[sizes.device]) > SAME_ACCURACY:
            record.fail(f"{preset}: the accuracies differ by more than {SAME_ACCURACY}: {accuracies}")


def _gpu_facts(cupy: Any) -> dict[str, Any]:
    runtime, device = cupy.cuda.runtime, cupy.cuda.Device()
    properties = runtime.getDeviceProperties(device.id)
    name, (free, total) = properties["name"], device.mem_info
    return {
        "GPU": name.decode() if isinstance(name, bytes) else name,
        "memory, GiB (free, total)": (round(free / 2**30, 1), round(total / 2**30, 1)),
        "multiprocessors": properties["multiProcessorCount"],
        "compute capability": device.compute_capability,
        "CUDA of the driver": runtime.driverGetVersion(),
        "driver": _driver(),
        "CUDA runtime": runtime.runtimeGetVersion(),
        "CuPy": cupy.__version__,
        "cuBLAS": _cublas(),
    }


def _driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({type(error).__name__})"


def _cublas() -> str:
    """cuBLAS's version; private modules of CuPy, so every failure is a fact and no more."""
    try:
        from cupy.cuda.device import get_cublas_handle  # type: ignore[import-not-found,unused-ignore]
        from cupy_backends.cuda.libs import cublas  # type: ignore[import-not-found,unused-ignore]

        return str(cublas.getVersion(get_cublas_handle()))
    except Exception as error:
        return f"unknown ({type(error).__name__}: {error})"


def _pytest_options() -> list[str]:
    """The project's settings where their plugins are, else none: the contract itself needs only pytest."""
    from benchmarks.report import missing

    options = ["-p", "no:cacheprovider", "-o", "filterwarnings=default"]  # CuPy's advice about speed is no failure
    if missing({"pytest_asyncio": "pytest-asyncio", "pytest_timeout": "pytest-timeout"}):
        return [*options, "-c", os.devnull, "--rootdir", str(ROOT), "--noconftest"]
    return [*options, "-o", "addopts="]


def _synchronize(backend: Backend) -> Any:
    """Waits until the device has done all it was told; nothing on the CPU."""
    return (lambda: None) if backend.name == "numpy" else backend.xp.cuda.Device().synchronize


def _net(backend: Backend, name: str, batch: int, image: tuple[int, int, int]) -> Any:
    from nets import Net, load_net

    return Net(load_net(name), "TRAIN", ops=backend, batch=batch, input_shape=image, seed=1)


class Readings:
    """A clock that remembers what it said: `time_net` reads it before and after every layer."""

    def __init__(self) -> None:
        self.said: list[float] = []

    def __call__(self) -> float:
        self.said.append(time.perf_counter())
        return self.said[-1]


def _layer_times(
    backend: Backend, name: str, batch: int, image: tuple[int, int, int], passes: int, record: Record
) -> tuple[list[tuple[str, str, float, float]], float]:
    """(layer, type, median seconds forward, backward) of every layer, and the loss of the last pass."""
    from nets.tools.timing import time_net

    warmup, clock = (1, 3)[backend.name == "cupy"], Readings()
    net = _net(backend, name, batch, image)
    synchronize = _synchronize(backend)
    times = time_net(net, iterations=passes, warmup=warmup, synchronize=synchronize, clock=clock)
    taken = np.diff(np.reshape(clock.said, (warmup + passes, 2, len(times), 2)))[warmup:, :, :, 0]
    forward, backward = (median_of.tolist() for median_of in np.median(taken, axis=0))
    found = [(t.name, t.kind, f, b) for t, f, b in zip(times, forward, backward[::-1], strict=True)]
    return found, net.scalars()["loss"]


def _step(backend: Backend, name: str, batch: int, image: tuple[int, int, int]) -> tuple[Any, Any]:
    """A function that does the next training step, and its net."""
    from nets import load_solver
    from nets.definition.params import generator
    from roles.learning.parameter_store import ParameterStore

    net = _net(backend, name, batch, image)
    store = ParameterStore(net.params, net.initial_blobs(), load_solver(f"{name}_solver"), backend)
    rng = generator(1, "benchmark")
    images = rng.standard_normal((batch, *image), dtype=np.float32)
    given = dict(zip(net.inputs, (images, np.arange(batch, dtype=np.float32) % 10), strict=True))
    number = iter(range(1 << 30))

    def step() -> None:
        net.begin(next(number))
        for key, array in given.items():
            net.feed(key, array)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, store.read(stage.layer))
            net.forward(stage)
        found = [(stage.layer, net.backward(stage)) for stage in reversed(net.stages)]
        store.apply_all({layer: gradients for layer, gradients in found if layer is not None})
        net.scalars()

    return step, net


CLUSTER = """
[train]
max_iter = {iterations}
devices = {{ "*" = "{device}" }}
[train.strategy]
preset = "{preset}"
workers = {workers}
[liveness]
start_seconds = 60.0
progress_seconds = 60.0
"""
RUN_SECONDS = 35


def _train(
    record: Record, folder: Path, preset: str, workers: int, device: str, iterations: int
) -> dict[str, Any] | None:
    """The last event of a run, or None if it failed; its output is then in the record."""
    import json

    folder.mkdir(parents=True)
    text = CLUSTER.format(preset=preset, workers=workers, device=device, iterations=iterations)
    (folder / "cluster.toml").write_text(text)
    output, code = _run_up(folder)
    events = [json.loads(line) for file in folder.glob("runs/*/events.jsonl") for line in file.read_text().splitlines()]
    ends: list[dict[str, Any]] = [event for event in events if event["event"] == "finished"]
    if code != 0 or not ends:
        record.fail(f"{preset} on {device}: ended with {code}:\n\n```\n{output[-3000:]}\n```")
        return None
    return ends[-1]


def _run_up(folder: Path) -> tuple[str, int | None]:
    """Output and exit code of `up`; one that takes too long is asked to stop, then stopped with all its children."""
    command = [sys.executable, "-m", "runtime", "up", "cluster.toml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT) + os.pathsep + os.environ.get("PYTHONPATH", "")}
    with (folder / "output.txt").open("w") as file:
        running = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT)
        try:
            running.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(5)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
    return (folder / "output.txt").read_text(), running.returncode


PARTS = {part.__name__: part for part in (facts, contract, layers, steps, digits)}
