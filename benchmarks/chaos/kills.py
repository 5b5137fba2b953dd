"""Processes of every preset that are killed, whichever comes. See `benchmarks.chaos`."""

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
# what is trained again has other losses, or is a mean of others
NOT_REPEATED = ("omnivore", "async", "sparknet")
NURSERY = "nursery"
LOST = ("preset", "n", "iterations again p50", "p95", "max", "seconds again p50", "p95", "max")


@dataclass
class Found:
    """Of one preset: its trials, the same by what was killed, and what `_again` counted after
    each."""

    all: Harm
    kinds: dict[str, Harm] = field(default_factory=dict)
    again: list[tuple[float, float]] = field(default_factory=list)


def killed(trials: Trials, times: int) -> None:
    """So many of each preset: each process in turn and the nursery, at drawn moments. It is named,
    the run goes on from the newest checkpoint that was whole, and what is trained again has the
    same losses where runs repeat."""
    told(trials, {preset: of_preset(trials, preset, times) for preset in PRESETS})


def of_preset(trials: Trials, preset: str, times: int) -> Found:
    """One run, which survives so many deaths."""
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
    """Rows of each preset, of each kind of process, and of what was trained again."""
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
    """Each process of a run in turn, and where they come from."""
    names = cycle((*sorted(run.pids()), NURSERY))
    for _, name in zip(range(times), names, strict=False):
        yield name


def _kind(process: str) -> str:
    """The names of workers, shards and reducers end with their numbers."""
    return process.rstrip("-0123456789")


def _again(run: Survivor) -> tuple[float, float]:
    """Iterations, and seconds of training, that the run before had told of and the newest does
    again. AssertionError if it does not go on from the newest checkpoint that was whole."""
    before, newest = run.directories[-2:]
    ended = {event["iteration"]: event["unix_seconds"] for event in events(before, "progress")}
    began = max((event["iteration"] for event in events(before, "resumed")), default=0)
    durable = max((event["iteration"] for event in events(before, "checkpoint")), default=began)
    resumed = max((event["iteration"] for event in events(newest, "resumed")), default=0)
    assert resumed >= durable, f"goes on from iteration {resumed}, though {durable} was saved"
    again = [unix for iteration, unix in ended.items() if iteration > resumed]
    return float(len(again)), max(again) - min(again) if again else 0.0
