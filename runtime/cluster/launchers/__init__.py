"""Launchers start role processes on machines and tell how they ended; each kind of place has its own file."""

from runtime.cluster.launchers.local import LocalLauncher, Nursery

__all__ = ["LocalLauncher", "Nursery"]
