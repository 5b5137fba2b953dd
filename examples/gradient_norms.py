"""A role of your own: a monitor on the path of the gradients to each model server. It reports their
norms as they pass.

`python examples/gradient_norms.py`, or `program = "examples.gradient_norms"` in a cluster.toml with
a [train] section.
"""

import asyncio
import dataclasses
from dataclasses import dataclass
from functools import partial

import numpy as np

import roles
import runtime
from roles import Options, preload  # noqa: F401  # more parts of a program, from the built-in one
from roles.base.role import RoleOptions
from roles.messages import LayerGradient
from roles.servers.conv_model import ModelOptions
from runtime import Actor, ActorSpec, Envelope, Message, Topology, message


@message
class Watch(Message):
    """A request: from now on, report the norms of every `every`-th iteration."""

    every: int


@message
class Watched(Message):
    """The answer: the number of gradients that have passed so far."""

    gradients: int


@dataclass(frozen=True, kw_only=True)
class NormOptions(RoleOptions):
    """Passes gradients on to `parent`. In every `every`-th iteration it reports the norm of each
    layer's gradient."""

    parent: str
    every: int


class NormMonitor(Actor):
    Options = NormOptions

    def __init__(self, options: NormOptions) -> None:
        self._parent = options.parent
        self._every = options.every
        self._passed = 0

    async def on_layer_gradient(self, gradient: LayerGradient, envelope: Envelope) -> None:
        await self.tell(self._parent, gradient, step=gradient.number)
        self._passed += 1
        if gradient.number % self._every == 0:
            norm = await self.compute("norm", norm_of, gradient)
            self.emit("norm", iteration=gradient.number, layer=gradient.layer, norm=norm)

    async def on_watch(self, message: Watch, envelope: Envelope) -> None:
        self._every = message.every
        await self.reply(envelope, Watched(gradients=self._passed))


def norm_of(gradient: LayerGradient) -> float:
    return float(np.sqrt(sum(np.vdot(blob, blob) for blob in gradient.blobs)))


def monitored(topology: Topology, every: int = 20) -> Topology:
    """Return the topology with a monitor on each path of gradients to a model server. The monitor
    runs in that server's process."""
    servers = {actor.name for actor in topology.actors if isinstance(actor.options, ModelOptions)}
    actors = []
    links = list(topology.links)

    def through(sender: str, parent: str) -> str:
        """Return the receiver of the sender's gradients in place of `parent`."""
        if parent not in servers:
            return parent
        name = f"norms-{sender}"
        actors.append(
            ActorSpec(name, "norm_monitor", NormOptions(parent=parent, every=every), process=parent)
        )
        links.extend([(sender, name), (name, parent)])
        return name

    for actor in topology.actors:
        options = actor.options.redirected(partial(through, actor.name))
        actors.append(dataclasses.replace(actor, options=options))
    return dataclasses.replace(topology, program=__name__, actors=tuple(actors), links=tuple(links))


ROLES = {**roles.ROLES, "norm_monitor": NormMonitor}


def plan(config: object, options: Options) -> Topology:
    return monitored(roles.plan(config, options))


async def main() -> None:
    rates = {"base_lr": 0.01, "momentum": 0.6}  # two asynchronous groups add implicit momentum
    topology = monitored(
        roles.training({"max_iter": 200, **rates, "strategy": {"preset": "async", "workers": 2}})
    )
    async with runtime.launch(topology) as run:
        async for event in run.events():
            if event.name == "norm":
                print(event)
                if event["iteration"] == 20:  # look closer from here on
                    await run.ask(event.actor, Watch(every=5), Watched)


if __name__ == "__main__":
    asyncio.run(main())
