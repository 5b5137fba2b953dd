"""Workers train a linear model together with a parameter server: `python parameter_server.py`.

In each step every worker pulls the weights and pushes the gradient of its rows. The server answers
a pull of step k when the gradients of all earlier steps are in the weights.
"""

import asyncio

import numpy as np

import runtime
from runtime import Actor, ActorSpec, Array, Envelope, Message, Peer, Topology, message

WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0])


@message
class Pull(Message):
    step: int


@message
class Push(Message):
    gradient: Array


class Server(Actor):
    def __init__(self, *, workers: int, steps: int, rate: float) -> None:
        self._workers, self._steps, self._rate = workers, steps, rate
        self._weights = np.zeros_like(WEIGHTS)
        self._gradients: list[Array] = []
        self._step = 0
        self._pulls: list[Envelope] = []  # asks that wait for the next step
        self._trained = asyncio.Event()

    async def run(self) -> None:
        await self._trained.wait()
        self.emit("trained", weights=self._weights.round(6).tolist())

    async def on_pull(self, message: Pull, envelope: Envelope) -> Array | None:
        if message.step == self._step:
            return self._weights
        self._pulls.append(envelope)
        return None

    async def on_push(self, message: Push, envelope: Envelope) -> None:
        self._gradients.append(message.gradient)
        if len(self._gradients) < self._workers:
            return
        # a new array: the last one was sent, so it must not change
        self._weights = self._weights - self._rate * np.mean(self._gradients, axis=0)
        self._step += 1
        self._gradients, pulls, self._pulls = [], self._pulls, []
        for pull in pulls:
            await self.reply(pull, self._weights)
        if self._step == self._steps:
            self._trained.set()


class Worker(Actor):
    def __init__(self, *, server: Peer, rank: int, steps: int) -> None:
        self._server, self._steps = server, steps
        self._x = np.random.default_rng(rank).normal(size=(100, len(WEIGHTS)))
        self._y = self._x @ WEIGHTS

    async def run(self) -> None:
        for step in range(self._steps):
            weights = await self.ask(self._server, Pull(step=step), np.ndarray)
            gradient = await self.compute("gradient", self._gradient, weights)
            await self.tell(self._server, Push(gradient=gradient))

    def _gradient(self, weights: Array) -> Array:
        return self._x.T @ (self._x @ weights - self._y) / len(self._y)


ROLES = {"server": Server, "worker": Worker}


def topology(workers: int = 3, steps: int = 100) -> Topology:
    server = ActorSpec("server", "server", {"workers": workers, "steps": steps, "rate": 0.5})
    names = [f"worker-{rank}" for rank in range(workers)]
    specs = [
        ActorSpec(name, "worker", {"server": "server", "rank": rank, "steps": steps})
        for rank, name in enumerate(names)
    ]
    links = tuple((name, "server") for name in names)
    return Topology(__name__, (server, *specs), links, "server")


if __name__ == "__main__":
    print(runtime.run(topology()))  # {'weights': [1.0, 2.0, 3.0, 4.0]}
