"""Trials that are kept in a file of JSON lines, so that a part of a benchmark that was cut off can
continue.

Trials on the virtual clock are kept next to this module: an exhaustive grid takes hours, and its
service times belong to one machine. Continuing it, on any machine, uses the same service times.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.helpers.report import ROOT, machine
from benchmarks.tuning.runs import (
    AUTO,
    OMNIVORE,
    SINGA,
    Prepared,
    Reached,
    Setting,
    Task,
    Times,
    measured,
    trial,
)

FILE = ROOT / "benchmarks" / "tuning" / "trials.jsonl"
# the files of the tuner and of its model, in addition to the files that every run uses
CODE = (
    "roles/tuning/*.py",
    "roles/coordination/*.py",
    "roles/forecasting/*.py",
    "runtime/queueing/*.py",
)
# presets whose actors do the same pieces of work as another preset's, with one worker
SAME_WORK = {SINGA: "mxnet-async"}
Make = Callable[[Setting | None, int, Reached | None, str], Reached]  # setting, seed, rival, preset


def digest() -> str:
    """The hash of the tuner's code without its comments and docstrings. Runs that tune themselves
    are made again when it changes."""
    files = sorted(path for pattern in CODE for path in ROOT.glob(pattern))
    code = "\n".join(_code(path.read_text("utf-8")) for path in files)
    return hashlib.sha256(code.encode()).hexdigest()[:12]


def _code(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            del body[0]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


TUNER = f"{AUTO} {digest()}"  # of the code that this process runs


class Kept:
    """Results by name. Each line of the file also has its origin: the commit and the processor.
    Without a file, results live only as long as this object. A line that was cut off, or has no
    origin (from an older version), is ignored. Results in the files `also` are known too, and new
    ones are not written there. `origins`: those of the results that were used."""

    def __init__(self, file: Path | None = None, *also: Path) -> None:
        self._file = file
        self._found = dict[str, tuple[Any, str]]()  # name -> result, origin
        self.origins = set[str]()
        here = machine()
        self._origin = f"{here['commit']} on {here['processor']}"
        for path in (*also, *((file,) if file is not None else ())):
            for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
                try:
                    entry = json.loads(line)
                    self._found[entry["name"]] = entry["found"], entry["origin"]
                except (ValueError, KeyError):
                    continue

    def __repr__(self) -> str:
        return f"<{len(self._found)} entries, {self._file}>"

    def get(self, name: str) -> Any:
        """The result of this name; None if it is not known."""
        found, origin = self._found.get(name, (None, ""))
        self.origins |= {origin} - {""}
        return found

    def put(self, name: str, found: Any) -> None:
        """Keep a result. It replaces an earlier one of that name."""
        self._found[name] = found, self._origin
        self.origins.add(self._origin)
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as lines:
                entry = {"name": name, "origin": self._origin, "found": found}
                # starts on a new line, in case the line before was cut off
                lines.write("\n" + json.dumps(entry) + "\n")


@dataclass(frozen=True)
class Repeated:
    """Trials of one setting with different seeds."""

    runs: tuple[Reached, ...]

    @property
    def pace(self) -> float:
        """Mean seconds of an iteration."""
        return fmean(each.pace for each in self.runs)

    @property
    def iterations(self) -> float | str:
        """The mean iterations to the target, or how many trials did not reach it."""
        return self._lost or fmean(each.iterations or 0 for each in self.runs)

    @property
    def seconds(self) -> float | str:
        """The mean seconds to the target, or how many trials did not reach it."""
        return self._lost or fmean(each.took for each in self.runs)

    @property
    def took(self) -> float:
        """The mean seconds to the target; infinite if a trial did not reach it."""
        return fmean(each.took for each in self.runs)

    @property
    def _lost(self) -> str:
        lost = [each for each in self.runs if each.seconds is None]
        how = "diverged" if any(each.diverged for each in lost) else "not reached"
        return f"{len(lost)} of {len(self.runs)} {how}" if lost else ""


class Trials:
    """Trials of one task with so many workers, each made once, by `make(setting, seed, rival,
    preset)`. `where` describes the network. A setting of None is a run that tunes itself."""

    def __init__(self, task: Task, workers: int, where: str, make: Make, kept: Kept) -> None:
        self.task = task
        self.workers = workers
        self.where = where
        self._make = make
        self._kept = kept
        self._made = 0

    def __repr__(self) -> str:
        return f"<trials of {self.task.name}, {self.workers} workers, {self._made} made>"

    def of(
        self,
        setting: Setting | None,
        *,
        seed: int = 1,
        rival: Reached | None = None,
        preset: str = OMNIVORE,
    ) -> Reached:
        """One trial. A trial that was cut is made again without a rival, or with a slower one."""
        name = self._name(setting, seed, preset)
        known = self._known(name)
        if known is not None and (
            known.cut is None or (rival is not None and rival.took <= known.against)
        ):
            return known
        made = self._make(setting, seed, rival, preset)
        self._made += 1
        # the precision that `Reached.behind` needs
        way = [(round(seconds, 4), round(loss, 4)) for seconds, loss in made.way]
        self._kept.put(name, asdict(made) | {"way": way})
        return made

    def first_of(
        self, settings: Iterable[Setting], *, preset: str = OMNIVORE
    ) -> dict[Setting, Reached]:
        """Try all settings with the first seed, known ones first. The best so far is the rival of
        the next."""
        known = {
            setting: self._known(self._name(setting, 1, preset)) or Reached()
            for setting in settings
        }
        found: dict[Setting, Reached] = {}
        for setting in sorted(known, key=lambda each: known[each].took):
            rival = min(found.values(), key=lambda each: each.took, default=None)
            lost = rival is None or rival.seconds is None
            found[setting] = self.of(setting, rival=None if lost else rival, preset=preset)
        return found

    def repeated(self, setting: Setting | None, seeds: int, *, preset: str = OMNIVORE) -> Repeated:
        """Whole trials of a setting, with seeds 1 to `seeds`."""
        return Repeated(
            tuple(self.of(setting, seed=seed, preset=preset) for seed in range(1, seeds + 1))
        )

    @property
    def source(self) -> dict[str, Any]:
        """The origins of the trials, as facts of a record."""
        origins = ", ".join(sorted(self._kept.origins)) or "none"
        return {
            "trials made by this run": self._made,
            ("trials and service times are from commits"): origins,
        }

    def _name(self, setting: Setting | None, seed: int, preset: str) -> str:
        task = self.task
        cluster = f"{self.workers} workers, {self.where}, {preset}, {setting or TUNER}, seed {seed}"
        return f"{task.name} to {task.target} in {task.iterations}, {cluster}"

    def _known(self, name: str) -> Reached | None:
        found = self._kept.get(name)
        return None if found is None else Reached(**found)


def on_virtual_clock(
    task: Task,
    workers: int,
    gigabits: float,
    kept: Kept,
    *,
    times: Times | None = None,
    but: str = "",
    prepared: Prepared | None = None,
) -> Trials:
    """Trials on the virtual clock, with these service `times`, or with times that are measured once
    in processes on this machine. `gigabits`: per second, of each machine's interface in each
    direction. `but`: how these trials differ from others of the task, part of their names;
    `prepared` makes the difference."""

    def make(setting: Setting | None, seed: int, rival: Reached | None, preset: str) -> Reached:
        return trial(
            task,
            workers,
            setting,
            times or service_times(task, preset, kept),
            rate=gigabits * 1e9 / 8,
            seed=seed,
            rival=rival,
            preset=preset,
            prepared=prepared,
        )

    where = f"{gigabits:g} Gbit/s" + (f", {but}" if but else "")
    return Trials(task, workers, where, make, kept)


def service_times(task: Task, preset: str, kept: Kept) -> Times:
    """The service times of a task, measured in processes if they are not kept yet."""
    preset = SAME_WORK.get(preset, preset)
    name = f"{task.name}, {preset}: service times"
    if kept.get(name) is None:
        kept.put(name, measured(task, preset))
    return {key: (seconds, spread) for key, (seconds, spread) in kept.get(name).items()}
