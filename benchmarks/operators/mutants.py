"""Mutants of the product: each promise is broken on purpose in a copy of the tree, and a trial must
notice. Otherwise, trials that cannot fail would seem to pass.

A mutant is a piece of text that occurs once in a file, and the text that replaces it. If the code
has moved, this fails with an error.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.helpers.report import ROOT, Record
from benchmarks.operators.draw import Start, Trial

if TYPE_CHECKING:
    from benchmarks.operators.operators import Means

COPIED = ("runtime", "roles", "nets", "ops", "benchmarks")
FIRST_SEED = 1
MOST_TRIALS = 6
JOBS = 4


@dataclass(frozen=True)
class Mutant:
    """A broken promise, and the trials that can show it: those that draw `steps` in this order and
    have at least `ups` starts. `far`: a command looks from another host. `apart`: `down` cannot
    reach a socket. `back`: a run is scaled, and then back to the number in its cluster.toml."""

    promise: str
    name: str
    file: str
    text: str
    instead: str
    steps: tuple[str, ...] = ()
    ups: int = 1
    far: bool = False
    apart: bool = False
    back: bool = False

    def is_met(self, trial: Trial) -> bool:
        """Whether this trial can show the mutant."""
        kinds = iter(step.kind for step in trial.steps)
        far = any(step.place.far and step.kind in ("ps", "status") for step in trial.steps)
        here = all(not start.place.far for start in trial.starts)
        told = all(any(kind in wanted.split("|") for kind in kinds) for wanted in self.steps)
        ends = any(
            step.place.private_tmp and not step.place.far and "down" in step.kind
            for step in trial.steps
        )
        apart = here and (ends or any(start.place.private_tmp for start in trial.starts))
        met = (
            (far and here, self.far),
            (apart, self.apart),
            (any(map(partial(_back, trial), trial.starts)), self.back),
        )
        return (
            told
            and len(trial.starts) >= self.ups
            and all(is_so or not wanted for is_so, wanted in met)
        )


def _back(trial: Trial, start: Start) -> bool:
    """Whether this run is scaled by commands that reach it, and then scaled back."""
    steps = [step for step in trial.steps if (step.kind, step.name) == ("scale", start.name)]
    numbers = [step.number for step in steps if not step.place.private_tmp]
    reached = not start.place.private_tmp and len(numbers) > 1
    return reached and numbers[0] != start.workers == numbers[1]


DOWN = "down with exit 0: `up` has ended"
PS = "each living `up` is listed with its state, and nothing else is"
RESUME = "--resume takes the newest run of that name"
LEFT = "nothing is left behind"
ENDS = "a command ends with a documented exit code, and says why it failed"
DONE = "save and scale with exit 0: the work is done"
MUTANTS = (
    Mutant(
        DOWN,
        "down does not wait for the lock",
        "runtime/attached/ending.py",
        ("            last = await _released(presence, lock, now=now, asked=asked)\n"),
        "            last = presence\n",
        ("hold", "down|down-now"),
    ),
    Mutant(
        DOWN,
        "a wish next to the lock is ignored",
        "runtime/recovery/up_runs.py",
        "as signals, Wishes(lock, run):",
        "as signals, Wishes(None, run):",
        ("hold", "down|down-now"),
    ),
    Mutant(
        PS,
        "ps ignores locks",
        "runtime/attached/finding.py",
        "            for presence in await asyncio.to_thread(presences, below, damaged)",
        "            for presence in [] and await asyncio.to_thread(presences, below, damaged)",
        ("hold", "ps"),
    ),
    Mutant(
        PS,
        "a lock that no process holds counts as held",
        "runtime/records/lock_file.py",
        "        return None\n    return False\n",
        "        return None\n    return True\n",
        ("kill-up", "ps|status"),
    ),
    Mutant(
        PS,
        "the lock does not say that no run goes on",
        "runtime/recovery/restarting.py",
        "self._lock.says(BETWEEN)",
        "self._lock.says(RUNNING)",
        ("hold", "ps|status"),
    ),
    Mutant(
        PS,
        "the lock is not renewed",
        "runtime/records/up_lock.py",
        "due = time.monotonic() + RENEW_SECONDS",
        "due = time.monotonic() + 1e9",
        far=True,
    ),
    Mutant(
        RESUME,
        "the newest run is the one with the last folder name",
        "runtime/records/runs.py",
        "sorted(found, key=_order)",
        "sorted(found, key=lambda run: run.directory.name)",
        ("clock", "resume"),
    ),
    Mutant(
        RESUME,
        "runs of other names are taken",
        "runtime/records/runs.py",
        "if run.identity.name in names]",
        "if run.identity.name]",
        ("resume",),
        ups=2,
    ),
    Mutant(
        RESUME,
        ("a run begins at the clock's time, even if the clock was set back"),
        "runtime/records/runs.py",
        "if not runs or runs[-1].identity.began < clock:",
        "if True:",
        ("clock", "resume"),
    ),
    Mutant(
        LEFT,
        "the lock stays",
        "runtime/records/up_lock.py",
        "                path.unlink()\n",
        "                pass\n",
    ),
    Mutant(
        LEFT,
        "the folder of the sockets stays",
        "runtime/runs/process_run.py",
        "self._private.remove()",
        "pass",
    ),
    Mutant(
        ENDS,
        "down waits for ever for an `up` that gives no sign",
        "runtime/attached/ending.py",
        "elif clock() - renewed > FRESH_SECONDS:",
        "elif clock() - renewed > 1e9:",
        ("stop-up", "down|down-now"),
        apart=True,
    ),
    Mutant(
        ENDS,
        "a run that cannot be reached gives a traceback",
        "runtime/attached/attach.py",
        "raise self._absent() or self._ended()",
        "raise RuntimeError",
        ("hold|kill-up", "save|scale"),
    ),
    Mutant(
        DONE,
        "save reports a checkpoint that does not exist",
        "runtime/cli/save.py",
        'str(looked.place / event["file"])',
        'str(looked.place / "checkpoint-9999999.safetensors")',
        ("save",),
    ),
    Mutant(
        DONE,
        "a run that is scaled keeps its workers",
        "runtime/recovery/next_run.py",
        "            options = _with_workers(program, config, options, wish)\n        topology",
        "            pass\n        topology",
        ("scale",),
    ),
    Mutant(
        DONE,
        "a run that was scaled is not scaled back",
        "runtime/recovery/next_run.py",
        "    options = checked.loaded.options if wish is None else left\n",
        "    options, wish = checked.loaded.options, None\n",
        back=True,
    ),
)


def mutants(means: Means, wanted: tuple[Mutant, ...] = MUTANTS) -> Record:
    """Play trials with each mutant until one notices. A mutant that no trial notices fails."""
    record = Record(
        ("Promises that are broken on purpose, and the trials that notice"),
        facts={"mutants": len(wanted)},
    )
    record.table(
        "Mutants", "promise", "mutant", "seed of the trial", "after so many", "what was wrong"
    )
    with ThreadPoolExecutor(JOBS) as pool:
        for mutant, (seed, trials, why) in zip(
            wanted, pool.map(lambda one: caught(means, one), wanted), strict=True
        ):
            record.row(
                mutant.promise, mutant.name, seed if seed is not None else "none", trials, why
            )
            if seed is None:
                record.fail(f"{mutant.name}: {trials} trials noticed nothing")
    if record.status == "running":
        record.status = "passed"
    return record


def caught(means: Means, mutant: Mutant) -> tuple[int | None, int, str]:
    """The seed of the trial that noticed, the number of trials, and the first wrong answer."""
    tree = means.folder / f"tree-{abs(hash(mutant))}"
    try:
        planted(mutant, tree)
        for number, seed in enumerate(islice(seeds(means, mutant.is_met), MOST_TRIALS), 1):
            told = means.play(means.trial(seed), tree)
            print(
                (f"  {mutant.name}: seed {seed} {'noticed' if told.wrong else 'saw nothing'}"),
                flush=True,
            )
            if told.wrong:
                return seed, number, told.wrong[0].replace(str(means.folder), "")[:160]
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    return None, MOST_TRIALS, ""


def seeds(means: Means, is_met: Callable[[Trial], bool]) -> Iterator[int]:
    """The seeds of the trials that are about the mutant."""
    return (seed for seed in count(FIRST_SEED) if is_met(means.trial(seed)))


def planted(mutant: Mutant, tree: Path) -> None:
    """Write a copy of the tree with the mutant. Raises ValueError if its text does not occur
    exactly once."""
    for name in COPIED:
        shutil.copytree(
            ROOT / name, tree / name, ignore=shutil.ignore_patterns("results", "*.egg-info")
        )
    file = tree / mutant.file
    text = file.read_text()
    if text.count(mutant.text) != 1:
        raise ValueError(
            f"{mutant.file} has the text of {mutant.name!r} {text.count(mutant.text)} times, "
            "expected once"
        )
    file.write_text(text.replace(mutant.text, mutant.instead))
