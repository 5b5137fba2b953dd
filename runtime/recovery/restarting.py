"""A run that survives deaths and can be scaled: several runs, one after the other, which signals
and clients see as one.

    run 1 -> RoleDied -> (the program finds where to resume) -> run 2 -> ...
          -> a good end, or too many restarts
    run 1 -> Scale -> (the lead saves everything) -> run 2, with other workers or on other machines

Each run has its own run directory. If a scaled run cannot begin, it is followed by a run with the
workers and machines of before.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.cluster.clients import Scale, Scaled
from runtime.cluster.launcher import Early
from runtime.cluster.operators.operator_key import FILE, OperatorKeys
from runtime.config.recorded import dump
from runtime.errors import Absent, ConfigError, ConvoyError, LaunchError, Refused
from runtime.messages.message import HandedOver, HandOver
from runtime.plan.run_plan import SAID
from runtime.plan.topology import SUPERVISOR
from runtime.records.lock_file import BETWEEN, RUNNING
from runtime.records.run_identity import identity_of
from runtime.records.up_lock import UpLock
from runtime.recovery.healed import Healed
from runtime.recovery.next_run import NOT_HEALED, RESTART, goes_on, healed, scaled, without
from runtime.recovery.restarts import Restart, Restarts
from runtime.report.console import RunConsole
from runtime.report.rundir import RunDirectory
from runtime.runs.checking import Checked
from runtime.runs.healing import Memory
from runtime.runs.making import directory_of
from runtime.runs.pages import can_be_made
from runtime.runs.run import Run

SCALED = "scaled"  # the event of a scaled run


@dataclass(frozen=True)
class Next:
    """The run that will follow the current one: its plan, its run directory, and the first event of
    its journal. `other` is True if its plan differs, so that the current plan may follow again if
    the run cannot begin. `wish` is the change by which it is scaled. `memory` holds the state of
    the current run for it."""

    checked: Checked
    directory: RunDirectory
    event: str
    fields: dict[str, Any]
    other: bool = True
    wish: Scale | None = None
    memory: Memory | None = None


class Restarting:
    """A run and the runs that follow it, shown on `console`. Their processes are forked in `early`,
    and `directory` is the run directory of the first. `lock` is the lock of this `up`, which
    records the current run."""

    def __init__(
        self,
        checked: Checked,
        console: RunConsole,
        early: Early | None,
        directory: RunDirectory,
        lock: UpLock | None = None,
    ) -> None:
        self._checked = checked
        self._console = console
        self._whole = checked.loaded.config  # with all its machines
        self._said = dump(checked.loaded.config, checked.loaded.options)
        recovery = checked.loaded.config.recovery
        self._restarts = Restarts(
            recovery.restarts, recovery.window_seconds, recovery.backoff_seconds
        )
        self._reachable = recovery.machines == "reachable"
        self._cards = OperatorKeys()
        self._deaths = 0  # restarts in a row; 0 again after the run was scaled
        # objects made before the first run stay alive, so that `_begin` need not look through them
        gc.freeze()
        self._early = early
        self._lock = lock
        self._run = self._made(directory)
        self._over = asyncio.Event()  # the user wants the end
        self._scaling = self._was_scaled = False
        self._next: Next | None = None
        self._healed: Healed | None = None  # the memory that the current run was resumed from
        # the plan and directory that the current run was scaled from, until it has begun
        self._before: tuple[Checked, Path] | None = None

    def __repr__(self) -> str:
        return f"<{self._restarts!r}: {self._run!r}>"

    async def ended(self) -> ConvoyError | None:
        """Wait until the last run has ended. Returns the error that ended it, or None."""
        try:
            return await self._ended()
        finally:
            await self._keep(None)

    async def _ended(self) -> ConvoyError | None:
        while True:
            error = await self._seen_through()
            if self._over.is_set() or self._run.asked_to_end:
                await self._drop(self._next)
                return error
            if self._lock is not None:
                self._lock.says(BETWEEN)
            following = (
                await self._scaled() or await self._as_before(error) or await self._anew(error)
            )
            if following is None:
                return error
            await self._begin(following)

    async def _seen_through(self) -> ConvoyError | None:
        await self._run.start()
        if self._over.is_set():  # the end was asked for before there was a run to wind down
            await self._run.wind_down()
        if self._healed is not None:
            self._healed.follow()
        self._console.say(f"run directory {self._run.directory}")
        if self._run.metrics_url:
            self._console.say(f"metrics    {self._run.metrics_url} lists every process")
        if self._run.report_url and can_be_made():
            self._console.say(f"report     {self._run.report_url} shows the run in a browser")
        if self._run.operators_at:
            self._console.say(
                f"operators  {self._run.operators_at} accepts the key {self._run.directory / FILE}"
            )
        return await self._run.ended()

    # -- the run that follows

    async def _scaled(self) -> Next | None:
        """Return the scaled run that a client asked for, or None. The current run has saved its
        state for it."""
        found = self._next
        self._next = None
        if found is not None:
            self._before = (self._checked, self._run.directory) if found.other else None
            self._restarts.followed()
            found = await self._going_on(found, self._run.directory)
        return found

    async def _as_before(self, error: ConvoyError | None) -> Next | None:
        """Return a run with the workers and machines of before, if a scaled run could not begin. It
        resumes from the state that was saved for the scaled run."""
        before = self._before
        self._before = None
        if before is None or error is None or self._run.has_begun:
            return None
        checked, directory = before
        text = f"as it was: the run could not be scaled: {str(error).splitlines()[0]}"
        fields = {"after": self._run.directory.name, "why": text}
        return await self._going_on(
            Next(checked, self._directory_of(checked, directory), SCALED, fields), directory
        )

    async def _anew(self, error: ConvoyError | None) -> Next | None:
        """Return the run that follows a death, as far as recovery.restarts allows."""
        if error is None:
            return None
        restart = self._restarts.after(
            error, asyncio.get_running_loop().time(), began=self._run.has_begun
        )
        if restart is None:
            if self._restarts.why_not:
                self._console.warn(self._restarts.why_not)
            return None
        if await self._goes_on_without(error):
            restart = Restart(0.0, restart.text)
        if restart.seconds:
            self._console.say(f"restart    {restart.text}, in {restart.seconds:g} s")
            if await self._ends_within(restart.seconds):
                return None
        after = self._run.directory
        healing = self._run.healing
        fields = {"count": restart.text, "after": after.name}
        memory = healing.memory if healing is not None else None
        if healing is not None and memory is None and healing.why:
            fields["why"] = f"{NOT_HEALED}{healing.why}"
        found = Next(
            self._checked, self._directory_of(self._checked, after), RESTART, fields, memory=memory
        )
        return await self._going_on(found, after)

    async def _going_on(self, found: Next, directory: Path) -> Next | None:
        """Return the run with the point where it resumes: the state in this directory, or in the
        memory. Returns None if the user wants the end meanwhile."""
        saved = found.event == SCALED
        memory = found.memory
        try:
            if memory is not None:
                checked, told = await asyncio.to_thread(
                    healed, found.checked, memory.path, directory
                )
            else:
                left = self._checked.loaded.options
                checked, told = await asyncio.to_thread(
                    goes_on, found.checked, directory, saved=saved, wish=found.wish, left=left
                )
        except ConfigError as error:  # the net or the data have changed since
            await self._drop(found)
            text = (
                f"{directory}: the run is saved there, but cannot be resumed; correct this, "
                "then up --resume"
            )
            raise ConfigError([text, *error.problems]) from None
        if self._over.is_set():
            await self._drop(found)
            return None
        return dataclasses.replace(found, checked=checked, fields={**found.fields, "from": told})

    async def _drop(self, found: Next | None) -> None:
        """Discard a run that will not be started: its directory and its memory."""
        if found is not None:
            found.directory.discard()
            if found.memory is not None:
                found.memory.close()

    async def _keep(self, healed: Healed | None) -> None:
        """Remember the memory that the current run was resumed from, and close the one of the run
        before."""
        before = self._healed
        self._healed = healed
        if before is not None:
            await before.forget()

    async def _begin(self, found: Next) -> None:
        """Make `found` the current run."""
        self._checked = found.checked
        found.directory.event(SUPERVISOR, found.event, found.fields)
        if self._was_scaled:
            try:
                found.directory.write(SAID, self._said)
            except LaunchError as error:
                self._console.warn(f"`up --resume` will not know that the run was scaled: {error}")
        self._console.open()
        told = found.fields.pop("from")
        self._console.event(SUPERVISOR, found.event, found.fields)
        for line in told:
            self._console.say(line)
        if self._early is not None and (why := self._early.barren()):
            self._console.warn(f"{why}: another takes its place")
            self._early = None
        self._deaths = self._deaths + 1 if found.event == RESTART else 0
        self._run = self._made(found.directory)
        if found.memory is not None:
            await self._keep(Healed(found.memory, self._run, found.directory, self._console))
        # a run that has ended leaves reference cycles of 0.25 MB, which `up` seldom collects itself
        gc.collect()

    def _made(self, directory: RunDirectory) -> Run:
        checked = self._checked
        console = self._console
        if self._lock is not None:
            self._lock.says(RUNNING, directory.path.name)
        return Run(
            checked.placement,
            checked.loaded.config,
            options=checked.loaded.options,
            console=lambda: console,
            early=self._early,
            directory=directory,
            restarts=self._deaths,
            scale=self.scale,
            cards=self._cards,
        )

    def _directory_of(self, checked: Checked, before: Path) -> RunDirectory:
        """Make a run directory for the run that follows the run in directory `before`."""
        known = identity_of(before)
        continues = "" if known is None else known.id
        config = checked.loaded.config
        now = asyncio.get_running_loop().time
        topology = checked.placement.topology
        return directory_of(config, topology, now, up=self._lock, continues=continues)

    async def _goes_on_without(self, error: ConvoyError) -> bool:
        """Leave out machines that cannot be reached, if the user wants that and the run can do
        without them.

        A machine that fell silent is not tried again: its host has not answered for the longest
        time that a link may be silent.
        """
        absent = sorted({error.machine} if isinstance(error, Absent) else error.silent)
        if not self._reachable or not absent:
            return False
        names = " and ".join(f"machine '{name}'" for name in absent)
        try:
            self._checked = await asyncio.to_thread(without, self._checked, absent)  # it plans
        except ConfigError as why:
            self._console.warn(f"the run waits for {names}: {why.problems[0]}")
            return False
        self._console.say(f"{RESTART:<10} goes on without {names}")
        return True

    async def _ends_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return False
        return True

    # -- requests of clients

    async def scale(self, wish: Scale) -> Scaled:
        """Let the current run save and end, and resume with other workers or on other machines.
        Raises ConvoyError, with a text for people, if that is impossible. The current run then goes
        on."""
        if self._scaling or self._next is not None:
            raise ConvoyError("the run is being scaled already: ask again when it has begun")
        if wish.leaving:
            wish = self._without_leaving(wish.leaving)
        self._scaling = True
        try:
            checked = await asyncio.to_thread(scaled, self._checked, self._whole, wish)
            found = self._prepared(checked, wish)
            try:
                saved = await self._handed_over()
            except BaseException:
                await self._drop(found)
                raise
            # the current run ends from here on: no line may fail or wait before `_next` is set
            found.fields.update(at=saved.at, after=self._run.directory.name)
            self._next = found
            self._was_scaled = True
        finally:
            self._scaling = False
        for warning in checked.warnings:
            self._console.warn(warning)
        return Scaled(run=found.directory.path.name, at=saved.at, warnings=checked.warnings)

    def _prepared(self, checked: Checked, wish: Scale) -> Next:
        """Return the run that will follow, after every check that could refuse it."""
        machines = {"without": ", ".join(wish.without), "with": ", ".join(wish.including)}
        wished = {"workers": wish.workers, "groups": wish.groups, **machines}
        fields = {key: said for key, said in wished.items() if said}
        directory = self._directory_of(checked, self._run.directory)
        return Next(checked, directory, SCALED, fields, other=bool(fields), wish=wish)

    def _without_leaving(self, machine: str) -> Scale:
        """Return the change that follows when a machine was told to go. Raises ConvoyError if the
        run cannot go on."""
        if self._reachable:
            return Scale(without=(machine,))
        if self._restarts.most:
            return Scale()  # the next run waits until the machine, or a substitute, is there
        raise ConvoyError(
            "recovery.machines is 'all' and recovery.restarts 0: the run ends with the machine"
        )

    async def _handed_over(self) -> HandedOver:
        lead = self._run.placement.topology.lead
        try:
            return await self._run.ask(lead, HandOver(), HandedOver)
        except Refused as refused:
            text = str(refused).partition(f" of {SUPERVISOR}: ")[2] or str(refused)
            raise ConvoyError(text.removeprefix("bad_value: ")) from None

    # -- the interface of a Run, for signals and for `up`

    @property
    def summary(self) -> str:
        """The summary line of the last run."""
        return self._run.summary

    @property
    def directory(self) -> Path:
        """The run directory of the last run."""
        return self._run.directory

    @property
    def has_begun(self) -> bool:
        """Whether all actors of the current run have begun."""
        return self._run.has_begun

    async def wind_down(self, reason: str = "asked to") -> None:
        """Bring the current run to a good end. No run follows it."""
        self._over.set()
        await self._run.wind_down(reason)

    async def end_now(self) -> None:
        """End the current run at once. No run follows it."""
        self._over.set()
        await self._run.end_now()

    async def save(self) -> None:
        """Ask the lead actor of the current run to write a checkpoint and go on."""
        await self._run.save()
