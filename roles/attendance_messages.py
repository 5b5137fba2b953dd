"""The messages about workers that come and go while a run goes on."""

from __future__ import annotations

from runtime.messages.message import Message, message


@message
class Abandon(Message):
    """Coordinator tells a server: this worker has died. Drop what it has sent and you have not
    merged, and take nothing more of its present life. Answered by telling Abandoned."""

    worker: str


@message
class Abandoned(Message):
    """Server tells the coordinator: it is done. Every iteration of this worker that is in the model
    was reported before."""

    worker: str


@message
class Join(Message):
    """Coordinator asks a worker in a new life: take the server's model over, and use these rates
    from now on, as in Rates. Answered with Done."""

    base_lr: float
    momentum: float
    batch: int
