"""One trial of `benchmarks.operators`: takes the drawn steps, records the true state after each,
and collects wrong answers."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.helpers.survivor import Gone
from benchmarks.operators.draw import MOST_WORKERS, Place, Start, Step, Trial
from benchmarks.operators.truth import (
    BETWEEN,
    CHANGING,
    GONE,
    STOPPED,
    TRAINS,
    Answer,
    Known,
    Truth,
    broken,
    wrong_down,
    wrong_down_of_lost,
    wrong_ps,
    wrong_resume,
    wrong_save,
    wrong_scale,
    wrong_status,
)
from benchmarks.operators.up import Up
from benchmarks.operators.world import World, host
from nets import NetError
from nets.files import checkpoint

GONE_WITHIN = 10.0  # seconds from the end of `down` to the end of `up`
LOOKS = ("ps", "status", "events", "report")


@dataclass
class Told:
    """The result of a trial: its commands with their exit codes, the faults that happened, and the
    wrong answers."""

    trial: Trial
    commands: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    seconds: float = 0.0


def played(trial: Trial, world: World) -> Told:
    """Play a trial, from its starts to the search for leftovers."""
    since = time.monotonic()
    play = _Play(trial, world)
    try:
        play.begin()
        for step in trial.steps:
            time.sleep(step.pause)
            play.do(step)
            if play.told.wrong:
                break
        else:
            play.finish()
            play.told.wrong += world.left(play.killed, play.alone)
    except Gone as gone:
        play.told.wrong.append(str(gone))
    finally:
        play.end()
        play.told.seconds = time.monotonic() - since
    return play.told


class _Play:
    def __init__(self, trial: Trial, world: World) -> None:
        self._trial = trial
        self._world = world
        self._chance = random.Random(f"played {trial.seed}")
        self.told = Told(trial)
        self.killed = Counter[str]()
        self.alone = 0
        self._ups: dict[str, Up] = {}
        self._replaced: list[Up] = []  # their pipes are read until the trial ends
        self._truth = Truth(host())
        self._starts = {start.name: start for start in trial.starts}
        self._held: set[str] = set()
        self._workers = {start.name: start.workers for start in trial.starts}

    def begin(self) -> None:
        """Start the `up`s one after the other, so that the order of their runs is known."""
        for start in self._trial.starts:
            self._world.made(start)
        for start in self._trial.starts:
            self._truth.ups[start.name] = Known(start.name, start.place)
            self._start(start, start.place)

    def _start(self, start: Start, place: Place, *, resume: bool = False) -> None:
        folder = self._world.folder / start.name
        self._ups[start.name] = Up(self._world, folder, place, own_tmp=start.own_tmp, resume=resume)
        self._trains(start.name)

    def _trains(self, name: str) -> None:
        """Wait until the run of `name` has trained, and note which run directory it has."""
        self._ups[name].until("began ")
        self._ups[name].until("progress ")
        self._hear(name, TRAINS)

    def _settle(self, name: str) -> None:
        """Wait until the run has recovered from a recent death."""
        if self._truth.ups[name].state == CHANGING and name not in self._held:
            self._trains(name)

    def _hear(self, name: str, state: str) -> None:
        known = self._truth.ups[name]
        known.state = state
        known.present = self._ups[name].directories
        known.runs += [run for run in known.present if run not in known.runs]

    def finish(self) -> None:
        """End every `up` that still lives, by its name, from here."""
        for up in self._truth.living:
            self._continue(Step("continue", up.name), up)
            self._down(Step("down", up.name), up)
        self._world.find()

    def end(self) -> None:
        """Kill all processes and remove all files of the trial."""
        self._world.end()
        for up in (*self._replaced, *self._ups.values()):
            up.process.kill()
            up.process.wait()
            up.close()

    def do(self, step: Step) -> None:
        """Take one step. An `up` that was killed may seem alive from another host, so commands from
        there name the run."""
        if step.place.far and any(up.was_killed for up in self._truth.ups.values()):
            step = replace(step, named=True)
        if step.kind in ("down", "down-now"):
            self._down(step, self._truth.ups[step.name])
            return
        act = getattr(self, f"_{step.kind.replace('-', '_')}")
        act(step, self._truth.ups[step.name])

    # -- faults

    def _happened(self, step: Step) -> None:
        self.told.faults[step.kind] += 1

    def _kill(self, step: Step, up: Known, number: signal.Signals = signal.SIGKILL) -> None:
        running = self._ups[step.name]
        self._settle(step.name)
        if up.state != TRAINS:
            return
        running.skip()
        if running.kill_one(self._chance, number) is None:
            return
        self._happened(step)
        up.state = CHANGING
        if step.waits:
            self._trains(step.name)

    def _stop(self, step: Step, up: Known) -> None:
        self._kill(step, up, signal.SIGSTOP)

    def _hold(self, step: Step, up: Known) -> None:
        """Kill a process while no further run can begin: the next one waits."""
        running = self._ups[step.name]
        start = self._starts[step.name]
        self._settle(step.name)
        running.hold(on=True)
        self._held.add(step.name)
        running.skip()
        if running.kill_one(self._chance) is None:
            return
        self._happened(step)
        up.state = CHANGING
        if step.waits or start.backoff > 1:
            running.until(r"restart .*, in ")
            self._hear(step.name, BETWEEN if start.backoff > 1 else CHANGING)

    def _release(self, step: Step, up: Known) -> None:
        """Let the next run begin."""
        running = self._ups[step.name]
        running.skip()
        running.hold(on=False)
        self._held.discard(step.name)
        self._happened(step)
        if self._starts[step.name].backoff > 1:  # it begins when it is due
            up.state = CHANGING
        else:
            self._trains(step.name)

    def _kill_up(self, step: Step, up: Known) -> None:
        self._ups[step.name].signal(signal.SIGKILL)
        if not self._ups[step.name].ends_within(GONE_WITHIN):
            raise Gone(f"`up` of {step.name} outlives SIGKILL")
        self._happened(step)
        self.killed[step.name] += 1
        up.was_killed = True
        self.alone += up.place.pids
        self._hear(step.name, GONE)
        self._vanished(step.name)

    def _stop_up(self, step: Step, up: Known) -> None:
        self._settle(step.name)
        if up.state == TRAINS:
            self._ups[step.name].signal(signal.SIGSTOP)
            self._happened(step)
            self._hear(step.name, STOPPED)

    def _continue(self, step: Step, up: Known) -> None:
        if up.state == STOPPED:
            self._ups[step.name].skip()
            self._ups[step.name].signal(signal.SIGCONT)
            self._ups[step.name].until("progress ")
            self._hear(step.name, TRAINS)

    def _clock(self, step: Step, up: Known) -> None:
        self._world.step(step.number)
        self._happened(step)

    def _lose(self, step: Step, up: Known) -> None:
        self._truth.lost = self._world.lose()
        self._happened(step)
        for command in (["down", "lost"], ["down", self._truth.lost, "--now"])[: 1 + step.waits]:
            self.told.wrong += wrong_down_of_lost(self._typed(command, step))

    # -- commands

    def _typed(self, words: list[str], step: Step) -> Answer:
        answer = self._world.command(words, step.place, self._world.folder / step.name)
        self._note(answer)
        return answer

    def _note(self, answer: Answer) -> None:
        self.told.answers.append(answer)
        self.told.commands[f"{answer.words[0]}: {answer.code}"] += 1
        self.told.wrong += broken(answer)

    def _said(self, step: Step, *words: str) -> list[str]:
        return [step.kind.partition("-")[0], *([step.name] if step.named else []), *words]

    def _meant(self, step: Step) -> Known | None:
        return self._truth.meant(step.name, named=step.named)

    def _ps(self, step: Step, up: Known) -> None:
        self.told.wrong += wrong_ps(self._truth, step.place, self._typed(["ps", "--json"], step))

    def _status(self, step: Step, up: Known) -> None:
        answer = self._typed(self._said(step, "--json"), step)
        if up.lives or step.named or self._truth.living or self._truth.newest():
            self.told.wrong += wrong_status(self._truth, self._meant(step), step.place, answer)

    def _events(self, step: Step, up: Known) -> None:
        self._looked(step, self._typed(self._said(step), step))

    def _report(self, step: Step, up: Known) -> None:
        page = self._world.folder / "report.html"
        answer = self._typed(self._said(step, "-o", str(page)), step)
        self._looked(step, answer)
        if answer.code == 0 and not page.is_file():
            self.told.wrong.append(f"report ended with 0, but wrote no page: {answer}")
        page.unlink(missing_ok=True)

    def _looked(self, step: Step, answer: Answer) -> None:
        """Check that the files of a run can be read, in whatever state the run is."""
        may_ask = not step.named and len(self._truth.living) > 1
        if answer.code != 0 and not (may_ask and answer.code == 2):
            self.told.wrong.append(f"the files on the disk were not shown: {answer}")

    def _save(self, step: Step, up: Known) -> None:
        meant = self._meant(step)
        answer = self._typed(self._said(step), step)
        if meant is None and not self._truth.living:
            return
        path = self._world.folder / step.name / answer.out.strip()
        self.told.wrong += wrong_save(self._truth, meant, step.place, answer, _is_whole(path))

    def _scale(self, step: Step, up: Known) -> None:
        number = (
            step.number
            if step.number != self._workers[step.name]
            else step.number % MOST_WORKERS + 1
        )
        self._ups[step.name].skip()
        answer = self._typed(["scale", step.name, "--workers", str(number)], step)
        trains = 0
        if answer.code == 0:
            before = self._truth.ups[step.name].state
            self._workers[step.name] = number
            if before == TRAINS:
                self._ups[step.name].until("scaled ")
                self._trains(step.name)
                trains = self._ups[step.name].workers(self._world.runs / up.runs[-1])
            else:
                self._hear(step.name, before)
                trains = number
        self.told.wrong += wrong_scale(up, step.place, answer, number, trains)

    def _down(self, step: Step, up: Known) -> None:
        now = step.kind == "down-now"
        meant = self._meant(step)
        answer = self._typed(self._said(step, *(["--now"] if now else [])), step)
        if meant is None and not self._truth.living:
            return
        running = None if meant is None else self._ups[meant.name]
        ended = meant is not None and meant.lives and (answer.code == 0 or meant.state == CHANGING)
        is_gone = running is not None and (
            running.ends_within(GONE_WITHIN) if ended else running.has_ended
        )
        self.told.wrong += wrong_down(
            self._truth, meant, step.place, answer, is_gone=is_gone, now=now
        )
        if meant is not None and meant.lives and is_gone:
            assert running is not None
            self.told.wrong += _ended_well(meant, running.answer())
            self._hear(meant.name, GONE)
            self._vanished(meant.name)

    def _vanished(self, name: str) -> None:
        """Check that no process of an `up` that has ended still trains."""
        until = time.monotonic() + GONE_WITHIN
        while left := self._world.pids(f"up {name} "):
            if time.monotonic() > until:
                self.told.wrong.append(
                    f"the `up` of {name} has ended, but {len(left)} of its processes live"
                )
                return
            time.sleep(0.02)

    def _resume(self, step: Step, up: Known) -> None:
        if up.lives:  # the `down` before it could not tell which run was meant
            self._continue(step, up)
            self._down(Step("down", step.name), up)
        have = [run for run in up.runs if _has_checkpoint(self._world.runs / run)]
        running = Up(
            self._world, self._world.folder / step.name, step.place,
            own_tmp=self._starts[step.name].own_tmp, resume=True,
        )  # fmt: skip
        self._replaced.append(self._ups[step.name])
        self._ups[step.name] = running
        self._held.discard(step.name)
        taken = None
        continues = ""
        try:
            taken = Path(running.until("resumes ").split()[1].rstrip(":")).parent.name
        except Gone:
            running.ends_within(GONE_WITHIN)
        answer = running.answer()
        self.told.wrong += wrong_resume(up, have, taken, answer)
        if taken is None:
            self._note(answer)
            return
        self._truth.ups[step.name].place = step.place
        self._truth.ups[step.name].was_killed = False
        self.told.commands["up --resume: begins"] += 1
        if self.told.wrong:
            return
        self._trains(step.name)
        self._workers[step.name] = running.workers(self._world.runs / up.runs[-1])
        continues = json.loads((self._world.runs / up.runs[-1] / "run.json").read_text())[
            "continues"
        ]
        if continues != json.loads((self._world.runs / taken / "run.json").read_text())["id"]:
            self.told.wrong.append(
                f"{up.runs[-1]} resumed from {taken}, but run.json names {continues!r}"
            )


def _ended_well(up: Known, answer: Answer) -> Iterator[str]:
    """Mistakes in how an `up` ended after a `down`."""
    if "Traceback" in answer.out + answer.err:
        yield f"a traceback of `up`: {answer}"
    expected = {TRAINS: (0,), BETWEEN: (4,), CHANGING: (0, 1, 3, 4)}.get(up.state, (0, 1, 3, 4))
    if answer.code not in expected:
        yield f"`up` of {up.name} ({up.state}) was ended by down with a wrong exit code: {answer}"


def _has_checkpoint(run: Path) -> bool:
    return any(map(_is_whole, run.glob("checkpoint-*.safetensors")))


def _is_whole(path: Path) -> bool:
    try:
        checkpoint.verify(path)
    except (NetError, OSError):
        return False
    return path.is_file()
