"""The true state of the `up` commands of a trial, and the answers of commands that are wrong by it.
Plain decisions: the truth is what the driver itself started, killed and waited for. Nothing that
the product reports of itself counts.

state       meaning
trains      the run has begun, and trains
between     a run could not begin, and the next one waits
changing    a process died or was released a moment ago: any of these states
stopped     `up` has got SIGSTOP
gone        the process of `up` has ended
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.operators.draw import Place

DOCUMENTED = {0, 1, 2, 3, 4, 130, 141, 143}
MOST_SECONDS = 60.0  # of a command that does not wait for training
TRAINS = "trains"
BETWEEN = "between"
CHANGING = "changing"
STOPPED = "stopped"
GONE = "gone"
LOST = "node9"  # the name of the silent host
AT_WORK = {"running", "winding down", "starting", "held"}


@dataclass(frozen=True)
class Answer:
    """The answer of one command. `code`: None if the command did not end in time."""

    words: tuple[str, ...]
    code: int | None
    out: str
    err: str
    seconds: float = 0.0

    def __str__(self) -> str:
        said = " | ".join(line for line in (self.out + self.err).splitlines()[-6:])
        return (
            f"`{' '.join(self.words)}` ended with {self.code} after {self.seconds:.1f} s: "
            f"{said[-600:]}"
        )


@dataclass
class Known:
    """One name, and the state of its `up`. `runs`: all run directories of that name, in the order
    in which they began. `present`: the run directories of the living `up`. `was_killed`: the `up`
    is gone and left its lock, which another host can judge only by its age."""

    name: str
    place: Place = field(default_factory=Place)
    state: str = TRAINS
    runs: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    was_killed: bool = False

    @property
    def lives(self) -> bool:
        """Whether its process lives."""
        return self.state != GONE


@dataclass
class Truth:
    """All names of a trial. `lost`: the run directory of a silent host, "" if there is none.
    `host`: the name of this machine."""

    host: str
    ups: dict[str, Known] = field(default_factory=dict)
    lost: str = ""

    @property
    def living(self) -> list[Known]:
        """The names whose `up` lives."""
        return [up for up in self.ups.values() if up.lives]

    def meant(self, name: str, *, named: bool) -> Known | None:
        """The name that a command means; None if the command must ask for it."""
        if named:
            return self.ups[name]
        if len(self.living) == 1:
            return self.living[0]
        return None if self.living else self.newest()

    def newest(self) -> Known | None:
        """The name of the run that began last; None if the driver cannot know it."""
        return next(iter(self.ups.values())) if len(self.ups) == 1 and not self.lost else None

    def words_for(self, up: Known, asked: Place) -> set[str]:
        """The states that a command typed at `asked` may report of an `up` that lives."""
        reached = not (up.place.private_tmp or asked.private_tmp)
        far = up.place.far != asked.far or (up.place.far and asked.far)
        name = up.place.host or self.host
        there = {f"runs on {name}"}
        silent = {f"{name}: last sign"}
        if up.state == TRAINS:
            return AT_WORK if reached else there
        if up.state == BETWEEN:
            return {"between two runs"}
        if up.state == STOPPED:
            words = {"does not answer"} if reached else there | {"between two runs"}
            return words | there | silent if far else words | {"between two runs"}
        return (
            AT_WORK
            | there
            | {"between two runs", "does not answer", "failed", "continued", "over", "stopped"}
        )


def reaches(up: Known, asked: Place) -> bool:
    """Whether a command that is typed at `asked` reaches the sockets of the run."""
    return not (up.place.private_tmp or asked.private_tmp)


# -- promises of every command


def broken(answer: Answer) -> Iterator[str]:
    """Mistakes in any command: it must end with a documented exit code and say why it failed."""
    if answer.code is None:
        yield f"a command hangs: {answer}"
    elif answer.code not in DOCUMENTED:
        yield f"an exit code that is not documented: {answer}"
    if "Traceback" in answer.out + answer.err or "Exception ignored" in answer.err:
        yield f"a traceback: {answer}"
    if answer.code not in (0, None) and not (answer.out + answer.err).strip():
        yield f"it fails without a message: {answer}"


# -- looking


def wrong_ps(truth: Truth, asked: Place, answer: Answer) -> Iterator[str]:
    """Mistakes of ps. Each `up` that lives is listed once, with its state. Nothing else is listed,
    other than the run of a silent host."""
    if answer.code != 0:
        yield f"ps fails: {answer}"
        return
    found: list[dict[str, Any]] = json.loads(answer.out)
    for up in truth.living:
        mine = [
            run for run in found if Path(run["directory"]).name in up.present or _begins(run, up)
        ]
        if len(mine) != 1:
            yield f"the `up` of {up.name} ({up.state}) is listed {len(mine)} times: {answer}"
        found = [run for run in found if run not in mine]
        for run in mine:
            if not _said(run["state"], truth.words_for(up, asked)):
                yield (
                    f"{up.name} ({up.state}, {up.place}) is called {run['state']!r} from "
                    f"{asked}: {answer}"
                )
    if truth.lost:
        mine = [run for run in found if run["state"].startswith(f"{LOST}: last sign ")]
        if len(mine) != 1:
            yield f"the run of a silent host is listed {len(mine)} times: {answer}"
        found = [run for run in found if run not in mine]
    found = [
        run for run in found if not _seems_to_live(truth, asked, run["directory"], run["state"])
    ]
    if found:
        yield f"listed, but nothing of it lives: {[run['directory'] for run in found]}: {answer}"


def _seems_to_live(truth: Truth, asked: Place, directory: str, state: str) -> bool:
    """To another host, a killed `up` seems to live for some seconds, and then seems silent."""
    killed = [up for up in truth.ups.values() if up.was_killed and Path(directory).name in up.runs]
    return (
        bool(killed)
        and asked.far
        and state.startswith(("runs on", "between", f"{truth.host}: last sign", "node"))
    )


def _begins(run: dict[str, Any], up: Known) -> bool:
    """Whether the driver does not know this run's directory yet: the run is about to begin, or `up`
    has none yet."""
    if up.state != CHANGING:
        return False
    directory = Path(run["directory"])
    return (
        run["state"] == "starting"
        or _name_of(directory) == up.name
        or directory.name.endswith(up.name)
    )


def _name_of(directory: Path) -> str:
    """The name in run.json, "" before it is written. The folder's name has an extra number if two
    runs of that name begin in one second."""
    try:
        return str(json.loads((directory / "run.json").read_bytes())["name"])
    except OSError:
        return ""


def _said(state: str, words: set[str]) -> bool:
    return any(
        state == word or (word.endswith("last sign") and state.startswith(word)) for word in words
    )


def wrong_status(truth: Truth, up: Known | None, asked: Place, answer: Answer) -> Iterator[str]:
    """Mistakes of status: it reports the present run of that name, or the newest one."""
    if up is None:
        yield from _undecided(truth, answer)
    elif (up.state == STOPPED and answer.code == 1 and "does not answer" in answer.err) or (
        up.state == CHANGING and answer.code == 1
    ):
        return
    elif answer.code != 0:
        yield f"status fails, although {up.name} is {up.state}: {answer}"
    else:
        said = json.loads(answer.out)
        if up.state != CHANGING and up.runs and said["name"] != up.runs[-1]:
            yield (
                f"status reports {said['name']}, but the newest of {up.name} is "
                f"{up.runs[-1]}: {answer}"
            )
        if up.lives and not _said(said["state"], truth.words_for(up, asked)):
            yield (
                f"{up.name} ({up.state}, {up.place}) is called {said['state']!r} from "
                f"{asked}: {answer}"
            )
        lives = said["state"] in AT_WORK or said["state"].startswith(("runs on", "between"))
        if (
            not up.lives
            and lives
            and not _seems_to_live(truth, asked, said["directory"], said["state"])
        ):
            yield f"{up.name} is called {said['state']!r}, although its `up` has ended: {answer}"


def _undecided(truth: Truth, answer: Answer) -> Iterator[str]:
    """Mistakes if several runs live and the command named none: it must ask which one is meant."""
    if len(truth.living) > 1 and (answer.code != 2 or "say which" not in answer.err):
        yield f"{len(truth.living)} runs live, the command named none, and it did not ask: {answer}"


# -- ending


def wrong_down(
    truth: Truth, up: Known | None, asked: Place, answer: Answer, *, is_gone: bool, now: bool
) -> Iterator[str]:
    """Mistakes of down. Exit 0 means that `up` has ended. A run that trains or waits must end so.
    `is_gone`: whether the process of `up` ended within a few seconds."""
    if up is None:
        yield from _undecided(truth, answer)
        return
    if answer.code == 0 and up.lives and not is_gone:
        yield f"down ended with 0, but the `up` of {up.name} ({up.state}) still lives: {answer}"
    if up.state in (TRAINS, BETWEEN) and answer.code != 0:
        yield f"down of {up.name} ({up.state}) failed: {answer}"
    if up.state == CHANGING and not is_gone:
        yield f"down of {up.name}, but its `up` still lives: {answer}"
    unknown = up.was_killed and asked.far and answer.code == 1
    if (
        up.state == GONE
        and not unknown
        and (answer.code != 0 or "was over before" not in answer.out)
    ):
        yield f"down of {up.name}, which was over: {answer}"
    if (
        up.state == TRAINS
        and answer.code == 0
        and not now
        and "last checkpoint: none" in answer.out
    ):
        yield f"down saved nothing: {answer}"


def wrong_down_of_lost(answer: Answer) -> Iterator[str]:
    """Mistakes of down for a silent host: the command cannot know whether that run is over."""
    if answer.code == 0 or f"{LOST}: last sign" not in answer.err:
        yield f"down of a run whose host is silent: {answer}"


# -- changing


def wrong_save(
    truth: Truth, up: Known | None, asked: Place, answer: Answer, whole: bool
) -> Iterator[str]:
    """Mistakes of save. Exit 0 means a checkpoint of that run that is `whole`. A run that trains
    and can be reached must be saved."""
    if up is None:
        yield from _undecided(truth, answer)
        return
    if answer.code == 0 and not whole:
        yield f"save ended with 0, but its checkpoint is not whole: {answer}"
    if (
        answer.code == 0
        and up.state != CHANGING
        and Path(answer.out.strip()).parent.name != up.runs[-1]
    ):
        yield f"save reported another run than {up.runs[-1]}: {answer}"
    yield from _done_where_it_can_be(up, asked, answer)


def wrong_scale(
    up: Known, asked: Place, answer: Answer, workers: int, trains: int
) -> Iterator[str]:
    """Mistakes of scale. Exit 0 means that `workers` train. `trains`: the number that were seen."""
    if answer.code == 0 and trains != workers:
        yield f"scale to {workers} ended with 0, but {trains} workers train: {answer}"
    yield from _done_where_it_can_be(up, asked, answer)


def _done_where_it_can_be(up: Known, asked: Place, answer: Answer) -> Iterator[str]:
    if up.state == TRAINS and reaches(up, asked) and answer.code != 0:
        yield f"{up.name} trains and can be reached, but the command fails: {answer}"
    if up.state in (BETWEEN, STOPPED, GONE) and answer.code == 0:
        yield f"{up.name} is {up.state}, but the command ended with 0: {answer}"


def wrong_resume(
    up: Known, with_checkpoints: Sequence[str], taken: str | None, answer: Answer
) -> Iterator[str]:
    """Mistakes of up --resume: it must take the newest run of that name that has a checkpoint.
    `taken`: the run directory that `up` named; None if it ended instead, with this answer."""
    expected = next((run for run in reversed(up.runs) if run in with_checkpoints), None)
    if expected is None and (
        taken is not None or answer.code != 2 or "found no checkpoint" not in answer.err
    ):
        yield f"no run of {up.name} has a checkpoint, but up --resume takes {taken}: {answer}"
    if expected is not None and taken != expected:
        yield (
            f"up --resume of {up.name} takes {taken}, but the newest is {expected} of "
            f"{up.runs}: {answer}"
        )
