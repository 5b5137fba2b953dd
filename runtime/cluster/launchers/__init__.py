"""Launchers start role processes on machines and tell how they ended: a kind of place a file.

local    this machine
nursery  the process there that role processes are forked from
"""

from runtime import extensions
from runtime.cluster.launcher import Launcher
from runtime.cluster.launchers.local import LocalLauncher, Nursery
from runtime.errors import ConfigError
from runtime.suggest import hint

__all__ = ["LocalLauncher", "Nursery", "launcher_of"]

GROUP = "convoy.launchers"
LAUNCHERS: dict[str, type[Launcher]] = {"local": LocalLauncher}


def launcher_of(kind: str) -> type[Launcher]:
    """What `launcher.kind` of cluster.toml names: one of ours, or what an installed package brings. ConfigError."""
    found = LAUNCHERS.get(kind) or extensions.find(GROUP, kind)
    if found is None:
        raise ConfigError([f"no launcher is named {kind!r}{hint(kind, [*LAUNCHERS, *extensions.names(GROUP)])}"])
    if not (isinstance(found, type) and issubclass(found, Launcher)):
        raise ConfigError([f"{GROUP}: {kind!r} is {found!r}, expected a subclass of runtime.cluster.launcher.Launcher"])
    return found
