"""Launchers start role processes on machines and tell how they ended; each kind of place has its own file."""

from runtime.cluster.launcher import Launcher
from runtime.cluster.launchers.local import LocalLauncher, Nursery

__all__ = ["LocalLauncher", "Nursery", "launcher_of"]

LAUNCHERS: dict[str, type[Launcher]] = {"local": LocalLauncher}


def launcher_of(kind: str) -> type[Launcher]:
    """What `launcher.kind` of cluster.toml names."""
    return LAUNCHERS[kind]
