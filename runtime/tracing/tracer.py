"""Notes what the actors of one process do, while somebody traces: computing, handling, waiting,
sending.

Whoever runs actors asks one attribute, `tracer`, which is None otherwise. A note is one tuple in a
queue; a thread makes lines of them and writes them, four times a second.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path

from runtime.messages.message import Envelope
from runtime.reasons import reason
from runtime.tracing.trace_part import Note, Part
from runtime.tracing.tracks import Track

FLUSH_SECONDS = 0.25
NO_STEP = -1  # as in Envelope.step
STEP: ContextVar[int] = ContextVar("step", default=NO_STEP)  # of the message that is handled


class Tracer:
    """Of one process, the `number`-th of its run. `now` is loop time in seconds. OSError if the
    part cannot be made."""

    def __init__(
        self, path: Path, process: str, number: int, actors: Iterable[str], now: Callable[[], float]
    ) -> None:
        self.path = path
        self.now = now
        self._actors = frozenset(actors)
        self._notes: deque[Note] = deque()
        self._spoken: dict[str, int] = {}  # actor -> the iteration that it last spoke of
        # ask -> the flow of its answer, when it came, its kind
        self._answers: dict[int, tuple[str, float, str]] = {}
        self._part = Part(path, process, number, actors)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="trace", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<tracer of {len(self._actors)} actors: {self._part!r}>"

    def step(self, actor: str) -> int:
        """The iteration that the running task of an actor is about: that of the message that it
        handles, else the last that the actor spoke of, which only grows; -1: none."""
        handled = STEP.get()
        return self._spoken.get(actor, NO_STEP) if handled == NO_STEP else handled

    def handling(self, envelope: Envelope) -> float:
        """A handler is about to be called. Loop time."""
        STEP.set(envelope.step)
        return self.now()

    def handled(self, envelope: Envelope, began: float) -> None:
        """It has returned or raised."""
        if envelope.receiver in self._actors:
            name = type(envelope.message).__name__
            ends = (flow_of(envelope), began)
            self._note(
                Track.INBOX,
                envelope.receiver,
                name,
                began,
                envelope.step,
                ends=ends,
                peer=envelope.sender,
            )

    def sending(self, envelope: Envelope) -> float:
        """A message is about to be sent. Loop time."""
        if envelope.step >= 0:
            before = self._spoken.get(envelope.sender, NO_STEP)
            # what is done is told of later
            self._spoken[envelope.sender] = max(before, envelope.step)
        return self.now()

    def sent(self, envelope: Envelope, began: float) -> None:
        """It is on its way: its link had credits for it."""
        if envelope.sender in self._actors:
            name = type(envelope.message).__name__
            size = envelope.message.array_bytes()
            self._note(
                Track.SENDS, envelope.sender, name, began, envelope.step,
                begins=flow_of(envelope), peer=envelope.receiver, size=size,
            )  # fmt: skip

    def answered(self, envelope: Envelope) -> None:
        """An answer has come, and its asker will go on."""
        self._answers[envelope.answers] = (
            flow_of(envelope),
            self.now(),
            type(envelope.message).__name__,
        )

    def waited(self, envelope: Envelope, began: float) -> None:
        """An ask, whose envelope this is, has ended."""
        flow, came, answer = self._answers.pop(envelope.id, ("", 0.0, ""))
        if envelope.sender in self._actors:
            name = type(envelope.message).__name__
            ends = (flow, came) if flow else None
            self._note(
                Track.WAITS, envelope.sender, name, began, envelope.step,
                ends=ends, peer=envelope.receiver, answer=answer,
            )  # fmt: skip

    def computed(self, actor: str, label: str, began: float, seconds: float, step: int) -> None:
        """A piece of array work is done."""
        if actor in self._actors:
            self._notes.append(Note(Track.COMPUTE, actor, label, began, began + seconds, step))

    def close(self) -> int:
        """Write what there is and end; bytes of the part. Waits for a disk: not on the event
        loop."""
        self._over.set()
        self._thread.join()
        return self._part.size

    def _note(
        self,
        track: Track,
        actor: str,
        name: str,
        began: float,
        step: int,
        *,
        begins: str = "",
        ends: tuple[str, float] | None = None,
        peer: str = "",
        size: int = 0,
        answer: str = "",
    ) -> None:
        self._notes.append(
            Note(track, actor, name, began, self.now(), step, begins, ends, peer, size, answer)
        )

    def _write(self) -> None:
        """The thread's life."""
        over = False
        while not over:
            over = self._over.wait(FLUSH_SECONDS)
            try:
                self._part.write(self._notes, last=over)
            except OSError as error:
                text = "the trace of this process ends here: %s cannot be written: %s"
                logging.getLogger("convoy").warning(text, self.path, reason(error))
                self._part.give_up()


def flow_of(envelope: Envelope) -> str:
    """The name of a message under way, which both its ends know."""
    return f"{envelope.sender}.{envelope.incarnation}.{envelope.id}"
