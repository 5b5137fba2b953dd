"""Machines that are pods: a JobSet of the run, whose pods run the agents. All requests go through
the user's kubectl.

    kubectl create JobSet      pods are placed; they wait for their Secret
    kubectl create Secret      belongs to the JobSet; has the line of each agent
    kubectl get pods           again and again until all agents have joined, and again when one is
                               lost
    kubectl delete             in every case

If `up` is killed, its agents end by themselves. The JobSet has then failed, and Kubernetes removes
it a minute later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from runtime.cluster.kubernetes.kubectl import Kubectl
from runtime.cluster.kubernetes.objects import SET, job_set, pods_of, secret, unique_name
from runtime.cluster.kubernetes.pods import State, state
from runtime.cluster.launcher import LaunchPlan
from runtime.cluster.launchers.agents import AgentLauncher, Handle
from runtime.cluster.machines.agent_messages import Closed, Joined, Problem
from runtime.errors import LaunchError
from runtime.messages.message import Message

if TYPE_CHECKING:
    from runtime.config.sections import Machine  # importing it loads pydantic

LOOK_SECONDS = 1.0  # between two looks at pods that are starting
ASK_SECONDS = 0.1  # between two looks at a pod that is lost
EXPLAIN_SECONDS = 3.0  # for Kubernetes to report how a lost pod has ended


class Pod(Handle):
    """The starter of one machine's agent."""

    def __init__(self) -> None:
        self.state = State("its cluster has made no pod for it yet: see kubectl describe jobset")
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def end(self, how: str) -> None:
        """Note how the pod has ended. Only the first text counts."""
        if not self.ended.done():
            self.ended.set_result(how)

    async def wait(self) -> str:
        return await asyncio.shield(self.ended)

    def kill(self) -> None:
        """Do nothing: all pods are deleted at once when the launcher closes."""

    def waiting(self) -> str:
        return self.state.waiting or (
            "its pod runs, but its agent has not reached `up` (launcher.address)"
        )


class KubernetesLauncher(AgentLauncher):
    """The launcher of `kind = "kubernetes"`."""

    attached = False
    grace = 1.0 + EXPLAIN_SECONDS
    start_seconds = 300.0  # images have to be pulled, and a cluster may have to grow

    def __init__(self, plan: LaunchPlan) -> None:
        super().__init__(plan)
        wishes = self._wishes.kubernetes if self._wishes is not None else None
        if wishes is None:
            raise LaunchError(
                "launcher.kind is 'kubernetes': set launcher.kubernetes, at least its image"
            )
        self._engine = wishes
        self._kubectl = Kubectl(wishes.context or "", wishes.namespace or "")
        self._pods = pods_of(unique_name(plan.directory.name), self._elsewhere)
        self._lines: dict[str, str] = {}
        self._agents: dict[str, Pod] = {}
        self._awaited = {machine.name for machine in self._elsewhere}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked = self._made = self._closing = False
        self._told: set[str] = set()

    async def start(self, machine: Machine, argv: Sequence[str], line: str) -> Handle:
        """All pods are made when the last machine is started."""
        self._lines[machine.name] = line
        pod = self._agents[machine.name] = Pod()
        if len(self._lines) == len(self._elsewhere):
            await self._make(argv[-2])
        return pod

    async def close(self) -> None:
        self._closing = True
        await super().close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._asked:  # also if kubectl failed: only its answer may have been lost
            things = f"jobsets.jobset.x-k8s.io/{self._pods.name}", f"secrets/{self._pods.name}"
            try:
                await self._kubectl.delete(*things)
            except LaunchError as error:
                mend = " ".join([*self._kubectl.words, "delete", *things])
                if self._made:
                    logging.getLogger("convoy").warning("%s; type: %s", error, mend)

    async def _make(self, address: str) -> None:
        self._asked = True
        made = await self._kubectl.create(
            job_set(self._pods.name, self._elsewhere, address, self._engine)
        )
        self._made = True
        await self._kubectl.create(secret(self._pods, self._lines, made["metadata"]["uid"]))
        self._do(self._look_on(), "pods that are to come")

    # -- the state of pods

    async def _look_on(self) -> None:
        while self._awaited:
            try:
                await self._look()
            except LaunchError as error:
                self._warn(str(error), str(error))
            for name in self._awaited:
                self._tell(name)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        for pod in await self._kubectl.pods(f"{SET}={self._pods.name}"):
            name = self._pods.machine(pod)
            if name is not None:
                self._agents[name].state = state(pod)

    def _tell(self, name: str) -> None:
        """Report why a machine's pod waits, or how it has ended."""
        agent = self._agents[name]
        if agent.state.asked and self._failed():
            return  # its set ended it because another pod had failed: that pod is reported
        if agent.state.ended or agent.state.hopeless:
            agent.end(agent.state.ended or agent.state.waiting)
        elif agent.state.unusual and ": " in agent.state.waiting:
            # reported once, since a thousand pods may wait for the same reason
            why = agent.state.waiting.partition(" waits: ")[2]
            self._warn(f"machine '{name}': {agent.state.waiting}", why)

    def _warn(self, text: str, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            logging.getLogger("convoy").warning("%s", text)

    # -- a pod that is lost: Kubernetes' reason is reported

    def _heard(self, machine: str, message: Message) -> None:
        if isinstance(message, Joined):
            self._awaited.discard(machine)
        if isinstance(message, Problem) and not self._closing:
            self._do(
                self._explain(machine, partial(super()._heard, machine, message)),
                f"end of {machine}",
            )
            return
        super()._heard(machine, message)
        if isinstance(message, Closed):
            self._agents[machine].end("its agent has ended")

    def _lost(self, machine: str, why: str) -> None:
        self._do(self._explain(machine, partial(super()._lost, machine, why)), f"end of {machine}")

    async def _explain(self, machine: str, otherwise: partial[None]) -> None:
        agent = self._agents[machine]
        try:
            async with asyncio.timeout(EXPLAIN_SECONDS):
                while not (agent.state.ended or self._failed()):
                    await self._look()
                    await asyncio.sleep(ASK_SECONDS)
            # a set ends all its pods when one has failed: the failed pod is the cause
            for name in (*self._failed(), machine):
                if how := self._agents[name].state.ended:
                    self._machines[name].lost(how)
        except (LaunchError, TimeoutError):
            pass
        otherwise()

    def _failed(self) -> list[str]:
        """Return the machines whose pods have ended without being told to."""
        return [
            name
            for name, agent in self._agents.items()
            if agent.state.ended and not agent.state.asked
        ]

    def _do(self, work: object, name: str) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
