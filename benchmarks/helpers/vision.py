"""torchvision beside a torch for CPUs, which lacks the operators of torchvision's own library."""

from __future__ import annotations

from typing import Any

LACKING = ("nms", "qnms")
_KEPT: list[Any] = []  # a library's operators last as long as it does


def models() -> Any:
    """The module `torchvision.models`; timm can be imported after it, too. Raises
    ModuleNotFoundError without torch or torchvision."""
    import torch

    for name in LACKING:
        if not hasattr(torch.ops.torchvision, name):
            _KEPT.append(torch.library.Library("torchvision", "FRAGMENT"))
            _KEPT[-1].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from torchvision import models

    return models
