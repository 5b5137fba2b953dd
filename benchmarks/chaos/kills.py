"""Kills of random processes in every preset. See `benchmarks.chaos`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle

from benchmarks.chaos.processes import kill, nursery_of
from benchmarks.chaos.trials import HEADERS, Harm, Trials, named_and_back, spread, trained_twice
from benchmarks.helpers.survivor import Survivor, events

PRESETS = {
    "sync": (4, ""),
    "replicas": (2, ""),
    "firecaffe": (4, ""),
    "one-weird-trick": (2, 'scheme = "b"'),
    "parameter-server": (2, ""),
    "host-accumulate": (2, ""),
    "mxnet-sync": (2, "servers = 2"),
    "omnivore": (4, "groups = 2"),
    "async": (2, ""),
    "sparknet": (2, ""),
}
# iterations that are trained again have other losses, or average over other iterations
NOT_REPEATED = ("omnivore", "async", "sparknet")
NURSERY = "nursery"
LOST = ("preset", "n", "iterations again p50", "p95", "max", "seconds again p50", "p95", "max")


@dataclass
class Found:
    """The trials of one preset, the same trials by the kind of process that was killed, and the
    result of `_again` for each."""

    all: Harm
    kinds: dict[str, Harm] = field(default_factory=dict)
    again: list[tuple[float, float]] = field(default_factory=list)


def killed(trials: Trials, times: int) -> None:
    """Kill so many processes in each preset: each process in turn and the nursery, at drawn
    moments. The death must be named, and the run must resume from the newest whole checkpoint.
    Where runs repeat exactly, the iterations that are trained again must have the same losses."""
    told(trials, {preset: of_preset(trials, preset, times) for preset in PRESETS})


def of_preset(trials: Trials, preset: str, times: int) -> Found:
    """Train one run, which must survive so many deaths."""
    (workers, strategy), repeats = PRESETS[preset], preset not in NOT_REPEATED
    found = Found(Harm(f"SIGKILL in {preset}"))
    with trials.run(
        preset, workers=workers, strategy=strategy, reproducible=str(repeats).lower()
    ) as run:
        for victim in _victims(run, times):
            kind = found.kinds.setdefault(_kind(victim), Harm(f"SIGKILL of {_kind(victim)}"))
            with trials.counted(found.all), trials.alike(kind, found.all):
                trials.pause(0.0, 1.2)
                pid = nursery_of(run) if victim == NURSERY else run.pid(victim)
                line = named_and_back(run, found.all, kill(pid, found.all))
                word = "forked from was killed" if victim == NURSERY else f"process {victim} "
                assert word in line, f"named as {line!r}"
                found.again.append(_again(run))
        if repeats:
            found.all.failures += [
                (f"{preset}: another loss after a restart: {text}") for text in trained_twice(run)
            ]
    return found


def told(trials: Trials, by_preset: Mapping[str, Found]) -> None:
    """Record a row for each preset, for each kind of process, and for the iterations that were
    trained again."""
    trials.told(*(found.all for found in by_preset.values()))
    trials.record.row(*Harm.of("all of these", (found.all for found in by_preset.values())).row)
    trials.record.table("The same, by what was killed", *HEADERS)
    for kind in sorted({kind for found in by_preset.values() for kind in found.kinds}):
        parts = [found.kinds[kind] for found in by_preset.values() if kind in found.kinds]
        trials.record.row(*Harm.of(f"SIGKILL of {kind}", parts).row)
    trials.record.table("What was trained again", *LOST)
    for preset, found in by_preset.items():
        iterations, seconds = zip(*found.again, strict=True) if found.again else ((), ())
        trials.record.row(
            preset, len(found.again), *(spread(iterations) or "---"), *(spread(seconds) or "---")
        )


def _victims(run: Survivor, times: int) -> Iterator[str]:
    """Each process of a run in turn, then the nursery that forked them, and so on."""
    names = cycle((*sorted(run.pids()), NURSERY))
    for _, name in zip(range(times), names, strict=False):
        yield name


def _kind(process: str) -> str:
    """The kind of a process: its name without the number of a worker, shard or reducer."""
    return process.rstrip("-0123456789")


def _again(run: Survivor) -> tuple[float, float]:
    """The iterations, and seconds of training, that the previous run had reported and the newest
    one does again. Raises AssertionError if that did not resume from the newest whole
    checkpoint."""
    before, newest = run.directories[-2:]
    ended = {event["iteration"]: event["unix_seconds"] for event in events(before, "progress")}
    began = max((event["iteration"] for event in events(before, "resumed")), default=0)
    durable = max((event["iteration"] for event in events(before, "checkpoint")), default=began)
    resumed = max((event["iteration"] for event in events(newest, "resumed")), default=0)
    assert resumed >= durable, f"resumed from iteration {resumed}, but {durable} was saved"
    again = [unix for iteration, unix in ended.items() if iteration > resumed]
    return float(len(again)), max(again) - min(again) if again else 0.0
