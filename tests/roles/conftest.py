"""Fixtures of the tests of roles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest_asyncio

from runtime.actors.metrics import Metrics
from runtime.actors.node import Node
from runtime.compute.compute import ThreadCompute
from tests.roles.conv_model_alone import Model


@pytest_asyncio.fixture
async def make_model() -> AsyncIterator[Callable[..., Coroutine[Any, Any, Model]]]:
    """A function that makes a conv model in a process with real threads. The model is stopped after
    the test."""
    compute = ThreadCompute()
    node = Node("conv_model", 1, compute, Metrics())

    async def made(**options: Any) -> Model:
        model = Model(**options)
        node.add("conv_model", "conv_model", model)
        await model.on_start()
        return model

    yield made
    compute.close()
