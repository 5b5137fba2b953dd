"""How messages of one kind fared at one actor: sums that its cell adds to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Service:
    """How many were handled, seconds that they waited in the inbox, and seconds that their handler took, with what that
    itself waited for."""

    handled: int = 0
    waited: float = 0.0
    seconds: float = 0.0
