"""torchvision and timm next to a torch for CPUs, which lacks the operators of torchvision's own
library."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

WHY = "{} is not installed: .ci/run installs torch, torchvision and timm"
LACKING = (
    ("nms", "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
    ("qnms", "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
)


def torchvision_models() -> Any:
    """The module `torchvision.models`. Skips the test without torch or torchvision."""
    _torch()
    return pytest.importorskip("torchvision.models", reason=WHY.format("torchvision"))


def timm() -> Any:
    """The module `timm`. Skips the test without torch, torchvision or timm."""
    torchvision_models()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("timm", reason=WHY.format("timm"))


def _torch() -> Any:
    torch = pytest.importorskip("torch", reason=WHY.format("torch"))
    for name, schema in LACKING:
        if not hasattr(torch.ops.torchvision, name):
            _KEPT.append(torch.library.Library("torchvision", "FRAGMENT"))
            _KEPT[-1].define(schema)
    return torch


_KEPT: list[Any] = []  # a library's operators last as long as it does
