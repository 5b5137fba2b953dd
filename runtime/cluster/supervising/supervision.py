"""Deciding which processes are alive, by three signs, since each sign alone can be wrong. These are
plain decisions; the supervisor acts on them.

link       the operating system, or a socket of the process or of a peer, reports that the process
           or its connection is gone
heartbeat  the event loop of the process still turns (a blocked loop keeps its connection)
progress   the work of the process advances (a stuck kernel does not stop the loop)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from runtime.cluster.launcher import Launcher
from runtime.cluster.lifecycle import FIRST, LIFE, Heartbeat, LifeStage
from runtime.defaults import LivenessTimes
from runtime.errors import MessageError
from runtime.plan.topology import SUPERVISOR


@dataclass(frozen=True)
class Liveness(LivenessTimes):
    """The times after which a process counts as dead."""

    grace_seconds: float = Launcher.grace  # the wait for an exit that explains a lost link

    @property
    def silence_seconds(self) -> float:
        """The longest silence of a living process: the missed beats and one more for the
        transfer."""
        return self.heartbeat_seconds * (self.missed + 1)

    def silence_of(self, watched: Watched) -> float:
        """Return the longest silence of one process. From another host, a heartbeat may be late by
        the time that its link may be silent. A process that has announced that it holds the
        interpreter's lock may be silent for the time that it may prepare."""
        held = self.prepare_seconds if watched.beat is not None and watched.beat.holds_lock else 0.0
        return self.silence_seconds + held + (self.link_seconds if watched.far else 0.0)

    def stuck_seconds(self, stage: LifeStage, beat: Heartbeat) -> float:
        """Return the longest time for one piece of array work: ten times the usual duration, but
        never less than the configured minimum.

        Preparation has a separate limit, since a net is built and its kernels compiled in one
        piece. The same limit holds for work that holds the interpreter's lock, since it prepares
        later work.
        """
        prepares = stage is LifeStage.GREETED or beat.holds_lock
        return (
            self.prepare_seconds
            if prepares
            else max(self.progress_seconds, 10 * beat.usual_seconds)
        )


@dataclass
class Watched:
    """The known state of one process. `far` is True if it is on another host."""

    stage: LifeStage = LifeStage.STARTING
    far: bool = False
    incarnation: int = FIRST
    last_heard: float = 0.0
    launched: float | None = None
    beat: Heartbeat | None = None


