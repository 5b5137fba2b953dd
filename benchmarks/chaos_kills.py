"""Processes of every preset that are killed, whichever comes. See `benchmarks.chaos`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

from benchmarks.chaos_processes import kill, nursery_of
from benchmarks.chaos_trials import HEADERS, Harm, Trials, named_and_back, spread, trained_twice
from benchmarks.survivor import Survivor, events

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
NOT_REPEATED = ("omnivore", "async", "sparknet")  # what is trained again has other losses, or is a mean of others
NURSERY = "nursery"
LOST = ("preset", "n", "iterations again p50", "p95", "max", "seconds again p50", "p95", "max")


def killed(trials: Trials, times: int) -> None:
    """So many of each preset: each process in turn and the nursery, at drawn moments. It is named, the run goes on from
    the newest checkpoint that was whole, and what is trained again has the same losses where runs repeat."""
    presets, kinds = {name: Harm(f"SIGKILL in {name}") for name in PRESETS}, dict[str, Harm]()
    lost: dict[str, list[tuple[float, float]]] = {name: [] for name in PRESETS}
    for name, (workers, strategy) in PRESETS.items():
        repeats = name not in NOT_REPEATED
        with trials.run(name, workers=workers, strategy=strategy, reproducible=str(repeats).lower()) as run:
            for victim in _victims(run, times):
                kind = kinds.setdefault(_kind(victim), Harm(f"SIGKILL of {_kind(victim)}"))
                with trials.counted(presets[name]), trials.alike(kind, presets[name]):
                    trials.pause(0.0, 1.2)
                    pid = nursery_of(run) if victim == NURSERY else run.pids()[victim]
                    line = named_and_back(run, presets[name], kill(pid, presets[name]))
                    word = "forked from was killed" if victim == NURSERY else f"process {victim} "
                    assert word in line, f"named as {line!r}"
                    lost[name].append(_again(run))
            if repeats:
                told = (f"another loss after a restart: {text}" for text in trained_twice(run))
                presets[name].failures += [f"{name}: {text}" for text in told]
    trials.told(*presets.values())
    trials.record.table("The same, by what was killed", *HEADERS)
    for kind in kinds.values():
        trials.record.row(*kind.row)
    trials.record.table("What was trained again", *LOST)
    for name, found in lost.items():
        iterations, seconds = zip(*found, strict=True) if found else ((), ())
        trials.record.row(name, len(found), *(spread(iterations) or "---"), *(spread(seconds) or "---"))


def _victims(run: Survivor, times: int) -> Iterator[str]:
    """Each process of a run in turn, and where they come from."""
    names = cycle((*sorted(run.pids()), NURSERY))
    for _, name in zip(range(times), names, strict=False):
        yield name


def _kind(process: str) -> str:
    """The names of workers, shards and reducers end with their numbers."""
    return process.rstrip("-0123456789")


def _again(run: Survivor) -> tuple[float, float]:
    """Iterations, and seconds of training, that the run before had told of and the newest does again. AssertionError
    if it does not go on from the newest checkpoint that was whole."""
    before, newest = run.directories[-2:]
    ended = {event["iteration"]: event["unix_seconds"] for event in events(before, "progress")}
    began = max((event["iteration"] for event in events(before, "resumed")), default=0)
    durable = max((event["iteration"] for event in events(before, "checkpoint")), default=began)
    resumed = max((event["iteration"] for event in events(newest, "resumed")), default=0)
    assert resumed >= durable, f"goes on from iteration {resumed}, though {durable} was saved"
    again = [unix for iteration, unix in ended.items() if iteration > resumed]
    return float(len(again)), max(again) - min(again) if again else 0.0
