"""Parts of the GPU benchmark: images a second of training steps compared with PyTorch's, eager, as
one CUDA graph and compiled; and memory over many steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.sides import cell, here, ours, settled, synchronized, training_net
from benchmarks.gpu.sizes import Sizes, Work
from benchmarks.gpu.torch_graph import graph_step
from benchmarks.helpers.report import Record, seconds_of
from benchmarks.training.training import made_up, our_step, torch_step
from nets.tools.volumes import volumes
from ops import Backend, get_backend

SAME_LOSS = 1e-3  # relative, difference of the first step's loss from PyTorch's in full float32
Made = tuple[dict[str, Any], dict[str, Any]]  # images and labels, and the first parameters
EAGER, GRAPH, COMPILED = "torch eager", "torch graph", "torch compiled"
MISSING = "rows that are missing"
GROWN = 1 << 20  # bytes of the device, over all steps but the first tenth
GROWN_HOST = 16 << 20  # of the process: allocators of the host keep pages


def speed(record: Record, sizes: Sizes) -> None:
    """Measure feed, forward, backward and update on made-up images, as the preset single does them,
    and PyTorch's step, eager and as one CUDA graph."""
    _measure(record, sizes, sizes.steps, (EAGER, GRAPH))


def compiled(record: Record, sizes: Sizes) -> None:
    """The same compared with `torch.compile`, which needs a minute or two for a net."""
    _measure(record, sizes, sizes.compiled, (COMPILED,))


def _measure(record: Record, sizes: Sizes, works: Sequence[Work], ways: Sequence[str]) -> None:
    """Record a row for each net. The works that still have none stand in the record, since time may
    run out."""
    backends = ours(sizes.backend)
    peer = here(record)
    record.table(
        "Images a second of training",
        "net",
        "batch",
        "precision",
        "ours",
        "TFLOP/s of products",
        "first loss",
        *ways,
        "ours / best of torch",
    )
    for number, work in enumerate(works):
        left = [f"{each.shown} {each.batch} {each.precision}" for each in works[number:]]
        record.facts[MISSING] = ", ".join(left)
        record.save()
        _beside(record, work, backends.get(work.precision), peer, ways, sizes.passes)
    del record.facts[MISSING]
    record.save()


def _beside(
    record: Record,
    work: Work,
    backend: Backend | None,
    peer: Any,
    ways: Sequence[str],
    passes: int,
) -> None:
    """Record a row for one net. Both sides feed their device from page-locked memory."""
    if backend is None and peer is None:
        return
    net = training_net(get_backend("numpy"), work.net, work.batch, work.image, work.without)
    made = made_up(net, work.classes), net.initial_blobs()
    rate = loss = flops = math.nan
    comparable = False
    if backend is not None:
        rate, loss, flops, comparable = _ours(work, made, backend, passes)
        if not math.isfinite(loss):
            record.fail(f"{work.shown}, {work.precision}: the loss is {loss}")
    theirs = []
    for way in ways:
        found, their_loss = _torch(record, work, net, made, peer, way, passes)
        theirs.append(found)
        known = comparable and not math.isnan(their_loss)
        if known and not math.isclose(loss, their_loss, rel_tol=SAME_LOSS):
            record.fail(
                f"{work.shown}: the first loss is {loss:.6g}, PyTorch's {their_loss:.6g}, "
                "expected the same"
            )
    best = max((found for found in theirs if not math.isnan(found)), default=math.nan)
    numbers = (rate, flops, loss, *theirs, rate / best)
    record.row(work.shown, work.batch, work.precision, *map(cell, numbers))


def _ours(
    work: Work, made: Made, backend: Backend, passes: int
) -> tuple[float, float, float, bool]:
    """Images a second of our step, its first loss, TFLOP/s of products, and whether PyTorch has to
    have the same loss."""
    inputs, blobs = made
    net = training_net(backend, work.net, work.batch, work.image, work.without)
    fed = {blob: backend.staged(array) for blob, array in inputs.items()}
    placed = {layer: tuple(map(backend.asarray, of)) for layer, of in blobs.items()}
    step = our_step(net, fed, placed)
    losses: dict[str, float] = step()  # type: ignore[assignment]
    taken = seconds_of(step, repeats=passes, warmup=2, synchronize=backend.synchronize)
    size = volumes(net)
    flops = (size.forward + size.backward) / taken / 1e12
    drops = any(node.layer.proto.type == "Dropout" for node in net.nodes)
    # with dropout the losses are random
    comparable = work.precision == "float32" and len(losses) == 1 and not drops
    return work.batch / taken, sum(losses.values()), flops, comparable


def _torch(
    record: Record, work: Work, net: Any, made: Made, device: Any, way: str, passes: int
) -> tuple[float, float]:
    """Images a second of PyTorch's step with channels last, and its first loss. Not numbers if
    there is no PyTorch, or if it fails: a note has the reason."""
    if device is None:
        return math.nan, math.nan
    inputs, blobs = made
    keys = {"device": device, "autocast": work.precision == "bfloat16", "blobs": blobs}
    try:
        with settled(work.precision):
            step: Callable[[], Any]
            if way == GRAPH:
                step = graph_step(net, inputs, **keys)
            else:
                step = torch_step(net, inputs, channels_last=True, compiled=way == COMPILED, **keys)
            loss = step()
            taken = seconds_of(step, repeats=passes, warmup=3, synchronize=synchronized(device))
    except Exception as error:  # memory, a driver, a compiler: the next row may do better
        told = (str(error).splitlines() or [""])[0]
        record.note(f"{work.shown}, {way}: {type(error).__name__}: {told}")
        return math.nan, math.nan
    return work.batch / taken, loss


def growth(record: Record, sizes: Sizes) -> None:
    """Train LeNet step after step: neither the device's memory nor the process's may grow."""
    backend = get_backend(sizes.backend)
    net = training_net(backend, "lenet", 16, (1, 28, 28))
    step = our_step(net, made_up(net, 10))
    record.table("Memory, MB", "steps", "of the device", "of the process")
    base: tuple[int, int] | None = None
    for number in range(1, sizes.growth + 1):
        step()
        if number % max(1, sizes.growth // 10) == 0:
            backend.synchronize()
            used = _device_bytes(backend), _process_bytes()
            base = base or used
            record.row(number, *(size / 1e6 for size in used))
    assert base is not None
    for what, before, after, most in zip(
        ("device", "process"), base, used, (GROWN, GROWN_HOST), strict=True
    ):
        if after - before > most:
            record.fail(
                f"memory of the {what} grew by {after - before} bytes, at most {most} is noise"
            )


def _device_bytes(backend: Backend) -> int:
    if backend.on_host:
        return 0
    total: int = backend.xp.get_default_memory_pool().total_bytes()
    return total


def _process_bytes() -> int:
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * 4096 if pages.is_file() else 0
