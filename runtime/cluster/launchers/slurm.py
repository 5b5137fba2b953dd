"""Machines that Slurm has allocated to this job. The agent of each is a step of the job.

    srun --nodes=1 --ntasks=1 --nodelist=NODE --overlap ...
        sh -c 'exec python -m runtime join ADDRESS MACHINE'

The node where `up` runs may be one of them; its agent is a step like the others. srun holds an
agent's standard input. If srun ends for any reason, Slurm ends the step and kills all its processes
at once. No process is then left to remove the folder of the run, so another step removes it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from runtime.cluster.launcher import LaunchPlan
from runtime.cluster.launchers.agents import AgentLauncher, Handle, elsewhere, shell_line
from runtime.cluster.launchers.command import Command
from runtime.cluster.launchers.remote import RemoteMachine
from runtime.cluster.machines.agent_messages import Closed, Exited, Problem
from runtime.config.hostfile import expanded
from runtime.config.machines import machine_name
from runtime.config.slurm_environment import JOB, nodes
from runtime.errors import LaunchError
from runtime.messages.message import Message
from runtime.typed_name import typed_name

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # importing it loads pydantic

# whatever defaults the site has, a step of one task gets all resources of the job on its node, and
# shares them with other steps
STEP = (
    "--nodes=1",
    "--ntasks=1",
    "--overlap",
    "--mem=0",
    "--cpu-bind=none",
    "--mpi=none",
    "--export=ALL",
)
MARKED = re.compile(r"\*\*\* (STEP .*) \*\*\*")  # slurmstepd's format
ENDED = re.compile(r"[Nn]ode failure|NODE FAILURE|Force Terminated|Job step aborted")
AFTERWARDS = re.compile(
    r"srun: (error: )?(\S+: task|Job step " r"aborted|Terminating|forcing|launch/slurm)"
)
WORDS_SECONDS = 0.5  # for Slurm to report that it has ended a process
SWEEP_SECONDS = 5.0  # for the step that removes a killed step's folder; its node may be down


class Step(Command):
    """An srun process. Of its output, Slurm's reason for the end counts most, then the last line
    that is not srun's own summary."""

    @property
    def ended(self) -> str:
        """Slurm's reason for ending the step, or "" if Slurm has not ended it."""
        marked = [match[1] for line in self._said if (match := MARKED.search(line))]
        return next(iter([*marked, *filter(ENDED.search, self._said)]), "")

    @property
    def _last(self) -> str:
        said = [line for line in self._said if line.strip()]
        first_hand = [line for line in said if not AFTERWARDS.match(line)]
        return self.ended or (first_hand or said or [""])[-1]


class SlurmLauncher(AgentLauncher):
    """The launcher of `kind = "slurm"`."""

    def __init__(self, plan: LaunchPlan) -> None:
        """Raises LaunchError if the machines are not nodes of this job. It is raised here, because
        without the job no other machine can be reached."""
        super().__init__(plan)
        # machines whose agents reported their end: they have removed their folders
        self._parted: set[str] = set()
        far = dict.fromkeys(_node(machine) for machine in plan.machines if elsewhere(machine))
        if problem := _absent(tuple(far), os.environ):
            raise LaunchError(problem)

    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
        """Nodes of one cluster have the same files, so the Python is that of `up`."""
        command = shell_line(machine, [machine.python or sys.executable, *argv[1:]])
        words = ["srun", *STEP, f"--nodelist={_node(machine)}", "sh", "-c", command]
        return Step.start(words, line, f"srun {_node(machine)}")

    async def _part(self, remote: RemoteMachine) -> None:
        await super()._part(remote)
        if remote.name not in self._parted and (pid := remote.pid) is not None:
            machine = next(machine for machine in self.plan.machines if machine.name == remote.name)
            sweeping = await self.start(
                machine, ["python3", "-m", "runtime.machine.private", str(pid)], ""
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(sweeping.wait(), SWEEP_SECONDS)
            sweeping.kill()

    # -- when Slurm ends the job, all its processes die at once: Slurm's reason is reported

    def _heard(self, machine: str, message: Message) -> None:
        if isinstance(message, (Problem, Closed)):
            self._parted.add(machine)
        if isinstance(message, Problem) or (isinstance(message, Exited) and message.status < 0):
            self._later(machine, partial(super()._heard, machine, message))
        else:
            super()._heard(machine, message)

    def _lost(self, machine: str, why: str) -> None:
        self._later(machine, partial(super()._lost, machine, why))

    def _later(self, machine: str, tell: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(WORDS_SECONDS, self._explained, machine, tell)

    def _explained(self, machine: str, tell: Callable[[], None]) -> None:
        step = self._handles.get(machine)
        if isinstance(step, Step) and step.ended:
            self._machines[machine].lost(f"Slurm has ended its step: {step.ended}")
        tell()


def _node(machine: Machine) -> str:
    return machine_name(machine.host or machine.name)


def _absent(wanted: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return why the run cannot use these nodes, or "" if it can."""
    job = environ.get(JOB)
    listed = nodes(environ)
    if wanted and not job:
        start = f"salloc --nodes={len(wanted)} --exclusive {typed_name()} up"
        text = (
            f"launcher.kind is 'slurm', but this is not a job ({JOB} is not set): type "
            f"`{start} ...`"
        )
        return f"{text}, or let `up ... --sbatch FILE` write a job script"
    if listed:
        has = expanded(listed)
        strange = next((node for node in wanted if node not in has), None)
        if strange is not None:
            return f"machine '{strange}' is not a node of job {job}, which has {listed}"
    return ""
