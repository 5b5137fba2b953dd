"""The summary of a run: its state, its scores and its configuration. A run keeps it in summary.json
when it ends, so that a list of a thousand runs reads one small file of each. The summary of a run
without this file is made from its journal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.machine.private_files import replace
from runtime.records import journal_reading, run_files
from runtime.records.journal_reading import event_of, is_number
from runtime.records.run_identity import configured
from runtime.report.run_keys import flattened
from runtime.report.run_phase import ENDING, RunPhase
from runtime.report.run_state import HEADLINE, TESTED
from runtime.terminal_text import bounded

FILE = "summary.json"
STATES = ("running", "ended", "interrupted", "continued", "failed")
RESULT = {"finished": "ended", "killed": "interrupted", "stopped": "interrupted"}
PASSED_OVER = b'"event": "progress"'  # in a journal: only the last of these lines counts
FALLING = "loss"  # a score whose name ends so is better if it is smaller
BEST = "best_"  # the lead's last event may name its best score: best_accuracy, best_iteration
NO_SCORES = ("iteration", "epoch", "net", "unix_seconds")  # other fields of a test
MOST_ERROR = 300  # characters


@dataclass
class RunSummary:
    """The summary of one run.

    `state` is one of STATES. `iteration` and `max_iter` are None if the program does not count
    iterations. `score` names the score that counts, such as "accuracy"; "" if nothing was tested.
    `best` maps each score of the tests to its best value and the iteration of that test, and `last`
    to the value of the last test. `loss` is the training loss of the last progress report. The last
    event came `seconds` after the begin of the run. `keys` are the keys of config.toml, such as
    "train.net", with their values.
    """

    state: str = "interrupted"
    iteration: int | None = None
    max_iter: int | None = None
    epoch: float | None = None
    seconds: float = 0.0
    images_per_second: float | None = None
    loss: float | None = None
    score: str = ""
    best: dict[str, tuple[float, int]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    error: str = ""
    keys: dict[str, Any] = field(default_factory=dict)

    @property
    def best_score(self) -> tuple[float, int] | None:
        """The best value of `score`, and its iteration. None if nothing was tested."""
        return self.best.get(self.score)

    @property
    def last_score(self) -> float | None:
        """The value of `score` in the last test. None if nothing was tested."""
        return self.last.get(self.score)


class Summing:
    """Makes the summary of a run from its events, in their order."""

    def __init__(self) -> None:
        self._found = RunSummary()
        self._phase = RunPhase()
        self._asked = False  # whether the end was asked for, by a person or a command
        self._net: object = None  # the first test net: its scores count
        self._named = ""  # the score that the lead names

    def event(self, t: float, event: str, fields: Mapping[str, Any]) -> None:
        """Note the next event, `t` seconds after the begin of the run."""
        found = self._found
        self._phase.event(event)
        self._asked = self._asked or event == ENDING[0]
        found.seconds = max(found.seconds, t)
        if event == HEADLINE:
            self._progress(fields)
        if is_number(fields.get("epoch")):
            found.epoch = fields["epoch"]
        if event == TESTED:
            self._test(fields)
        if event == "failed":
            found.error = bounded(str(fields.get("error", "")), MOST_ERROR)
        if is_number(fields.get("iterations")):  # the lead's last event
            found.iteration = int(fields["iterations"])
            self._end(fields)

    def _progress(self, fields: Mapping[str, Any]) -> None:
        found = self._found
        if is_number(fields.get("iteration")):
            found.iteration = max(found.iteration or 0, int(fields["iteration"]))
        if is_number(fields.get("max_iter")):
            found.max_iter = int(fields["max_iter"])
        if is_number(fields.get("loss")):
            found.loss = fields["loss"]

    def _test(self, fields: Mapping[str, Any]) -> None:
        self._net = fields.get("net") if not self._found.last else self._net
        if fields.get("net") != self._net or not is_number(fields.get("iteration")):
            return
        for name, value in fields.items():
            if name not in NO_SCORES and is_number(value):
                self._found.last[name] = float(value)
                best = self._found.best.get(name)
                if best is None or is_better(name, value, best[0]):
                    self._found.best[name] = (float(value), int(fields["iteration"]))

    def _end(self, fields: Mapping[str, Any]) -> None:
        rate = fields.get("images_per_second")
        self._found.images_per_second = rate if is_number(rate) else None
        at = fields.get(f"{BEST}iteration")
        for name, value in fields.items():
            score = name.removeprefix(BEST)
            if score not in (name, "iteration") and is_number(value) and is_number(at):
                self._found.best[score] = (float(value), int(at))
                self._named = score

    def summary(self, *, lives: bool = False) -> RunSummary:
        """Return the summary so far, without `keys`. `lives`: the run is not over."""
        found = self._found
        result = self._phase.result
        if lives and result != "failed":
            found.state = "running"
        elif self._asked and result == "finished":
            found.state = "interrupted"
        else:
            found.state = RESULT.get(result, result)
        found.score = self._named or next(
            (name for name in found.last if not name.endswith(FALLING)), next(iter(found.last), "")
        )
        return found


def is_better(score: str, value: float, best: float) -> bool:
    """Whether a value of this score is better than the best so far. Losses fall, other scores
    rise."""
    return value < best if score.endswith(FALLING) else value > best


def write(summing: Summing, directory: Path) -> None:
    """Write summary.json of a run that is over. Raises OSError, and Damaged if its config.toml
    cannot be read."""
    found = summing.summary()
    found.keys = dict(flattened(configured(directory)))
    replace(directory / FILE, (json.dumps(found.__dict__) + "\n").encode())


def summary_of(directory: Path, *, lives: bool, damaged: list[str]) -> RunSummary:
    """Return the summary of the run in this directory. `lives`: the run is not over, as its `up`
    shows. A line for each damaged file is added to `damaged`; its part of the summary is left
    out."""
    try:
        return _kept(directory)
    except run_files.Missing:  # the run lives, was killed, or is of an earlier version
        pass
    except run_files.Damaged as error:
        damaged.append(str(error))
    summing = Summing()
    try:
        for event in _events(directory):
            t, name = (event.pop(stamp) for stamp in ("t", "event"))
            summing.event(t, name, event)
    except run_files.Damaged as error:
        damaged.append(str(error))
    found = summing.summary(lives=lives)
    try:
        found.keys = dict(flattened(configured(directory)))
    except run_files.Missing:
        pass
    except run_files.Damaged as error:
        damaged.append(str(error))
    return found


def _kept(directory: Path) -> RunSummary:
    """Return the summary in summary.json. Raises Damaged, or Missing."""
    path = directory / FILE
    said = run_files.read_json(path)
    try:
        found = RunSummary(**said)
        found.best = {name: (float(value), int(at)) for name, (value, at) in found.best.items()}
        found.last = {name: float(value) for name, value in found.last.items()}
        numbers = (found.iteration, found.max_iter, found.epoch, found.seconds, found.loss)
        whole = (
            found.state in STATES
            and all(value is None or is_number(value) for value in numbers)
            and isinstance(found.score, str)
            and isinstance(found.error, str)
            and isinstance(found.keys, dict)
        )
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise run_files.damaged(path, error) from None
    if not whole:
        raise run_files.damaged(path, "found other fields")
    return found


def _events(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the events that a summary needs. Of the progress reports, which are most of a journal,
    only the last is parsed. Raises Damaged or Missing."""
    last = b""
    for raw in run_files.Lines(directory / journal_reading.FILE).whole():
        if PASSED_OVER in raw:
            last = raw
            continue
        if (event := event_of(raw.decode(errors="replace"))) is not None:
            yield event
    if (event := event_of(last.decode(errors="replace"))) is not None:
        yield event
