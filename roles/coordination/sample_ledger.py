"""The ledger of samples: which worker has which passes, and which passes are to be done again since
their worker has died or left. Decisions only, no messages are sent.

    handed out -> merged -> ended      the samples are trained
    handed out -> given back           the worker is gone: the pass is handed out again

A pass has one worker at a time, and a merged pass is never given back. So each sample is in the
model once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Key = tuple[str, int]  # phase and number of a pass


class Pass(NamedTuple):
    """The next work of a group: pass `number` of this phase, on `rows` samples from sample `first`
    on. `passes` - 1 more follow, each on as many of the next samples. `probed` of the numbers
    before it belong to probes."""

    phase: str
    number: int
    rows: int
    passes: int = 1
    first: int = 0
    probed: int = 0


class GivenBack(NamedTuple):
    """The passes of a worker that is gone. `again`: they are handed out again. `merged`: the model
    has them, and only the worker's reports about them may be missing."""

    again: tuple[Key, ...]
    merged: tuple[Key, ...]


@dataclass
class _Held:
    """A single pass and its worker."""

    worker: str
    given: Pass
    merged: bool = False


class SampleLedger:
    """The passes under way in one run whose workers come and go. Each worker does whole passes."""

    def __init__(self) -> None:
        self._held: dict[Key, _Held] = {}
        self._free: dict[Key, Pass] = {}

    def __repr__(self) -> str:
        return f"<{len(self._held)} passes under way, {len(self._free)} given back>"

    def hand_out(self, worker: str, given: Pass) -> None:
        """Note that a worker has these passes."""
        for at in range(given.passes):
            each = given._replace(
                number=given.number + at, passes=1, first=given.first + at * given.rows
            )
            self._held[each.phase, each.number] = _Held(worker, each)

    def again(self, at_most: int) -> Pass | None:
        """Take up to `at_most` passes in a row that were given back, the first of them first; None
        if there are none."""
        if not self._free:
            return None
        key = min(self._free)
        found = self._free.pop(key)
        while found.passes < at_most and self._follows(found):
            del self._free[found.phase, found.number + found.passes]
            found = found._replace(passes=found.passes + 1)
        return found

    def _follows(self, found: Pass) -> bool:
        """Whether a given back pass has the next number and the next samples."""
        number = found.number + found.passes
        first = found.first + found.passes * found.rows
        following = found._replace(number=number, passes=1, first=first)
        return self._free.get((found.phase, number)) == following

    def merged(self, phase: str, number: int) -> None:
        """Note that the model has a pass."""
        held = self._held.get((phase, number))
        if held is not None:
            held.merged = True

    def ended(self, phase: str, number: int) -> None:
        """Note that all reports about a pass have arrived."""
        self._held.pop((phase, number), None)

    def give_back(self, worker: str) -> GivenBack:
        """Take the passes of a worker that is gone away from it. Those that are not merged can be
        handed out again."""
        mine = {key: held for key, held in sorted(self._held.items()) if held.worker == worker}
        again = tuple(key for key, held in mine.items() if not held.merged)
        for key in again:
            self._free[key] = self._held.pop(key).given
        return GivenBack(again, tuple(key for key in mine if key not in again))
