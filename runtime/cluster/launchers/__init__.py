"""Launchers: they start role processes on machines and report how the processes ended.

local          The launcher of role processes on this machine
nursery        The process that role processes are forked from
agents         The common part of all launchers to other machines
allowed        The files of a run directory that another machine may leave there
remote         Another machine, as `up` knows it: the state of its agent, and its processes
machine_agent  The agent of a machine, `python -m runtime join`
command        A command of this host that starts an agent on another machine
ssh            Machines that the system's ssh reaches
slurm          Machines that Slurm has allocated to this job
manual         Machines that a person starts
ray            Machines that are nodes of a Ray cluster
ray_driver     The process of a run that is connected to Ray, `python -m
               runtime.cluster.launchers.ray_driver`
kubernetes     Machines that are pods: a JobSet of the run, whose pods run the agents

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
LAUNCHERS = {  # imported on demand, since launchers for other machines import ZeroMQ
    "local": "runtime.cluster.launchers.local:LocalLauncher",
    "ssh": "runtime.cluster.launchers.ssh:SshLauncher",
    "slurm": "runtime.cluster.launchers.slurm:SlurmLauncher",
    "manual": "runtime.cluster.launchers.manual:ManualLauncher",
    "ray": "runtime.cluster.launchers.ray:RayLauncher",
    "kubernetes": "runtime.cluster.launchers.kubernetes:KubernetesLauncher",
}


def launcher_of(kind: str) -> type[Launcher]:
    """Return the class that `launcher.kind` of cluster.toml names: a built-in launcher, or one of
    an installed package. Raises ConfigError."""
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
