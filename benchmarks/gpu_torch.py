"""PyTorch as the peer of the GPU benchmark: whether it is here, and how it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.report import Record, missing

PRECISIONS = ("float32", "TF32", "bfloat16")


def here(record: Record) -> Any:
    """PyTorch's GPU, or None; what is missing is noted."""
    if missing({"torch": ""}):
        record.note("no PyTorch here: its columns are empty")
        return None
    import torch

    if not torch.cuda.is_available():
        record.note(f"PyTorch {torch.__version__} sees no GPU: its columns are empty")
        return None
    torch.backends.cudnn.benchmark = True
    return torch.device("cuda:0")


@contextmanager
def settled(precision: str) -> Iterator[Any]:
    """PyTorch computes so meanwhile; gives the dtype of operands."""
    import torch

    tf32 = precision == "TF32"
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    try:
        yield torch.bfloat16 if precision == "bfloat16" else torch.float32
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def synchronized(device: Any) -> Callable[[], None]:
    """Waits for what PyTorch has asked of the GPU."""
    import torch

    return lambda: torch.cuda.synchronize(device)
