"""Where a span is drawn. Every actor has four tracks, and a track as many lanes as it needs: on a
lane no two spans overlap, as the format wants of a thread."""

from __future__ import annotations

from enum import IntEnum


class Track(IntEnum):
    """Of an actor. The value orders them."""

    COMPUTE = 0  # array work
    INBOX = 1  # a message, from the call of its handler to its return
    WAITS = 2  # an ask, until it is answered
    SENDS = 3  # a message, until its link has taken it


CATEGORY = {
    Track.COMPUTE: "compute",
    Track.INBOX: "handle",
    Track.WAITS: "wait",
    Track.SENDS: "send",
}
ANSWER = "answer"  # within a wait: from its arrival until the asker goes on
SUFFIX = {Track.COMPUTE: "", Track.INBOX: " inbox", Track.WAITS: " waits", Track.SENDS: " sends"}
MOST_LANES = 1000  # of a track


class Lanes:
    """Of one process. Times are whole nanoseconds."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, Track], list[int]] = {}

    def place(self, actor: str, track: Track, began: int, ended: int) -> tuple[int, bool]:
        """The lane of a span, the first that is free, and whether it is new."""
        ends = self._ends.setdefault((actor, track), [])
        for lane, end in enumerate(ends):
            if end <= began:
                ends[lane] = ended
                return lane, False
        ends.append(ended)
        return len(ends) - 1, True


def thread(actor: int, track: Track, lane: int) -> int:
    """The number of a lane as a thread: those of one actor are neighbours."""
    return ((actor + 1) * 10 + track) * MOST_LANES + min(lane, MOST_LANES - 1)


def thread_name(actor: str, track: Track, lane: int) -> str:
    """What it is called: the actor's name is that of its array work."""
    return f"{actor}{SUFFIX[track]}" + (f" {lane + 1}" if lane else "")
