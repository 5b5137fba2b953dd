"""A coordinator's checkpoints: everybody copies what is theirs in memory, between two iterations;
then training goes on, and the copy is fetched array by array and written in a thread beside it.

A disk that is full or broken costs checkpoints, not the training: what was written before stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nets import NetError
from nets.files import checkpoint
from nets.predict import Seen
from nets.reasons import reason
from roles.checkpoints.best import FILE, same
from roles.checkpoints.checkpoint_timing import CheckpointTiming, Timing
from roles.checkpoints.deployment_facts import described
from roles.checkpoints.state_average import MeanState
from roles.learning.job import Job
from roles.learning.model_holder import BESIDE, Copied, CopiedArray, GetCopy, KeepCopy, PutBeside
from roles.learning.resume import Place, checkpoint_path, kept_of, writing
from roles.messages import Done, State
from runtime import Actor

SLOW = 1.0  # seconds that a run waits for the checkpoint before without telling


@dataclass(frozen=True)
class Snapshot:
    """What one is of: iterations and images, the losses that the next report is made of; is it kept
    for good? `facts`: more metadata. `best`: fields of the event that tells that it is the best
    model so far; without `regular` it is nothing else."""

    place: Place
    losses: Sequence[float]
    for_good: bool
    facts: Mapping[str, str] = field(default_factory=dict)
    best: Mapping[str, float] = field(default_factory=dict)
    regular: bool = True


class Checkpoints:
    """Of the run of one coordinator. `servers` have the model, `keepers` something beside it;
    `wake` hears that a checkpoint is written, or cannot be. `seen`: what is said of the model's
    use, None where it is not."""

    def __init__(
        self,
        actor: Actor,
        job: Job,
        timing: Timing,
        *,
        servers: Sequence[str],
        keepers: Sequence[str],
        wake: Callable[[], None],
        seen: Seen | None = None,
    ) -> None:
        self._seen = seen
        self._use = dict[str, str]()
        self._actor = actor
        self._job = job
        self._wake = wake
        self._servers = tuple(servers)
        self._keepers = tuple(keepers)
        self._rhythm = CheckpointTiming(timing)
        self._seconds = timing.seconds
        self._task: asyncio.Task[None] | None = None
        self._waited_for = self._told = False
        self.last = ""  # the file that was written last
        self.unsaved = ""  # why the one after it could not be
        self.on_result: Callable[[str], None] = lambda result: None  # hears "written" or "failed"

    def __repr__(self) -> str:
        return f"<checkpoints, the last is {self.last or 'none'}, {self._rhythm!r}>"

    def begin(self) -> None:
        """Training starts."""
        self._rhythm.next(self._actor.now())

    def due(self) -> bool:
        """Is it time for one, and the one before written?"""
        return self._task is None and self._rhythm.due(self._actor.now())

    @property
    def kept(self) -> str:
        """What there is, in words."""
        return f"{self.last} is the last one" if self.last else "there is none of this run"

    async def copy(self, of: Snapshot, idle_since: float) -> None:
        """Nothing is under way: have everything copied, and write the copy beside what follows. One
        at a time: the one before is waited for. Training has waited since `idle_since`."""
        before = self._actor.now()
        await self.written()
        if (waited := self._actor.now() - before) > SLOW:
            text = (
                "training waited %.0f s for the disk: checkpoints are asked for faster "
                "than they are written"
            )
            self._actor.log.warning(text, waited)
        names = tuple(dict.fromkeys((*self._servers, *self._keepers)))
        copied = await asyncio.gather(
            *(self._actor.ask(name, KeepCopy(), Copied) for name in names)
        )
        self._actor.stepped()
        now = self._actor.now()
        exposed = now - idle_since
        wait = self._rhythm.next(now, 0.0 if of.for_good else exposed) if of.regular else 0.0
        if wait > self._seconds > 0 and not self._told:
            self._told = True
            text = (
                "training waited %.2f s for a checkpoint: the next is due in %.0f s, not "
                "%g, so that it is 1 %%"
            )
            self._actor.log.warning(text, exposed, wait, self._seconds)
        fetched = self._save(of, dict(zip(names, copied, strict=True)), exposed)
        self._task = asyncio.get_running_loop().create_task(fetched, name="checkpoint")
        self._task.add_done_callback(lambda task: self._wake())

    async def written(self) -> None:
        """Wait for the one that is being written, if one is. Raises what went wrong but for the
        disk."""
        if self._task is not None:
            self._waited_for = True
            try:
                await self._task
            finally:
                self._task = None
                self._waited_for = False

    async def look(self) -> None:
        """As `written`, if it is."""
        if self._task is not None and self._task.done():
            await self.written()

    async def end(self) -> None:
        """The run is over, well or not: a file that is half written is finished, what was not
        fetched is lost."""
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # whoever ended the run has told

    async def restored(self) -> Mapping[str, str]:
        """If the run resumes a checkpoint, give back what was beside its model to whoever has the
        name; its metadata."""
        if not self._job.resume:
            return {}
        arrays, facts = await asyncio.to_thread(checkpoint.load, Path(self._job.resume))
        kept = kept_of(facts)
        where = {"checkpoint": self._job.resume} if kept is None else {"memory": kept.by}
        self._actor.emit("resumed", iteration=int(facts["iteration"]), **where)
        beside = {name: array for name, array in arrays.items() if BESIDE in name}
        for actor in self._keepers:
            mine = {name: array for name, array in beside.items() if _owner(name) == actor}
            if mine:
                await self._actor.ask(
                    actor, PutBeside(names=tuple(mine), arrays=tuple(mine.values())), Done
                )
        lost = dict.fromkeys(owner for owner in map(_owner, beside) if owner not in self._keepers)
        if lost:
            text = (
                "%s: what %s kept for the next gradients is dropped: nobody here has that "
                "name and keeps something"
            )
            self._actor.log.warning(text, Path(self._job.resume).name, ", ".join(lost))
        return facts

    # -- inside

    async def _save(self, of: Snapshot, copied: dict[str, Copied], exposed: float) -> None:
        """Fetch the copy, write it, read it back, remove what is now too old."""
        began = self._actor.now()
        mean = MeanState()
        for name, copy in copied.items():
            for array in copy.names:
                answer = await self._actor.ask(name, GetCopy(name=array), CopiedArray)
                slices = {array: copy.slices[array]} if array in copy.slices else {}
                state = State(names=(array,), arrays=(answer.array,), version=0, slices=slices)
                await asyncio.to_thread(mean.add, state)
        arrays = await asyncio.to_thread(mean.arrays)
        best = self._actor.run_directory / FILE
        path = checkpoint_path(self._actor.run_directory, of.place[0]) if of.regular else best
        if self._seen is not None:  # once: it reads the net
            self._use = dict(await asyncio.to_thread(described, self._job, self._seen))
            self._seen = None
        try:
            await self._write(
                writing(path, arrays, of.place, self._job, of.losses, {**self._use, **of.facts})
            )
            await asyncio.to_thread(checkpoint.verify, path)
            if of.best and of.regular:
                await asyncio.to_thread(same, path, best)
        except (OSError, NetError) as error:
            # a full disk, a broken one: what was saved before stays
            self.unsaved = f"{path.name}: {reason(error) if isinstance(error, OSError) else error}"
            text = "no checkpoint: %s; %s; training goes on, and tries again when the next is due"
            self._actor.log.warning(text, self.unsaved, self.kept)
            self._actor.emit("unsaved", why=self.unsaved)
            self.on_result("failed")
            return
        self.unsaved = ""
        if of.best:
            self._actor.emit("best", iteration=of.place[0], **of.best, file=best.name)
        if not of.regular:
            return
        self.last = path.name
        self.on_result("written")
        removed = self._removed(self._rhythm.written(path, for_good=of.for_good))
        timed = {} if of.for_good else {"timed": True}  # nobody asked for it
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

    async def _write(self, pieces: Iterator[None]) -> None:
        """Each piece is a call: a disk that is slow is none that stands still."""
        while await asyncio.to_thread(_next, pieces):
            if self._waited_for:
                self._actor.stepped()

    def _removed(self, old: Sequence[Path]) -> str:
        """Remove them; the names of those that are gone."""
        gone = []
        for path in old:
            try:
                path.unlink(missing_ok=True)
                gone.append(path.name)
            except OSError as error:
                self._actor.log.warning(
                    ("%s is too old, and cannot be removed: %s"), path.name, reason(error)
                )
        return ", ".join(gone)


def _next(pieces: Iterator[None]) -> bool:
    """Do one piece, if there is one; no StopIteration can leave a thread."""
    for _ in pieces:
        return True
    return False


def _owner(name: str) -> str:
    """Who had the array of this name beside the model."""
    return name.rpartition(BESIDE)[2].partition(".")[2]
