"""A recorder of the work of one process's actors while the run is traced: computing, handling,
waiting, sending.

The code that runs actors checks one attribute, `tracer`, which is None unless the run is traced. A
note is one tuple in a queue. Four times a second a thread turns the notes into lines and writes
them.
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
STEP: ContextVar[int] = ContextVar("step", default=NO_STEP)  # of the message being handled


class Tracer:
    """The recorder of one process, the `number`-th of its run. `now` returns loop time in seconds.
    Raises OSError if the part cannot be made."""

    def __init__(
        self, path: Path, process: str, number: int, actors: Iterable[str], now: Callable[[], float]
    ) -> None:
        self.path = path
        self.now = now
        self._actors = frozenset(actors)
        self._notes: deque[Note] = deque()
        self._spoken: dict[str, int] = {}  # actor -> the latest iteration in its messages
        # ask -> the flow of its answer, its time of arrival, its kind
        self._answers: dict[int, tuple[str, float, str]] = {}
        self._part = Part(path, process, number, actors)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="trace", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<tracer of {len(self._actors)} actors: {self._part!r}>"

    def step(self, actor: str) -> int:
        """The iteration to which the running task of an actor belongs. It is the iteration of the
        message being handled, or else the latest one in the actor's messages, which only grows. -1
        if neither is known."""
        handled = STEP.get()
        return self._spoken.get(actor, NO_STEP) if handled == NO_STEP else handled

    def handling(self, envelope: Envelope) -> float:
        """Note that a handler is about to be called. Returns loop time."""
        STEP.set(envelope.step)
        return self.now()

    def handled(self, envelope: Envelope, began: float) -> None:
        """Note that the handler has returned or raised."""
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
        """Note that a message is about to be sent. Returns loop time."""
        if envelope.step >= 0:
            before = self._spoken.get(envelope.sender, NO_STEP)
            # max(), since messages about finished iterations may be sent later
            self._spoken[envelope.sender] = max(before, envelope.step)
        return self.now()

    def sent(self, envelope: Envelope, began: float) -> None:
        """Note that the message is under way: its link had credits for it."""
        if envelope.sender in self._actors:
            name = type(envelope.message).__name__
            size = envelope.message.array_bytes()
            self._note(
                Track.SENDS, envelope.sender, name, began, envelope.step,
                begins=flow_of(envelope), peer=envelope.receiver, size=size,
            )  # fmt: skip

    def answered(self, envelope: Envelope) -> None:
        """Note that an answer has arrived, so that its asker continues."""
        self._answers[envelope.answers] = (
            flow_of(envelope),
            self.now(),
            type(envelope.message).__name__,
        )

    def waited(self, envelope: Envelope, began: float) -> None:
        """Note that the ask with this envelope has ended."""
        flow, came, answer = self._answers.pop(envelope.id, ("", 0.0, ""))
        if envelope.sender in self._actors:
            name = type(envelope.message).__name__
            ends = (flow, came) if flow else None
            self._note(
                Track.WAITS, envelope.sender, name, began, envelope.step,
                ends=ends, peer=envelope.receiver, answer=answer,
            )  # fmt: skip

    def computed(self, actor: str, label: str, began: float, seconds: float, step: int) -> None:
        """Note that a piece of array work is done."""
        if actor in self._actors:
            self._notes.append(Note(Track.COMPUTE, actor, label, began, began + seconds, step))

    def close(self) -> int:
        """Write the remaining notes and end. Returns the bytes of the part. Waits for a disk, so do
        not call it on the event loop."""
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
        """The main function of the thread."""
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
    """The name of a message's flow, which both its ends know."""
    return f"{envelope.sender}.{envelope.incarnation}.{envelope.id}"
