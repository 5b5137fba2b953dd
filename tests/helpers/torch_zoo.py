"""torchvision and timm for tests, which skip without them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from benchmarks.helpers.vision import models

WHY = "{} is not installed: .ci/run installs torch, torchvision and timm"


def torchvision_models() -> Any:
    """The module `torchvision.models`. Skips the test without torch or torchvision."""
    try:
        return models()
    except ModuleNotFoundError as missing:
        pytest.skip(WHY.format(missing.name))


def timm() -> Any:
    """The module `timm`. Skips the test without torch, torchvision or timm."""
    torchvision_models()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("timm", reason=WHY.format("timm"))
