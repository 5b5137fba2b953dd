"""The saving of a coordinator's checkpoints. Between two iterations, every actor copies its state
in memory. Then training goes on, while the copy is fetched array by array and written in a thread.

If the disk is full or broken, the run loses a checkpoint but training goes on. Earlier checkpoints
stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from nets import NetError
from nets.files import checkpoint
from nets.files.histories import ZEROED
from nets.predict import Seen
from nets.reasons import reason
from ops import Array
from roles.checkpoints.best import FILE, same
from roles.checkpoints.checkpoint_timing import CheckpointTiming, Timing
from roles.checkpoints.deployment_facts import described
from roles.checkpoints.state_average import MeanState
from roles.learning.job import Job
from roles.learning.model_holder import BESIDE, Copied, CopiedArray, GetCopy, KeepCopy, PutBeside
from roles.learning.resume import Place, checkpoint_path, kept_of, writing
from roles.learning.stream_states import StreamRows, place_of
from roles.messages import Done, State
from runtime import Actor, Message, Refused

A = TypeVar("A")
COPIES = 10  # of the last model, if the actors that have copied it die
SLOW = 1.0  # seconds that a run waits for the previous checkpoint before it warns


class AskHere(Protocol):
    """Asks an actor like `Actor.ask`. Returns None if the actor is a worker that may come and go,
    and that is away or dies meanwhile."""

    async def __call__(self, name: str, message: Message, answer: type[A]) -> A | None: ...


@dataclass(frozen=True)
class Snapshot:
    """The facts of one checkpoint: its `place` (iterations and images), and the losses for the next
    report. `facts`: more metadata.

    `for_good`: later checkpoints do not remove it. `best`: fields of the event which reports that
    it is the best model so far. Without `regular` it is saved only as the best model.
    """

    place: Place
    losses: Sequence[float]
    for_good: bool
    facts: Mapping[str, str] = field(default_factory=dict)
    best: Mapping[str, float] = field(default_factory=dict)
    regular: bool = True


class Checkpoints:
    """The checkpoints of one coordinator's run. `servers` hold the model, `keepers` hold other
    state, and `ask` asks them. `wake` is called when a checkpoint is written, or has failed.

    `seen`: facts of the data, from which the model's use is described; None: it is not described.
    """

    def __init__(
        self,
        actor: Actor,
        job: Job,
        timing: Timing,
        *,
        servers: Sequence[str],
        keepers: Sequence[str],
        ask: AskHere,
        wake: Callable[[], None],
        seen: Seen | None = None,
    ) -> None:
        self._seen = seen
        self._use = dict[str, str]()
        self._actor = actor
        self._job = job
        self._ask = ask
        self._wake = wake
        self._servers = tuple(servers)
        self._keepers = tuple(keepers)
        self._rhythm = CheckpointTiming(timing)
        self._seconds = timing.seconds
        self._task: asyncio.Task[None] | None = None
        self._waited_for = self._told = False
        self.last = ""  # the file that was written last
        self.unsaved = ""  # why the checkpoint after it could not be written
        self._died: Snapshot | None = None  # that checkpoint, if an actor has died with its copy
        self.on_result: Callable[[str], None] = lambda result: None  # gets "written" or "failed"

    def __repr__(self) -> str:
        return f"<checkpoints, the last is {self.last or 'none'}, {self._rhythm!r}>"

    def begin(self) -> None:
        """Start the clock: training begins."""
        self._rhythm.next(self._actor.now())

    def due(self) -> bool:
        """Is a checkpoint due, and is the previous one written?"""
        return self._task is None and self._rhythm.due(self._actor.now())

    @property
    def kept(self) -> str:
        """A clause that names the last checkpoint, for messages to the user."""
        return f"{self.last} is the last one" if self.last else "this run has saved none yet"

    async def copy(self, of: Snapshot, idle_since: float) -> None:
        """Have every actor copy its state, then write the copy while training goes on. No iteration
        may be under way.

        Waits for the previous checkpoint, since only one is written at a time. Training has waited
        since `idle_since`.
        """
        before = self._actor.now()
        await self.written()
        if (waited := self._actor.now() - before) > SLOW:
            text = (
                "training waited %.0f s for the disk: checkpoints are requested faster "
                "than they are written"
            )
            self._actor.log.warning(text, waited)
        names = tuple(dict.fromkeys((*self._servers, *self._keepers)))
        answers = await asyncio.gather(*(self._ask(name, KeepCopy(), Copied) for name in names))
        found = zip(names, answers, strict=True)
        copied = {name: answer for name, answer in found if answer is not None}
        self._actor.stepped()
        now = self._actor.now()
        exposed = now - idle_since
        wait = self._rhythm.next(now, 0.0 if of.for_good else exposed) if of.regular else 0.0
        if wait > self._seconds > 0 and not self._told:
            self._told = True
            text = (
                "training waited %.2f s for a checkpoint: the next is due in %.3g s, not "
                "%g, so that checkpoints take 1 %% of the time"
            )
            self._actor.log.warning(text, exposed, wait, self._seconds)
        fetched = self._save(of, copied, exposed)
        self._task = asyncio.get_running_loop().create_task(fetched, name="checkpoint")
        self._task.add_done_callback(lambda task: self._wake())

    async def written(self) -> None:
        """Wait for the checkpoint that is being written, if any. Raises its error, unless that is
        an error of the disk."""
        if self._task is not None:
            self._waited_for = True
            try:
                await self._task
            finally:
                self._task = None
                self._waited_for = False

    async def written_at_end(self, place: Place) -> None:
        """Do as `written` when the training has ended at `place`. A copy that has died with its
        actor is made again, since the model stays as it is."""
        await self.written()
        for _ in range(COPIES):
            if self._died is None or self._died.place != place:
                return
            await self.copy(self._died, self._actor.now())
            await self.written()

    async def look(self) -> None:
        """Do as `written`, if the writing has ended."""
        if self._task is not None and self._task.done():
            await self.written()

    async def end(self) -> None:
        """End with the run, whether it failed or not. A file that is being written is finished;
        arrays that were not fetched are lost."""
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # the error that ended the run is reported elsewhere

    async def restored(self) -> Mapping[str, str]:
        """If the run resumes a checkpoint, give the state next to its model back to the keepers of
        the same names. Returns the checkpoint's metadata."""
        if not self._job.resume:
            return {}
        arrays, facts = await asyncio.to_thread(checkpoint.load, Path(self._job.resume))
        kept = kept_of(facts)
        where = {"checkpoint": self._job.resume} if kept is None else {"memory": kept.by}
        self._actor.emit("resumed", iteration=int(facts["iteration"]), **where)
        beside = {name: array for name, array in arrays.items() if BESIDE in name}
        for actor in self._keepers:
            mine = {
                name: array
                for name, array in beside.items()
                if _owner(name) == actor or place_of(name) is not None
            }
            if mine:
                put = PutBeside(names=tuple(mine), arrays=tuple(mine.values()))
                await self._ask(actor, put, Done)
        lost = dict.fromkeys(
            owner
            for name in beside
            if (owner := _owner(name)) not in self._keepers and place_of(name) is None
        )
        if lost:
            text = (
                "%s: the state that %s kept for the next gradients is dropped: no actor of "
                "this run has that name and keeps such state"
            )
            self._actor.log.warning(text, Path(self._job.resume).name, ", ".join(lost))
        return facts

    # -- inside

    async def _save(self, of: Snapshot, copied: dict[str, Copied], exposed: float) -> None:
        """Fetch the copy, write it, read it back, and remove old checkpoints."""
        began = self._actor.now()
        arrays = await self._gathered(of, copied)
        zero = {name: like for copy in copied.values() for name, like in copy.zero.items()}
        wanted = {array for copy in copied.values() for array in copy.names if BESIDE not in array}
        lost = sorted(wanted - arrays.keys() - zero.keys())
        self._died = None
        if lost := [array for array in lost if place_of(array) is None]:
            self._died = of
            self._not_saved(f"{lost[0]} has died with the actor that had copied it")
            return
        zeroed = sorted(zero.keys() - arrays.keys())
        arrays |= {name: np.zeros_like(arrays[zero[name]]) for name in zeroed}
        best = self._actor.run_directory / FILE
        path = checkpoint_path(self._actor.run_directory, of.place[0]) if of.regular else best
        if self._seen is not None:  # once: it reads the net
            self._use = dict(await asyncio.to_thread(described, self._job, self._seen))
            self._seen = None
        try:
            facts = {**self._use, **of.facts, **({ZEROED: " ".join(zeroed)} if zeroed else {})}
            pieces = await asyncio.to_thread(
                writing, path, arrays, of.place, self._job, of.losses, facts
            )
            await self._write(pieces)
            await asyncio.to_thread(checkpoint.verify, path)
            if of.best and of.regular:
                await asyncio.to_thread(same, path, best)
        except (OSError, NetError) as error:
            # a full or broken disk costs this checkpoint only: earlier ones stay
            self._not_saved(
                f"{path.name}: {reason(error) if isinstance(error, OSError) else error}"
            )
            return
        self.unsaved = ""
        if zeroed:
            text = "%s: %s of its histories begin at 0: all islands that had them have died"
            self._actor.log.warning(text, path.name, len(zeroed))
        if of.best:
            self._actor.emit("best", iteration=of.place[0], **of.best, file=best.name)
        if not of.regular:
            return
        self.last = path.name
        self.on_result("written")
        removed = self._removed(self._rhythm.written(path, for_good=of.for_good))
        timed = {} if of.for_good else {"timed": True}  # due by time, not requested
        fields = {
            "file": path.name,
            "exposed_seconds": exposed,
            "seconds": self._actor.now() - began,
            **timed,
        }
        self._actor.emit(
            "checkpoint",
            iteration=of.place[0],
            **fields,
            **({"removed": removed} if removed else {}),
        )

    async def _gathered(self, of: Snapshot, copied: Mapping[str, Copied]) -> dict[str, Array]:
        """Fetch the copies, and take the means of arrays that several actors have."""
        mean = MeanState()
        streams = StreamRows()
        for name, copy in copied.items():
            for array in copy.names:
                answer = await self._fetched(name, array)
                if answer is None:  # the rest of its copy has died with it
                    break
                if (place := place_of(array)) is not None:
                    # other places are those of groups that did not compute the last batch
                    if place == of.place[1]:
                        streams.add(array, answer.array, copy.slices[array])
                    continue
                slices = {array: copy.slices[array]} if array in copy.slices else {}
                state = State(names=(array,), arrays=(answer.array,), version=0, slices=slices)
                await asyncio.to_thread(mean.add, state)
        return await asyncio.to_thread(mean.arrays) | streams.arrays()

    async def _fetched(self, name: str, array: str) -> CopiedArray | None:
        """Fetch an array of an actor's copy. Returns None if the actor has died meanwhile, perhaps
        to answer in its next life."""
        try:
            return await self._ask(name, GetCopy(name=array), CopiedArray)
        except Refused:
            return None

    def _not_saved(self, why: str) -> None:
        """Report that this checkpoint is lost."""
        self.unsaved = why
        text = "no checkpoint: %s; %s; training goes on, and tries again when the next is due"
        self._actor.log.warning(text, why, self.kept)
        self._actor.emit("unsaved", why=why)
        self.on_result("failed")

    async def _write(self, pieces: Iterator[None]) -> None:
        """Write piece by piece, each in a call of its own: a slow disk must not look like a run
        that stands still."""
        while await asyncio.to_thread(_next, pieces):
            if self._waited_for:
                self._actor.stepped()

    def _removed(self, old: Sequence[Path]) -> str:
        """Remove old checkpoints. Returns the names of the files that are gone."""
        gone = []
        for path in old:
            try:
                path.unlink(missing_ok=True)
                gone.append(path.name)
            except OSError as error:
                self._actor.log.warning(
                    ("%s is an old checkpoint, and cannot be removed: %s"), path.name, reason(error)
                )
        return ", ".join(gone)


def _next(pieces: Iterator[None]) -> bool:
    """Write one piece, if there is one. A StopIteration cannot leave a thread, so `next` is not
    used."""
    for _ in pieces:
        return True
    return False


def _owner(name: str) -> str:
    """The actor that kept the array of this name."""
    return name.rpartition(BESIDE)[2].partition(".")[2]
