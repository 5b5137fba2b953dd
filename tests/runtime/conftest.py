"""Fixtures of the runtime's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.helpers.node_pair import Pair


@pytest_asyncio.fixture
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    await made.open()
    yield made
    await made.close()
