"""Which process is alive, by three signs, since each alone can lie. Plain decisions; the supervisor
acts on them.

link       the operating system or a socket, its own or a peer's, says that the process or its
           connection is gone
heartbeat  its event loop still turns (a blocked loop keeps its connection)
progress   its work advances (a stuck kernel keeps the loop turning)
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
    """When a process counts as dead."""

    grace_seconds: float = Launcher.grace  # for what explains a lost link

    @property
    def silence_seconds(self) -> float:
        """Longest silence of a living process: the missed beats and one more for the way."""
        return self.heartbeat_seconds * (self.missed + 1)

    def silence_of(self, watched: Watched) -> float:
        """The same of one process: from another host a heartbeat may be as late as its link may be
        silent, and one that has said that it holds the interpreter's lock may be silent for as long
        as it may prepare."""
        held = self.prepare_seconds if watched.beat is not None and watched.beat.holds_lock else 0.0
        return self.silence_seconds + held + (self.link_seconds if watched.far else 0.0)

    def stuck_seconds(self, stage: LifeStage, beat: Heartbeat) -> float:
        """Longest single piece of array work: ten times the usual, but never under the configured
        floor.

        Preparing has a limit of its own: a net is built and its kernels compiled in one piece. So
        has work that holds the interpreter's lock: it makes what later work needs.
        """
        prepares = stage is LifeStage.GREETED or beat.holds_lock
        return (
            self.prepare_seconds
            if prepares
            else max(self.progress_seconds, 10 * beat.usual_seconds)
        )


@dataclass
class Watched:
    """What is known of one process. `far`: it is on another host."""

    stage: LifeStage = LifeStage.STARTING
    far: bool = False
    incarnation: int = FIRST
    last_heard: float = 0.0
    launched: float | None = None
    beat: Heartbeat | None = None


class Supervision:
    """Knows every process's stage and last signs of life; says who counts as dead and why."""

    def __init__(self, processes: Iterable[str], liveness: Liveness, now: float) -> None:
        self.liveness = liveness
        self.processes = {name: Watched(last_heard=now) for name in processes}
        # of thousands each message asks
        self._counts = Counter({LifeStage.STARTING: len(self.processes)})
        self._began = self._greeted = now  # start; when the last process reported
        self._last_check = now
        self._lost: dict[tuple[str, str], float] = {}  # links that broke, and since when

    def __repr__(self) -> str:
        return (
            "<supervision "
            f"{', '.join(f'{name} {w.stage.value}' for name, w in self.processes.items())}>"
        )

    def note(self, process: str, event: str, now: float, incarnation: int | None = None) -> None:
        """A step in a process's life, the present one if none is named; the hello of a higher one
        begins that. MessageError if it may not come now, or is of a former life."""
        watched = self.processes.get(process)
        if watched is None:
            raise MessageError(
                "illegal_step", (f"'{event}' of process '{process}', which is not of this run")
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
        watched.beat = None  # it told of the stage before: a long preparation is over, not stuck

    def is_far(self, process: str) -> None:
        """It is on another host."""
        self.processes[process].far = True

    def is_silent(self, process: str, now: float) -> bool:
        """Was nothing heard of it for longer than a process of this host may be silent? The
        supervisor never is."""
        watched = self.processes.get(process)
        return watched is not None and now - watched.last_heard > self.liveness.silence_seconds

    def hears(self, process: str, now: float) -> bool:
        """Will it hear what it is told, as far as it is known? It has greeted, and it was heard of
        lately."""
        return not self.is_at(process, LifeStage.STARTING) and not self.is_silent(process, now)

    def launched(self, process: str, now: float) -> None:
        """Its time to report begins."""
        self.processes[process].launched = now

    def beat(self, heartbeat: Heartbeat, now: float) -> None:
        """A heartbeat came."""
        watched = self.processes.get(heartbeat.process)
        if watched is not None:
            watched.last_heard = now
            watched.beat = heartbeat

    def link_lost(self, process: str, peer: str, now: float) -> None:
        """A process, or the supervisor, says that its connection to a peer broke."""
        self._lost.setdefault((process, peer), now)

    def both_report(self, process: str, peer: str) -> bool:
        """Does each of the two say that it lost the other?"""
        return (process, peer) in self._lost and (peer, process) in self._lost

    def broken(self, now: float) -> tuple[str, str] | None:
        """A link that broke between two processes that both still live, or between one and the
        supervisor."""
        for (process, peer), since in self._lost.items():
            alive = {SUPERVISOR, *self.at(LifeStage.GREETED, LifeStage.READY, LifeStage.RUNNING)}
            if now - since >= self.liveness.grace_seconds and process in alive and peer in alive:
                return process, peer
        return None

    def all_reached(self, stage: LifeStage) -> bool:
        """Is every process exactly at this stage?"""
        return self._counts[stage] == len(self.processes)

    def some_at(self, *stages: LifeStage) -> bool:
        """Is any process at one of these stages?"""
        return any(self._counts[stage] for stage in stages)

    def is_at(self, process: str, *stages: LifeStage) -> bool:
        """Is this process of the run, and at one of these stages?"""
        watched = self.processes.get(process)
        return watched is not None and watched.stage in stages

    def at(self, *stages: LifeStage) -> list[str]:
        """The processes at one of these stages."""
        return [name for name, watched in self.processes.items() if watched.stage in stages]

    def check(self, now: float) -> list[tuple[str, str]]:
        """(process, why) for every process that counts as dead at `now`."""
        late = now - self._last_check > self.liveness.silence_seconds / 2
        self._last_check = now
        # this process itself was stopped or starved: what it has not read yet is no sign of death
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
        # who waits for one that has not reported has been told nothing
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
