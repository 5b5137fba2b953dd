"""What is true of the `up` of a trial, and which answers of commands are wrong by that. Plain
decisions: the truth is what the driver itself started, killed and waited for, and nothing that the
product says of itself.

state       what is known of an `up`
trains      its run has begun, and trains
between     a run could not begin, and the next waits
changing    something died or was let go a moment ago: either of these
stopped     SIGSTOP
gone        its process has ended
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.operators.draw import Place

DOCUMENTED = {0, 1, 2, 3, 4, 130, 141, 143}
MOST_SECONDS = 60.0  # of a command, but for what waits for training
TRAINS = "trains"
BETWEEN = "between"
CHANGING = "changing"
STOPPED = "stopped"
GONE = "gone"
LOST = "node9"  # the host that is silent
AT_WORK = {"running", "winding down", "starting", "held"}


@dataclass(frozen=True)
class Answer:
    """Of one command. `code`: None if it did not end in time."""

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
    """One name: what its `up` is at. `runs`: the names of its run directories in the order in which
    they began, of all that had this name. `present`: those of the `up` that lives. `was_killed`: an
    `up` that is gone left its lock, which another host can judge by its time only."""

    name: str
    place: Place = field(default_factory=Place)
    state: str = TRAINS
    runs: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    was_killed: bool = False

    @property
    def lives(self) -> bool:
        """Whether its process is there."""
        return self.state != GONE


@dataclass
class Truth:
    """All names of a trial; `lost`: the run directory of a host that is silent, "" if there is
    none. `host`: the name of this machine."""

    host: str
    ups: dict[str, Known] = field(default_factory=dict)
    lost: str = ""

    @property
    def living(self) -> list[Known]:
        """The names whose `up` is there."""
        return [up for up in self.ups.values() if up.lives]

    def meant(self, name: str, *, named: bool) -> Known | None:
        """The name that a command means; None if it must ask which."""
        if named:
            return self.ups[name]
        if len(self.living) == 1:
            return self.living[0]
        return None if self.living else self.newest()

    def newest(self) -> Known | None:
        """The name of the run that began last; None if nothing tells the driver which that is."""
        return next(iter(self.ups.values())) if len(self.ups) == 1 and not self.lost else None

    def words_for(self, up: Known, asked: Place) -> set[str]:
        """What may be told of an `up` that lives, where the command is typed."""
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
    """Whether a command that is typed there reaches the sockets of its run."""
    return not (up.place.private_tmp or asked.private_tmp)


# -- what every command promises


def broken(answer: Answer) -> Iterator[str]:
    """It ends, in words, with an exit code that is documented."""
    if answer.code is None:
        yield f"a command hangs: {answer}"
    elif answer.code not in DOCUMENTED:
        yield f"an exit code that no page names: {answer}"
    if "Traceback" in answer.out + answer.err or "Exception ignored" in answer.err:
        yield f"a traceback: {answer}"
    if answer.code not in (0, None) and not (answer.out + answer.err).strip():
        yield f"it fails without a word: {answer}"


# -- looking


def wrong_ps(truth: Truth, asked: Place, answer: Answer) -> Iterator[str]:
    """Each `up` that lives is listed once, with what it is at; nothing else is, but a host that is
    silent."""
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
        yield f"listed, though nothing of it lives: {[run['directory'] for run in found]}: {answer}"


def _seems_to_live(truth: Truth, asked: Place, directory: str, state: str) -> bool:
    """To another host an `up` that was killed lives for some seconds, and is silent then."""
    killed = [up for up in truth.ups.values() if up.was_killed and Path(directory).name in up.runs]
    return (
        bool(killed)
        and asked.far
        and state.startswith(("runs on", "between", f"{truth.host}: last sign", "node"))
    )


def _begins(run: dict[str, Any], up: Known) -> bool:
    """A run whose directory the driver has not heard of yet: it is about to begin, or `up` has none
    yet."""
    if up.state != CHANGING:
        return False
    directory = Path(run["directory"])
    return (
        run["state"] == "starting"
        or _name_of(directory) == up.name
        or directory.name.endswith(up.name)
    )


def _name_of(directory: Path) -> str:
    """The name in run.json, "" before it is written. The folder's name has a number more where two
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
    """It tells of the present run of that name, or of its newest."""
    if up is None:
        yield from _undecided(truth, answer)
    elif (up.state == STOPPED and answer.code == 1 and "does not answer" in answer.err) or (
        up.state == CHANGING and answer.code == 1
    ):
        return
    elif answer.code != 0:
        yield f"status fails, though {up.name} is {up.state}: {answer}"
    else:
        said = json.loads(answer.out)
        if up.state != CHANGING and up.runs and said["name"] != up.runs[-1]:
            yield (
                f"status tells of {said['name']}, the newest of {up.name} is "
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
            yield f"{up.name} is called {said['state']!r}, though its `up` has ended: {answer}"


def _undecided(truth: Truth, answer: Answer) -> Iterator[str]:
    """Of several that live one must be named."""
    if len(truth.living) > 1 and (answer.code != 2 or "say which" not in answer.err):
        yield f"{len(truth.living)} runs live, and none was named: {answer}"


# -- ending


def wrong_down(
    truth: Truth, up: Known | None, asked: Place, answer: Answer, *, is_gone: bool, now: bool
) -> Iterator[str]:
    """Exit 0 means that `up` has ended; of one that trains or waits, nothing else is right.
    `is_gone`: whether its process ended within a few seconds."""
    if up is None:
        yield from _undecided(truth, answer)
        return
    if answer.code == 0 and up.lives and not is_gone:
        yield f"down said 0, and the `up` of {up.name} ({up.state}) goes on: {answer}"
    if up.state in (TRAINS, BETWEEN) and answer.code != 0:
        yield f"down of {up.name}, which {up.state}: {answer}"
    if up.state == CHANGING and not is_gone:
        yield f"down of {up.name}, and its `up` goes on: {answer}"
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
    """Nobody knows whether the run of a silent host is over."""
    if answer.code == 0 or f"{LOST}: last sign" not in answer.err:
        yield f"down of a run whose host is silent: {answer}"


# -- changing


def wrong_save(
    truth: Truth, up: Known | None, asked: Place, answer: Answer, whole: bool
) -> Iterator[str]:
    """Exit 0 means a checkpoint that is `whole`, of that run; a run that trains and is reached is
    saved."""
    if up is None:
        yield from _undecided(truth, answer)
        return
    if answer.code == 0 and not whole:
        yield f"save said 0, and there is no whole checkpoint: {answer}"
    if (
        answer.code == 0
        and up.state != CHANGING
        and Path(answer.out.strip()).parent.name != up.runs[-1]
    ):
        yield f"save told of another run than {up.runs[-1]}: {answer}"
    yield from _done_where_it_can_be(up, asked, answer)


def wrong_scale(
    up: Known, asked: Place, answer: Answer, workers: int, trains: int
) -> Iterator[str]:
    """Exit 0 means that so many workers train. `trains`: how many were seen to."""
    if answer.code == 0 and trains != workers:
        yield f"scale to {workers} said 0, and {trains} workers train: {answer}"
    yield from _done_where_it_can_be(up, asked, answer)


def _done_where_it_can_be(up: Known, asked: Place, answer: Answer) -> Iterator[str]:
    if up.state == TRAINS and reaches(up, asked) and answer.code != 0:
        yield f"{up.name} trains and is reached, and the command fails: {answer}"
    if up.state in (BETWEEN, STOPPED, GONE) and answer.code == 0:
        yield f"{up.name} is {up.state}, and the command says 0: {answer}"


def wrong_resume(
    up: Known, with_checkpoints: Sequence[str], taken: str | None, answer: Answer
) -> Iterator[str]:
    """The newest run of that name that has a checkpoint is gone on from. `taken`: the run directory
    that `up` named; None if it ended instead, with this answer."""
    expected = next((run for run in reversed(up.runs) if run in with_checkpoints), None)
    if expected is None and (
        taken is not None or answer.code != 2 or "found no checkpoint" not in answer.err
    ):
        yield f"no run of {up.name} has a checkpoint, and up --resume takes {taken}: {answer}"
    if expected is not None and taken != expected:
        yield (
            f"up --resume of {up.name} takes {taken}, the newest is {expected} of "
            f"{up.runs}: {answer}"
        )
