"""Which versions of what a process runs: for the run directory and for finding differences between hosts."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

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


@cache
def versions() -> Mapping[str, str]:
    """Package -> version ("not installed" where it is absent), and the Python and platform in use. Looked up once,
    20 ms; processes that are forked then know."""
    system = [platform.system(), platform.release(), platform.machine()]
    if libc := "".join(platform.libc_ver()):
        system += ["with", libc]  # as platform.platform() says it, which starts a process to know
    found = {"python": platform.python_version(), "platform": "-".join(system)}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return MappingProxyType(found)
