"""The two sides of the GPU benchmark: our backend, and PyTorch if it is installed, each in the
precisions that it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.helpers.report import Record, missing
from ops import Backend, OpsError, get_backend

if TYPE_CHECKING:
    from nets.definition.spec import NetSpec

PRECISIONS = ("float32", "TF32", "bfloat16")
OPTIONS = {"TF32": "tf32", "bfloat16": "bf16"}  # their names in our backend


def ours(name: str) -> dict[str, Backend]:
    """Our backend in each precision that it has, full float32 first. On a GPU it tries cuDNN, as
    runs do."""
    options = {"cudnn": "fastest"} if name == "cupy" else {}
    found = {"float32": get_backend(name, **options)}
    for precision, option in OPTIONS.items():
        with suppress(OpsError):
            found[precision] = get_backend(name, precision=option, **options)
    return found


def cell(number: float) -> Any:
    """A cell of a table: a dash for a number that was not measured."""
    return "-" if math.isnan(number) else number


def here(record: Record) -> Any:
    """PyTorch's GPU, or None with a note about the reason."""
    if missing({"torch": ""}):
        record.note("no PyTorch here: its columns are empty")
        return None
    try:
        import torch
    except Exception as error:
        record.note(
            f"PyTorch cannot be imported ({type(error).__name__}: {error}): its columns are empty"
        )
        return None
    if not torch.cuda.is_available():
        record.note(f"PyTorch {torch.__version__} sees no GPU: its columns are empty")
        return None
    torch.backends.cudnn.benchmark = True
    return torch.device("cuda:0")


@contextmanager
def settled(precision: str) -> Iterator[Any]:
    """Set PyTorch to this precision while the block runs. Yields the dtype of operands."""
    import torch

    tf32 = precision == "TF32"
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    try:
        yield torch.bfloat16 if precision == "bfloat16" else torch.float32
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def synchronized(device: Any) -> Callable[[], None]:
    """A function that waits until PyTorch's work on the GPU is done."""
    import torch

    return lambda: torch.cuda.synchronize(device)


def training_net(
    backend: Backend, name: str, batch: int, image: tuple[int, int, int], without: str = ""
) -> Any:
    """A net of the zoo in its training phase, with memory that each pass uses again. `without`: the
    type of layers that are left out."""
    from nets import Net, load_net

    return Net(
        left_out(load_net(name), without) if without else load_net(name),
        "TRAIN",
        ops=backend,
        batch=batch,
        input_shape=image,
        seed=1,
        memory="reused",
    )


def left_out(net: NetSpec, kind: str) -> NetSpec:
    """The net without its layers of one type, which have one bottom and one top: layers read what
    the left out ones read."""
    instead = dict[str, str]()
    kept = []
    for layer in net.layers:
        proto = type(layer.proto)()
        proto.CopyFrom(layer.proto)
        proto.bottom[:] = [instead.get(name, name) for name in proto.bottom]
        if proto.type == kind:
            instead[proto.top[0]] = proto.bottom[0]
        else:
            kept.append(replace(layer, proto=proto))
    return replace(net, layers=tuple(kept))
