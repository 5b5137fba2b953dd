"""The base_lr of a run whose rate falls after tests without improvement: how often it has fallen,
and how often it must have fallen by now. Decisions only, no messages are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping

from roles.checkpoints.best import Plateau

# in a checkpoint's metadata: the steps, and the rule that counts them
REDUCED = "reduced"
RULE = "reduced_by"


class PlateauSteps:
    """Counts the steps down of one run. `plateau` is the rule that its tests follow."""

    def __init__(self, plateau: Plateau) -> None:
        self._plateau = plateau
        self._done = 0  # steps that need not be taken: the present base_lr includes them
        self._due = 0

    def __repr__(self) -> str:
        return f"<{self._done} of {self._due} steps down>"

    def hear(self, reductions: int) -> bool:
        """Take the number of steps that the tests so far ask for. Returns True if a step may be
        due."""
        self._due = reductions
        return self._due > self._done

    def next_base_lr(self, base_lr: float) -> float | None:
        """The base_lr after the steps that are due, which then count as done. None if no step is
        due."""
        count = self._due - self._done
        if count <= 0:
            return None
        self._done = self._due
        lowest = min(base_lr, self._plateau.least)
        return max(lowest, base_lr * self._plateau.factor**count)

    def facts(self) -> dict[str, str]:
        """The metadata of a checkpoint: the steps that its base_lr includes, and their rule. Empty
        if the rate does not follow tests."""
        if not self._plateau.watch.score:
            return {}
        return {REDUCED: str(self._done), RULE: self._rule}

    def resume(self, facts: Mapping[str, str], reductions: int) -> None:
        """Take over the steps of the run that wrote these metadata. `reductions`: the steps that
        its tests ask for by the present rule. If that run had another rule, its base_lr stays as it
        is, and these steps count as done."""
        said = facts.get(REDUCED, "0")
        done = int(said) if said.isascii() and said.isdigit() and len(said) < 9 else 0
        self._done = done if facts.get(RULE) == self._rule else reductions

    @property
    def _rule(self) -> str:
        """The rule by which steps are counted. The factor is no part of it."""
        rule = self._plateau
        return json.dumps([rule.watch.score, rule.patience, rule.min_delta])
