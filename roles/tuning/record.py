"""The file tuning.json: every search of a run with its probes and its choice. Another run can start
from it.

    choice              groups, momentum, base_lr, batch: the setting that the run goes on with
    why                 the reason in words
    saturated_groups    the fewest groups that are as fast as any, 0: not measured
    next_groups         the number of groups with which the next search starts
    iteration_seconds   seconds of an iteration, by groups
    searches            each: the iteration, its choice and why, the seconds it took, its probes

A probe has its setting, `iterations`, `seconds`, whether it `diverged`, and the mean `loss` of its
last half (null if it diverged).
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

from nets.files.binary import replacing
from roles.tuning.choices import Chosen, Setting, Trial
from roles.tuning.judgement import judged, mean
from runtime import ConfigError
from runtime.records.run_files import read_json

FILE = "tuning.json"


@dataclass(frozen=True)
class Start:
    """The choice of another run, from its record with the name `file`.

    `saturated`: the fewest groups that were as fast as any; 0: not measured. `next_groups`: the
    number of groups with which its next search would have started.
    """

    setting: Setting
    saturated: int
    next_groups: int
    file: str


def search_of(iteration: int, chosen: Chosen) -> dict[str, Any]:
    """The entry of a search at this iteration, for `write`."""
    probes = [
        {
            **dataclasses.asdict(setting),
            "iterations": len(trial.losses),
            "loss": _finite(mean(judged(trial))),
            "seconds": trial.seconds,
            "diverged": trial.diverged,
        }
        for setting, trial in chosen.tried
    ]
    choice = {"choice": dataclasses.asdict(chosen.setting), "why": chosen.why}
    return {"iteration": iteration, **choice, "seconds": chosen.spent, "probes": probes}


def write(path: Path, chosen: Chosen, searches: list[dict[str, Any]]) -> None:
    """Write the record in one step: a reader sees either the old one or the new one. OSError passes
    through."""
    record = {
        "choice": dataclasses.asdict(chosen.setting),
        "why": chosen.why,
        "saturated_groups": chosen.saturated,
        "next_groups": chosen.next_groups,
        "iteration_seconds": {
            str(groups): seconds for groups, seconds in sorted(chosen.iteration_seconds.items())
        },
        "searches": searches,
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


def read(path: Path) -> Start:
    """Read the record of another run. Raises ConfigError if the file cannot be read or is not a
    record."""
    record = read_json(path, like=FILE)
    try:
        choice = record["choice"]
        rates = float(choice["momentum"]), float(choice["base_lr"])
        # older records have no batch
        setting = Setting(index(choice["groups"]), *rates, index(choice.get("batch", 0)))
        saturated = index(record["saturated_groups"])
        following = index(record["next_groups"])
    except (ValueError, KeyError, TypeError, OverflowError):
        raise ConfigError([f"{path}: expected a {FILE} that a run with a tuner wrote"]) from None
    rates_are = 0 <= setting.momentum < 1 and 0 < setting.base_lr < math.inf
    if setting.groups < 1 or setting.batch < 0 or not rates_are:
        text = "expected at least 1 group, 0 <= momentum < 1, a base_lr > 0 and a batch >= 0"
        raise ConfigError([f"{path}: choice: found {setting}, {text}"])
    return Start(setting, saturated, following, path.name)


def _finite(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None


def as_chosen(
    start: Start, setting: Setting, trial: Trial, seconds: dict[int, float], spent: float
) -> Chosen:
    """The first choice of a run that starts from another run's record; `setting` is the part of it
    that could be taken over."""
    why = f"the choice of {start.file}"
    return Chosen(
        setting, why, start.saturated, start.next_groups, seconds, spent, ((setting, trial),)
    )
