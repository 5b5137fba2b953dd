"""Launchers start role processes on machines and tell how they ended: a kind of place a file.

local    this machine
nursery  the process there that role processes are forked from
agents   what all others share: an agent on each machine
allowed  the files that such a machine may leave in the run directory
remote   a machine elsewhere, as `up` knows it
machine_agent   the agent: `python -m runtime join`
command  a command of this host that starts an agent
ssh      machines that the system's ssh reaches
slurm    the nodes of a job under Slurm
manual   machines on which a person types a line
ray      nodes of a Ray cluster
ray_driver  the process there that Ray knows of
kubernetes  pods of a JobSet

See docs/decisions/processes.md.
"""

from importlib import import_module

from runtime import extensions
from runtime.cluster.launcher import Launcher
from runtime.cluster.launchers.local import LocalLauncher, Nursery
from runtime.errors import ConfigError
from runtime.suggest import hint

__all__ = ["LocalLauncher", "Nursery", "launcher_of"]

GROUP = "convoy.launchers"
LAUNCHERS = {  # imported when they are asked for: those of other machines come with ZeroMQ
    "local": "runtime.cluster.launchers.local:LocalLauncher",
    "ssh": "runtime.cluster.launchers.ssh:SshLauncher",
    "slurm": "runtime.cluster.launchers.slurm:SlurmLauncher",
    "manual": "runtime.cluster.launchers.manual:ManualLauncher",
    "ray": "runtime.cluster.launchers.ray:RayLauncher",
    "kubernetes": "runtime.cluster.launchers.kubernetes:KubernetesLauncher",
}


def launcher_of(kind: str) -> type[Launcher]:
    """What `launcher.kind` of cluster.toml names: one of ours, or what an installed package brings.
    ConfigError."""
    found = _ours(kind) or extensions.find(GROUP, kind)
    if found is None:
        raise ConfigError(
            [(f"no launcher is named {kind!r}{hint(kind, [*LAUNCHERS, *extensions.names(GROUP)])}")]
        )
    if not (isinstance(found, type) and issubclass(found, Launcher)):
        raise ConfigError(
            [
                (
                    f"{GROUP}: {kind!r} is {found!r}, expected a subclass of "
                    "runtime.cluster.launcher.Launcher"
                )
            ]
        )
    return found


def _ours(kind: str) -> object | None:
    module, _, name = LAUNCHERS.get(kind, "").partition(":")
    return getattr(import_module(module), name) if name else None
