"""A part of the GPU benchmark: whole training steps, computed plainly, replayed call by call and
launched as graphs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
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
    """Compare the times of plain steps, of replays and of graphs in TF32, with cuDNN's plans that
    give the same bits in every run. Fails for a net whose steps are computed in another way than
    asked."""
    options = {"precision": "tf32", "cudnn": "deterministic"} if sizes.backend == "cupy" else {}
    backend = get_backend(sizes.backend, **options)
    if not backend.records:
        record.note(f"backend '{sizes.backend}' records no steps: nothing to measure")
        return
    record.table(
        "Training steps, plain, replayed and as graphs",
        "net",
        "batch",
        "step",
        "calls",
        "images/s",
        "compared with plain",
        "ms of the host",
    )
    for name, batch, image, classes in sizes.replays:
        plain = float("nan")
        for how, (step, made) in _steps(backend, name, batch, image, classes).items():
            for _ in range(TRIED):
                step()
            refused = made.recordings.refused
            if how != "plain" and (refused or made.recordings.graph != (how == "graph")):
                record.fail(f"{name}: {refused or 'its steps are replayed call by call'}")
                continue
            whole, host = _timed(backend, step, sizes.passes)
            plain = whole if how == "plain" else plain
            times = cell(batch / whole), cell(plain / whole), cell(1e3 * host)
            record.row(name, batch, how, made.calls, *times)


def _steps(
    backend: Backend, name: str, batch: int, image: tuple[int, int, int], classes: int
) -> dict[str, tuple[Callable[[], Any], Any]]:
    """By the way of computing a step: a step that feeds from page-locked memory, and the object
    that computes it."""
    from nets import load_solver
    from roles.learning.buffers import gradient_buffers
    from roles.learning.parameter_store import ParameterStore
    from roles.learning.recordings import GRAPH, PLAIN, REPLAY
    from roles.learning.replayed_step import ReplayedStep

    net = training_net(backend, name, batch, image)
    solver = load_solver("lenet").override({"base_lr": 1e-3, "momentum": 0.9})
    store = ParameterStore(net.params, net.initial_blobs(), solver, backend, in_place=True)
    gradients = gradient_buffers(net)
    made = {
        how: ReplayedStep(net, store, gradients, graph=how == GRAPH)
        for how in (PLAIN, REPLAY, GRAPH)
    }
    made[PLAIN].recordings.refused = "plain steps are measured"
    fed = {blob: backend.staged(array) for blob, array in made_up(net, classes).items()}

    def step(how: str) -> Any:
        net.begin(0)
        for blob, array in fed.items():
            net.feed(blob, array)
        return made[how]()

    return {how: (partial(step, how), one) for how, one in made.items()}


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