class Supervision:
    """Keeps every process's stage and last signs of life, and decides which processes count as
    dead."""

    def __init__(self, processes: Iterable[str], liveness: Liveness, now: float) -> None:
        self.liveness = liveness
        self.processes = {name: Watched(last_heard=now) for name in processes}
        # kept up to date, since each message of thousands of processes needs these counts
        self._counts = Counter({LifeStage.STARTING: len(self.processes)})
        self._began = self._greeted = now  # the start, and the last greeting of a process
        self._last_check = now
        self._lost: dict[tuple[str, str], float] = {}  # broken link -> when it broke

    def __repr__(self) -> str:
        return (
            "<supervision "
            f"{', '.join(f'{name} {w.stage.value}' for name, w in self.processes.items())}>"
        )

    def add(self, process: str, incarnation: int, now: float) -> None:
        """Add a process that is started while the run goes on."""
        self.processes[process] = Watched(incarnation=incarnation, last_heard=now, launched=now)
        self._counts[LifeStage.STARTING] += 1

    def remove(self, process: str) -> None:
        """Forget a process that has ended in order, or could not be started."""
        watched = self.processes.pop(process, None)
        if watched is not None:
            self._counts[watched.stage] -= 1
            self._lost = {ends: at for ends, at in self._lost.items() if process not in ends}

    def note(self, process: str, event: str, now: float, incarnation: int | None = None) -> None:
        """Note a step in the life of a process. If no incarnation is given, it is the current life.
        The hello of a higher incarnation begins a new life. Raises MessageError if the step is not
        legal now, or belongs to a former life."""
        watched = self.processes.get(process)
        if watched is None:
            raise MessageError(
                "illegal_step", (f"'{event}' of process '{process}', which is not in this run")
            )
        life = watched.incarnation if incarnation is None else incarnation
        if life > watched.incarnation and event == "hello":
            event = "reborn"
        elif life != watched.incarnation:
            raise MessageError(
                "illegal_step",
                (f"'{event}' of life {life} of '{process}', now in {watched.incarnation}"),
            )
        if event == "reborn":
            self._lost = {ends: since for ends, since in self._lost.items() if process not in ends}
        following = LIFE.get((watched.stage, event))
        if following is None:
            raise MessageError(
                "illegal_step",
                (f"'{event}' of process '{process}', which is {watched.stage.value}"),
            )
        self._counts[watched.stage] -= 1
        self._counts[following] += 1
        watched.stage = following
        watched.incarnation = life
        watched.last_heard = now
        self._greeted = now if following is LifeStage.GREETED else self._greeted
        watched.beat = None  # it describes the stage before: a long preparation is over, not stuck

    def is_far(self, process: str) -> None:
        """Note that the process is on another host."""
        self.processes[process].far = True

    def is_silent(self, process: str, now: float) -> bool:
        """Whether the process has been silent for longer than a process of this host may be. Never
        true of the supervisor."""
        watched = self.processes.get(process)
        return watched is not None and now - watched.last_heard > self.liveness.silence_seconds

    def hears(self, process: str, now: float) -> bool:
        """Whether a message will reach the process, as far as is known: it has greeted, and has not
        been silent."""
        return not self.is_at(process, LifeStage.STARTING) and not self.is_silent(process, now)

    def launched(self, process: str, now: float) -> None:
        """Note that the process was launched. The time within which it must report begins."""
        self.processes[process].launched = now

    def life(self, process: str) -> int:
        """Return the present incarnation of a process; 0 if it is not in this run."""
        watched = self.processes.get(process)
        return 0 if watched is None else watched.incarnation

    def restarts(self, process: str, now: float) -> None:
        """Note that the process has died, and begins its next life."""
        self._lost = {ends: since for ends, since in self._lost.items() if process not in ends}
        watched = self.processes[process]
        watched.incarnation += 1
        self._counts[watched.stage] -= 1
        self._counts[LifeStage.STARTING] += 1
        watched.stage = LifeStage.STARTING
        watched.launched = now

    def beat(self, heartbeat: Heartbeat, now: float) -> None:
        """Note a heartbeat."""
        watched = self.processes.get(heartbeat.process)
        if watched is not None:
            watched.last_heard = now
            watched.beat = heartbeat

    def link_lost(self, process: str, peer: str, now: float) -> None:
        """Note that a process, or the supervisor, reports that its connection to a peer broke."""
        self._lost.setdefault((process, peer), now)

    def both_report(self, process: str, peer: str) -> bool:
        """Whether both ends report that the link broke."""
        return (process, peer) in self._lost and (peer, process) in self._lost

    def broken(self, now: float) -> tuple[str, str] | None:
        """Return a broken link whose ends both still live; one end may be the supervisor. None if
        there is no such link."""
        for (process, peer), since in self._lost.items():
            alive = {SUPERVISOR, *self.at(LifeStage.GREETED, LifeStage.READY, LifeStage.RUNNING)}
            if now - since >= self.liveness.grace_seconds and process in alive and peer in alive:
                return process, peer
        return None

    def all_reached(self, stage: LifeStage) -> bool:
        """Whether every process is exactly at this stage."""
        return self._counts[stage] == len(self.processes)

    def some_at(self, *stages: LifeStage) -> bool:
        """Whether any process is at one of these stages."""
        return any(self._counts[stage] for stage in stages)

    def is_at(self, process: str, *stages: LifeStage) -> bool:
        """Whether this process belongs to the run and is at one of these stages."""
        watched = self.processes.get(process)
        return watched is not None and watched.stage in stages

    def at(self, *stages: LifeStage) -> list[str]:
        """Return the processes at one of these stages."""
        return [name for name, watched in self.processes.items() if watched.stage in stages]

    def check(self, now: float) -> list[tuple[str, str]]:
        """Return (process, why) for every process that counts as dead at `now`."""
        late = now - self._last_check > self.liveness.silence_seconds / 2
        self._last_check = now
        # if this process itself was stopped or starved, unread messages are not a sign of death
        if late:
            for watched in self.processes.values():
                watched.last_heard = now
            return []
        return [
            (name, why)
            for name, watched in self.processes.items()
            if (why := self._verdict(watched, now)) is not None
        ]

    def _verdict(self, watched: Watched, now: float) -> str | None:
        rules = self.liveness
        silent = now - watched.last_heard
        if watched.stage is LifeStage.STARTING:
            waited = now - (self._began if watched.launched is None else watched.launched)
            return (
                (f"did not report within {waited:.0f} s of its start")
                if waited > rules.start_seconds
                else None
            )
        if watched.stage in (LifeStage.HALTING, LifeStage.GONE):
            return None
        if silent > rules.silence_of(watched):
            far = ", or its host or the network to it is down" if watched.far else ""
            return (
                f"sent no heartbeat for {silent:.1f} s: its event loop is blocked or the "
                f"process is stopped{far}"
            )
        beat = watched.beat
        waited = now - self._greeted
        idle = beat is not None and not beat.progress and not beat.busy_seconds
        # no process is told to prepare until all have reported
        told = not self._counts[LifeStage.STARTING]
        if watched.stage is LifeStage.GREETED and told and idle and waited > rules.start_seconds:
            return (
                f"has not begun to prepare {waited:.0f} s after it was told to: messages "
                "do not reach it"
            )
        if beat is not None and beat.busy_seconds > rules.stuck_seconds(watched.stage, beat):
            return (
                f"has been computing '{beat.busy_with}' for {beat.busy_seconds:.0f} s "
                f"(usually {beat.usual_seconds:.3g} s): it is stuck"
            )
        return None
