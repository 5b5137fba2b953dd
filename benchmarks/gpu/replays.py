"""A part of the GPU benchmark: whole training steps, computed plainly and replayed."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.gpu.sides import cell, training_net
from benchmarks.gpu.sizes import Sizes
from benchmarks.helpers.report import Record
from benchmarks.training.training import made_up
from ops import Backend, get_backend

IN_A_ROW = 3  # steps between two waits for the device
TRIED = 5  # steps until replays begin: plain ones, one that is recorded, one that is tried


def replays(record: Record, sizes: Sizes) -> None:
    """Compare the times of plain and of replayed steps in TF32, with cuDNN's plans that give the
    same bits in every run. Fails for a net whose steps are not replayed."""
    options = {"precision": "tf32", "cudnn": "deterministic"} if sizes.backend == "cupy" else {}
    backend = get_backend(sizes.backend, **options)
    if not backend.records:
        record.note(f"backend '{sizes.backend}' records no steps: nothing to measure")
        return
    record.table(
        "Training steps, plain and replayed",
        "net",
        "batch",
        "calls of a step",
        "images/s, plain",
        "images/s, replayed",
        "replayed / plain",
        "ms of the host, plain",
        "ms of the host, replayed",
    )
    for name, batch, image, classes in sizes.replays:
        step, made = _step(backend, name, batch, image, classes)
        plain, host_plain = _timed(backend, step, sizes.passes)
        made.recordings.refused = ""
        for _ in range(TRIED):
            step()
        calls = made.calls
        if made.recordings.refused:
            record.fail(f"{name}: {made.recordings.refused}")
            replayed = host_replayed = float("nan")
        else:
            replayed, host_replayed = _timed(backend, step, sizes.passes)
        record.row(
            name,
            batch,
            calls,
            *map(cell, (batch / plain, batch / replayed, plain / replayed)),
            *map(cell, (1e3 * host_plain, 1e3 * host_replayed)),
        )


def _step(
    backend: Backend, name: str, batch: int, image: tuple[int, int, int], classes: int
) -> tuple[Callable[[], Any], Any]:
    """A step that feeds from page-locked memory, and the object that chooses how it is computed:
    plainly, as long as it has a reason to refuse."""
    from nets import load_solver
    from roles.learning.buffers import gradient_buffers
    from roles.learning.parameter_store import ParameterStore
    from roles.learning.replayed_step import ReplayedStep

    net = training_net(backend, name, batch, image)
    solver = load_solver("lenet").override({"base_lr": 1e-3, "momentum": 0.9})
    store = ParameterStore(net.params, net.initial_blobs(), solver, backend, in_place=True)
    made = ReplayedStep(net, store, gradient_buffers(net))
    made.recordings.refused = "plain steps are measured first"
    fed = {blob: backend.staged(array) for blob, array in made_up(net, classes).items()}

    def step() -> Any:
        net.begin(0)
        for blob, array in fed.items():
            net.feed(blob, array)
        return made()

    return step, made


def _timed(backend: Backend, step: Callable[[], Any], passes: int) -> tuple[float, float]:
    """The median seconds of a step, and those until the host has started it. Scores are read one
    step late, as a worker does."""
    step()()
    whole = []
    started = []
    for _ in range(passes):
        backend.synchronize()
        begun = time.perf_counter()
        late = None
        busy = 0.0
        for _ in range(IN_A_ROW):
            before = time.perf_counter()
            read = step()
            busy += time.perf_counter() - before
            if late is not None:
                late()
            late = read
        read()
        whole.append((time.perf_counter() - begun) / IN_A_ROW)
        started.append(busy / IN_A_ROW)
    return median(whole), median(started)
