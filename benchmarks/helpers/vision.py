"""torchvision beside a torch for CPUs, which lacks the operators of torchvision's own library."""

from __future__ import annotations

from typing import Any

_KEPT: list[Any] = []  # a library's operators last as long as it does
LACKING = (
    ("nms", "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
    ("qnms", "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
)


def models() -> Any:
    """The module `torchvision.models`. Raises ModuleNotFoundError without torch or torchvision."""
    import torch

    for name, schema in LACKING:
        if not hasattr(torch.ops.torchvision, name):
            _KEPT.append(torch.library.Library("torchvision", "FRAGMENT"))
            _KEPT[-1].define(schema)
    from torchvision import models

    return models
