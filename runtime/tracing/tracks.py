"""The tracks on which spans are drawn. Every actor has four tracks, and a track has as many lanes
as it needs. On a lane no two spans overlap, as the format requires of a thread."""

from __future__ import annotations

from enum import IntEnum


class Track(IntEnum):
    """A track of an actor. The values order the tracks."""

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
ANSWER = "answer"  # within a wait: from the answer's arrival until the asker continues
SUFFIX = {Track.COMPUTE: "", Track.INBOX: " inbox", Track.WAITS: " waits", Track.SENDS: " sends"}
MOST_LANES = 1000  # most lanes of a track


class Lanes:
    """The lanes of one process. Times are whole nanoseconds."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, Track], list[int]] = {}

    def place(self, actor: str, track: Track, began: int, ended: int) -> tuple[int, bool]:
        """The first free lane for a span, and whether it is new."""
        ends = self._ends.setdefault((actor, track), [])
        for lane, end in enumerate(ends):
            if end <= began:
                ends[lane] = ended
                return lane, False
        ends.append(ended)
        return len(ends) - 1, True


def thread(actor: int, track: Track, lane: int) -> int:
    """The number of a lane as a thread. The lanes of one actor are neighbours."""
    return ((actor + 1) * 10 + track) * MOST_LANES + min(lane, MOST_LANES - 1)


def thread_name(actor: str, track: Track, lane: int) -> str:
    """The name of a lane. The plain name of an actor is the lane of its array work."""
    return f"{actor}{SUFFIX[track]}" + (f" {lane + 1}" if lane else "")
