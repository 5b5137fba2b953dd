"""The iterations in which earlier runs reached a target, from their run directories: a plan learns
from them.

A run counts for this plan if it trained the same net on the same data with the same solver and
batch. The plan's choices may differ: the preset, groups, momentum and learning rate. A run in which
these changed before it reached the target is listed, but counts for no setting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nets import SolverSpec, load_solver
from roles.coordination.run_settings import COMPENSATED
from roles.forecasting.statistical import Counted, Efficiency, Setting
from roles.learning.job import Job
from roles.messages import TRAIN
from roles.options import Options, Train
from roles.planning.auto_settings import AutoSettings
from roles.planning.measured_runs import events_of, iteration_of, options_of_run, reading
from roles.planning.strategies import manner_of, preset_called
from runtime.durations import duration
from runtime.errors import ConfigError

LOSS = "loss"
NO_SCORES = ("t", "unix_seconds", "actor", "event", "iteration", "net")  # of the event `test`
HEAD = ("run", "with", "")
Events = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Target:
    """The value that the training shall reach.

    `loss` is the training loss in progress reports, and shall fall to `value`. Every other `name`
    is a score of the first test net, and shall rise to `value`.
    """

    name: str
    value: float

    @staticmethod
    def of(text: str) -> Target:
        """Read a target such as "accuracy=0.985". Raises ConfigError."""
        name, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not (name and equals and math.isfinite(value)):
            text = f"--target {text}: expected NAME=NUMBER, such as accuracy=0.985 or loss=0.3"
            raise ConfigError([text])
        if name == "accuracy" and not 0 < value <= 1:
            raise ConfigError(
                [
                    (
                        f"--target {text}: found {value:g}, expected a share of all "
                        "images, > 0 and <= 1"
                    )
                ]
            )
        return Target(name, value)

    def __str__(self) -> str:
        return f"{self.name} {self.value:g}"

    def reached(self, value: float) -> bool:
        """True if `value` reaches the target."""
        return value <= self.value if self.name == LOSS else value >= self.value

    def best(self, values: Iterable[float]) -> float:
        """The best of these values."""
        numbers = [value for value in values if not math.isnan(value)]
        return (min if self.name == LOSS else max)(numbers, default=math.nan)

    def seen(self, events: Events) -> Iterator[tuple[int, float, float]]:
        """(iteration, seconds since the start of the run, value) of each report of the target.
        Raises KeyError if the tests do not have the score."""
        if self.name == LOSS:
            told = [event for event in events if event["event"] == "progress"]
            yield from (
                (iteration_of(event), float(event["t"]), float(event[LOSS])) for event in told
            )
            return
        tests = [event for event in events if event["event"] == "test"]
        for event in tests:
            if event.get("net") == tests[0].get("net"):
                yield int(event["iteration"]), float(event["t"]), float(event[self.name])


@dataclass(frozen=True)
class Learnt:
    """The result from all runs: the statistical efficiency, and a row of text for each run, below
    `HEAD`."""

    efficiency: Efficiency
    rows: tuple[tuple[str, ...], ...]


def learnt(target: Target, runs: Iterable[Path], options: Options, job: Job, first: int) -> Learnt:
    """Learn from run directories for a plan with these `options`, whose `job` starts at iteration
    `first`.

    Raises ConfigError if a folder is not a run directory, if its run trained something else, or if
    it has no report of the target.
    """
    counted = list[Counted]()
    rows = [HEAD]
    for run in runs:
        theirs = options_of_run(run)
        if theirs is None:
            raise ConfigError(
                [(f"--learnt {run}: not a run directory: it has no config.toml and events.jsonl")]
            )
        _check(run, target, options, theirs, job)
        with reading(run, "--learnt"):
            events = events_of(run)
            settings = list(_settings(theirs, job, events, first))
            seen = _seen(run, target, events)
        at = next(
            ((number, seconds) for number, seconds, value in seen if target.reached(value)), None
        )
        used = [
            setting for number, setting in settings if at is None or number < max(at[0], first + 1)
        ]
        if len(used) == 1:
            counted.append(Counted(used[0], None if at is None else at[0] - first))
        rows.append((str(run), _with(used), _told(target, seen, at, changed=len(used) > 1)))
    return Learnt(Efficiency(counted), tuple(rows))


def _seen(run: Path, target: Target, events: Events) -> list[tuple[int, float, float]]:
    """Return the reports as `Target.seen` does. Raises ConfigError if the run has none."""
    tests = [event for event in events if event["event"] == "test"]
    known = [name for name in (tests[0] if tests else ()) if name not in (*NO_SCORES, LOSS)]
    if target.name != LOSS and tests and target.name not in known:
        text = (
            f"its tests have no score '{target.name}', expected one of {', '.join([*known, LOSS])}"
        )
        raise ConfigError([f"--learnt {run}: {text}"])
    if not (seen := list(target.seen(events))):
        what = "progress report" if target.name == LOSS else "test"
        raise ConfigError(
            [(f"--learnt {run}: events.jsonl: found no {what}, which would report {target}")]
        )
    return seen


def _check(run: Path, target: Target, options: Options, theirs: Options, job: Job) -> None:
    """Raise ConfigError that names the first key in which the run differs from the plan."""
    mine = options.train
    found = theirs.train
    keys = ["net", "solver", "weights", "resume", "gradients"]
    pairs: list[tuple[str, Any, Any]] = [
        (key, getattr(mine, key), getattr(found, key)) for key in keys
    ]
    data = ["train", "shuffle", *(["test"] if target.name != LOSS else [])]
    pairs += [(f"data.{key}", getattr(mine.data, key), getattr(found.data, key)) for key in data]
    pairs.append(("batch", job.batch, found.batch or job.declared_rows(TRAIN)))
    for key, expected, value in pairs:
        if expected != value:
            raise ConfigError(
                [
                    (
                        f"--learnt {run}: config.toml: train.{key}: found {value!r}, expected this "
                        f"plan's {expected!r}"
                    )
                ]
            )
    if any(device.startswith("emulated") for device in found.devices.values()):
        raise ConfigError(
            [
                (
                    f"--learnt {run}: its devices are emulated, so the run computed "
                    "nothing and learnt nothing"
                )
            ]
        )


def _settings(
    theirs: Options, job: Job, events: Events, first: int
) -> Iterator[tuple[int, Setting]]:
    """(first iteration, setting) of each stretch of the run, in order."""
    train: Train = AutoSettings(
        theirs.train, preset_called(theirs.train.strategy.preset), Path()
    ).begun_with
    strategy = train.strategy
    said = {"base_lr": train.base_lr, "momentum": train.set_momentum}
    # a run of an older version has no such event, and had the solver's momentum
    for event in events:
        if event["event"] == COMPENSATED:
            said["momentum"] = float(event["momentum"])
    given = {name: value for name, value in said.items() if value is not None}
    begun = load_solver(job.solver, {"max_iter": job.solver_spec.max_iter, **given})
    stretches = {first: (preset_called(strategy.preset).groups(strategy), *rates_of(begun))}
    for event in events:
        if event["event"] == "regrouped":
            rates = _short(float(event["momentum"])), _short(float(event["base_lr"]))
            stretches[int(event["iteration"])] = (int(event["groups"]), *rates)
    last = None
    for iteration, (groups, momentum, rate) in sorted(stretches.items()):
        setting = Setting(manner_of(strategy, groups), groups, momentum, rate)
        if setting != last:
            yield iteration, setting
        last = setting


def rates_of(solver: SolverSpec) -> tuple[float, float]:
    """Momentum and base_lr of a solver."""
    return _short(solver.proto.momentum), _short(solver.proto.base_lr)


def _short(value: float) -> float:
    """Round to six digits: a prototxt's 0.9 is 0.89999998."""
    return float(f"{value:.6g}")


def _shown(setting: Setting) -> str:
    """The setting as text."""
    groups = f"{setting.groups} group{'s'[: setting.groups != 1]}"
    return f"{groups}, momentum {setting.momentum:g}, base_lr {setting.base_lr:g}, {setting.manner}"


def _with(used: Sequence[Setting]) -> str:
    return (
        _shown(used[0])
        if len(used) == 1
        else (f"{', '.join(str(setting.groups) for setting in used)} groups in turn")
    )


def _told(
    target: Target,
    seen: list[tuple[int, float, float]],
    at: tuple[int, float] | None,
    *,
    changed: bool,
) -> str:
    if at is None:
        best = target.best(value for *_, value in seen)
        text = f"not reached: {best:.4g} at best in {seen[-1][0]} iterations"
    else:
        before = [number for number, *_ in seen if number < at[0]]
        text = (
            f"at iteration {at[0]}{f' (not yet at {before[-1]})' if before else ''}, "
            f"after {duration(at[1])}"
        )
    return (
        (f"{text}; its setting changed on the way, so the run counts for none of them")
        if changed
        else text
    )
