"""A conv model server alone in a process with real threads. Its messages are kept, and the test
sends messages to it."""

from __future__ import annotations

import asyncio
from typing import Any

from roles.learning.job import Job
from roles.messages import TRAIN, LayerGradient, LayerModel, PullLayer
from roles.servers.conv_model import ConvModel, ModelOptions
from runtime.messages.message import Envelope, Message

JOB = Job(
    net="lenet",
    solver="lenet_solver",
    data={"TRAIN": {"format": "digits", "split": "train"}},
    seed=1,
    batch=4,
    test_batches=(4,),
    base_directory=".",
    solver_values={"momentum": 0.0},
)
PATIENCE = 20  # seconds after which a hanging test fails


class Model(ConvModel, overrides=("reply", "tell")):
    """A conv model that keeps the messages that it sends."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            ModelOptions(job=JOB, image_shape=(1, 28, 28), coordinator="coordinator", **options)
        )
        self.said: list[Message] = []

    async def reply(self, envelope: Envelope, message: Message) -> None:
        self.said.append(message)

    async def tell(self, to: str, message: Message, *, step: int = -1) -> None:
        self.said.append(message)

    async def pulled(self, group: int, number: int, layer: str) -> LayerModel:
        """Pull a layer. Returns the layer as it is published for a pass."""
        pull = PullLayer(group=group, members=1, phase=TRAIN, number=number, layer=layer, after=-1)
        await self.on_pull_layer(pull, envelope(pull))
        last = self.said[-1]
        assert isinstance(last, LayerModel)
        return last

    async def given(self, group: int, number: int, layer: str, blobs: tuple[Any, ...]) -> None:
        """Hand the model a group's gradient."""
        said = LayerGradient(
            group=group,
            number=number,
            layer=layer,
            part=0,
            parts=1,
            formats=("float32",) * 2,
            blobs=blobs,
        )
        await self.on_layer_gradient(said, envelope(said))

    async def raced(self) -> list[Message]:
        """Wait for the updates in progress. Returns the messages sent."""
        await asyncio.wait_for(asyncio.gather(*self._races._tasks), PATIENCE)
        return self.said


def envelope(message: Message) -> Envelope:
    return Envelope(
        message, id=1, sender="conv-0-0", incarnation=1, receiver="conv_model", reply_to="conv-0-0"
    )
