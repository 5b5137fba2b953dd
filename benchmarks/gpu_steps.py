"""Two parts of the GPU benchmark: images a second of training steps beside PyTorch, and memory over many steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu_sizes import Sizes
from benchmarks.gpu_torch import PRECISIONS, here, settled, synchronized
from benchmarks.report import Record, seconds_of
from benchmarks.training import made_up, our_step
from ops import Backend, get_backend

SAME_LOSS = 1e-3  # relative, of the first step beside PyTorch's in full float32
GROWN = 1 << 20  # bytes of the device, over all steps but the first tenth
GROWN_HOST = 16 << 20  # of the process: allocators of the host keep pages


def speed(record: Record, sizes: Sizes) -> None:
    """Feed, forward, backward and update on made-up images, as the preset single does them."""
    backend, peer = get_backend(sizes.backend), here(record)
    record.table(
        "Images a second of training", "net", "batch", "ours", "TFLOP/s of products", "loss",
        *(f"torch {precision}" for precision in PRECISIONS), "ours / torch float32", "ours / torch TF32",
    )  # fmt: skip
    for name, batch, image, classes in sizes.steps:
        _beside(record, backend, peer, (name, batch, image, classes), sizes.passes)


def _beside(record: Record, backend: Backend, peer: Any, work: tuple[str, int, Any, int], passes: int) -> None:
    from nets.tools.volumes import volumes

    name, batch, image, classes = work
    net = _net(backend, name, batch, image)
    inputs = made_up(net, classes)
    step = our_step(net, inputs)
    losses: dict[str, float] = step()  # type: ignore[assignment]
    loss = sum(losses.values())
    taken = seconds_of(step, repeats=passes, warmup=2, synchronize=backend.synchronize)
    size, drops = volumes(net), any(node.layer.proto.type == "Dropout" for node in net._nodes)
    theirs = [math.nan] * len(PRECISIONS)
    if peer is not None:
        for at, precision in enumerate(PRECISIONS):
            found, their_loss = _torch(net, inputs, peer, precision, passes)
            theirs[at] = batch / found
            same = precision == "float32" and len(losses) == 1 and not drops  # else the losses are drawn
            if same and not math.isclose(loss, their_loss, rel_tol=SAME_LOSS):
                record.fail(f"{name}: the first loss is {loss:.6g}, PyTorch's {their_loss:.6g}, expected the same")
    ours = batch / taken
    flops = (size.forward + size.backward) / taken / 1e12
    cells = ["-" if math.isnan(one) else one for one in (*theirs, ours / theirs[0], ours / theirs[1])]
    record.row(name, batch, ours, flops, loss, *cells)
    if not math.isfinite(loss):
        record.fail(f"{name}: the loss is {loss}")


def _torch(net: Any, inputs: dict[str, Any], device: Any, precision: str, passes: int) -> tuple[float, float]:
    """Seconds of PyTorch's step, eager, channels last, and its first loss."""
    from benchmarks.training import torch_step

    with settled(precision):
        step: Callable[[], Any] = torch_step(
            net, inputs, channels_last=True, device=device, autocast=precision == "bfloat16"
        )
        loss = step()
        return seconds_of(step, repeats=passes, warmup=3, synchronize=synchronized(device)), loss


def growth(record: Record, sizes: Sizes) -> None:
    """LeNet step after step: neither the device's memory nor the process's may grow."""
    backend = get_backend(sizes.backend)
    net = _net(backend, "lenet", 16, (1, 28, 28))
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
    for what, before, after, most in zip(("device", "process"), base, used, (GROWN, GROWN_HOST), strict=True):
        if after - before > most:
            record.fail(f"memory of the {what} grew by {after - before} bytes, at most {most} is noise")


def _net(backend: Backend, name: str, batch: int, image: tuple[int, int, int]) -> Any:
    from nets import Net, load_net

    return Net(load_net(name), "TRAIN", ops=backend, batch=batch, input_shape=image, seed=1, memory="reused")


def _device_bytes(backend: Backend) -> int:
    if backend.on_host:
        return 0
    total: int = backend.xp.get_default_memory_pool().total_bytes()
    return total


def _process_bytes() -> int:
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * 4096 if pages.is_file() else 0
