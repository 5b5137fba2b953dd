"""Which versions of what a process runs: for the run directory and for finding differences between hosts."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "convoy-runtime",
    "numpy",
    "pyzmq",
    "msgpack",
    "protobuf",
    "uvloop",
    "prometheus-client",
    "safetensors",
)


def versions() -> dict[str, str]:
    """Package -> version ("not installed" where it is absent), and the Python and platform in use."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
