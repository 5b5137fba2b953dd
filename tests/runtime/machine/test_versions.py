"""The versions that a process reports."""

from __future__ import annotations

import platform
import subprocess

import pytest

from runtime.machine.versions import versions


def test_the_platform_is_named_as_python_does_without_starting_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = platform.platform()
    versions.cache_clear()
    monkeypatch.setattr(platform, "_uname_cache", None)
    monkeypatch.setattr(platform, "_platform_cache", {})
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    found = versions()
    assert (found["platform"], found["python"]) == (said, platform.python_version())
    assert found["numpy"]
    assert versions() is found
