"""Two parts of the GPU benchmark: images a second of training steps compared with PyTorch, and
memory over many steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.sides import PRECISIONS, cell, here, ours, settled, synchronized, training_net
from benchmarks.gpu.sizes import Sizes
from benchmarks.helpers.report import Record, seconds_of
from benchmarks.training.training import made_up, our_step, torch_step
from nets.tools.volumes import volumes
from ops import Backend, get_backend

SAME_LOSS = 1e-3  # relative, difference of the first step's loss from PyTorch's in full float32
Step = tuple[str, int, tuple[int, int, int], int]  # zoo name, batch, image, classes
Made = tuple[dict[str, Any], dict[str, Any]]  # images and labels, and the first parameters
GROWN = 1 << 20  # bytes of the device, over all steps but the first tenth
GROWN_HOST = 16 << 20  # of the process: allocators of the host keep pages


def speed(record: Record, sizes: Sizes) -> None:
    """Measure feed, forward, backward and update on made-up images, as the preset single does them.

    TF32 comes first, since it is the usual precision on such a device: PyTorch tries its algorithms
    again for each precision, and time may run out.
    """
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
        "torch",
        "ours / torch",
    )
    made = {}
    for precision in sorted(PRECISIONS, key="TF32".__ne__):
        for work in sizes.steps:
            name, batch, image, classes = work
            if name not in made:
                net = training_net(get_backend("numpy"), name, batch, image)
                made[name] = made_up(net, classes), net.initial_blobs()
            _beside(
                record, work, made[name], precision, backends.get(precision), peer, sizes.passes
            )


def _beside(
    record: Record,
    work: Step,
    made: Made,
    precision: str,
    backend: Backend | None,
    peer: Any,
    passes: int,
) -> None:
    """Record a row for one net in one precision. Both sides feed their device from page-locked
    memory."""
    (name, batch, image, _), (inputs, blobs) = work, made
    mine = theirs = loss = their_loss = flops = math.nan
    comparable = False
    if backend is not None:
        net = training_net(backend, name, batch, image)
        fed = {blob: backend.staged(array) for blob, array in inputs.items()}
        placed = {layer: tuple(map(backend.asarray, of)) for layer, of in blobs.items()}
        step = our_step(net, fed, placed)
        losses: dict[str, float] = step()  # type: ignore[assignment]
        loss = sum(losses.values())
        taken = seconds_of(step, repeats=passes, warmup=2, synchronize=backend.synchronize)
        size = volumes(net)
        mine = batch / taken
        flops = (size.forward + size.backward) / taken / 1e12
        drops = any(node.layer.proto.type == "Dropout" for node in net.nodes)
        # with dropout the losses are random
        comparable = precision == "float32" and len(losses) == 1 and not drops
        if not math.isfinite(loss):
            record.fail(f"{name}, {precision}: the loss is {loss}")
    if peer is not None:
        taken, their_loss = _torch(work, made, peer, precision, passes)
        theirs = batch / taken
    if backend is not None or peer is not None:
        record.row(name, batch, precision, *map(cell, (mine, flops, loss, theirs, mine / theirs)))
    if comparable and peer is not None and not math.isclose(loss, their_loss, rel_tol=SAME_LOSS):
        record.fail(
            f"{name}: the first loss is {loss:.6g}, PyTorch's {their_loss:.6g}, expected the same"
        )


def _torch(work: Step, made: Made, device: Any, precision: str, passes: int) -> tuple[float, float]:
    """The seconds of PyTorch's step, eager, with channels last, and its first loss."""
    (name, batch, image, _), (inputs, blobs) = work, made
    net = training_net(get_backend("numpy"), name, batch, image)
    with settled(precision):
        step: Callable[[], Any] = torch_step(
            net,
            inputs,
            channels_last=True,
            device=device,
            autocast=precision == "bfloat16",
            blobs=blobs,
        )
        loss = step()
        return seconds_of(step, repeats=passes, warmup=3, synchronize=synchronized(device)), loss


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
