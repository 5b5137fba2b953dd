"""Fixtures for the stand-in: plain runs use it if it is built, slow tests build it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_cuda.processes import here


@pytest.fixture
def stand_in(request: pytest.FixtureRequest) -> Path:
    return here(build=request.node.get_closest_marker("slow") is not None)
