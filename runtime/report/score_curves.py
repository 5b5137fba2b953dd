"""The scores and losses of a run over its iterations, read from its journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.records.journal_reading import FILE, events, is_number
from runtime.records.run_files import Damaged, LeftOut
from runtime.report.run_state import HEADLINE, TESTED


@dataclass
class ScoreCurves:
    """The curves of one run: name of a score -> iteration -> value. `tests` has the scores of the
    first test net, `training` those of the progress reports. `epochs` maps iterations to epochs,
    where the run reports them."""

    tests: dict[str, dict[int, float]] = field(default_factory=dict)
    training: dict[str, dict[int, float]] = field(default_factory=dict)
    epochs: dict[int, float] = field(default_factory=dict)
    net: str | None = None  # the first test net, if the tests name their nets

    def of(self, score: str) -> dict[int, float]:
        """The curve of a score of the tests, or else of the training. Empty if the run has
        neither."""
        return self.tests.get(score) or self.training.get(score, {})

    def add(self, event: Mapping[str, Any]) -> None:
        """Note the numbers of a progress report or a test."""
        into = {HEADLINE: self.training, TESTED: self.tests}.get(event["event"])
        at = event.get("iteration")
        if into is None or not is_number(at):
            return
        self.net = self.net or event.get("net")
        if event.get("net") not in (None, self.net):
            return
        if is_number(event.get("epoch")):
            self.epochs[int(at)] = event["epoch"]
        for name, value in event.items():
            if is_number(value):
                into.setdefault(name, {})[int(at)] = float(value)


def curves_of(directory: Path, damaged: list[str]) -> ScoreCurves:
    """Read the curves of the run in this directory. A line for each damaged part of its journal is
    added to `damaged`."""
    found = ScoreCurves()
    left_out = LeftOut(directory / FILE)
    try:
        for event in events(directory, left_out):
            found.add(event)
    except Damaged as error:
        damaged.append(str(error))
    damaged += left_out.notes
    return found
