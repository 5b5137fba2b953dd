"""Fixtures of the CPU backend's tests: the backend with one thread and with two, and the reference
backend."""

from __future__ import annotations

import functools

import pytest

from ops import Backend, get_backend


@functools.cache
def cpu(threads: int) -> Backend:
    return get_backend("cpu", threads=threads)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def fast(request: pytest.FixtureRequest) -> Backend:
    return cpu(request.param)


@pytest.fixture
def reference() -> Backend:
    return get_backend("numpy")
