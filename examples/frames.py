"""How soon a viewer has frames of 64 MB: sent when they are drawn, and sent ahead of their last lines.

`python examples/frames.py`
"""

import time
from statistics import median

from runtime import Actor, ActorSpec, Array, Envelope, Message, Topology, message, run

FRAMES, ROWS, COLUMNS, LAST = 12, 8192, 8192, 1024  # drawing the last rows takes about a millisecond


@message
class Frame(Message):
    number: int
    pixels: Array


@message
class Seen(Message):
    """The viewer's answer: when it had the frame, in seconds on the host's clock."""

    at: float


class Viewer(Actor):
    async def on_frame(self, frame: Frame, envelope: Envelope) -> None:
        at = time.monotonic()
        assert frame.pixels[-1, -1] == frame.number, "half a frame"
        await self.reply(envelope, Seen(at=at))


class Painter(Actor):
    """Draws frame after frame; the run ends with it."""

    async def run(self) -> None:
        drawn, ahead = [], []
        for number in range(FRAMES):
            frame = self.memory(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
            await self.compute("draw", self._draw, frame, number)
            seen = await self.ask("viewer", Frame(number=number, pixels=frame), Seen)
            drawn.append(seen.at - self._ready)

            frame = self.memory(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
            await self.compute("draw", self._draw, frame[:-LAST], number)
            rest = self.compute("draw", self._draw, frame[-LAST:], number)
            seen = await self.ask("viewer", Frame(number=number, pixels=frame), Seen, after=rest)
            ahead.append(seen.at - self._ready)
        self.emit("seen", frames=2 * FRAMES, ms_when_drawn=1e3 * median(drawn), ms_sent_ahead=1e3 * median(ahead))

    def _draw(self, rows: Array, number: int) -> None:
        rows.fill(number)
        self._ready = time.monotonic()


ROLES = {"painter": Painter, "viewer": Viewer}

if __name__ == "__main__":
    actors = ActorSpec("painter", "painter"), ActorSpec("viewer", "viewer")
    run(Topology(__name__, actors, (("painter", "viewer"),), "painter"), show=True)
