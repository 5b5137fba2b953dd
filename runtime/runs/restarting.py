"""A run that survives: when a process or a machine of it dies, it begins anew where its program says that it goes on.

    run 1 -> RoleDied -> (its program: where it goes on) -> run 2 -> ... -> a good end, or too many restarts

Each is a whole run with a run directory of its own. To signals they are one.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from runtime.cluster.launcher import Early
from runtime.cluster.warnings import kept_warnings
from runtime.errors import Absent, ConfigError, ConvoyError
from runtime.plan.choice import Chosen
from runtime.plan.program import checked as planned
from runtime.plan.topology import SUPERVISOR
from runtime.report.console import RunConsole
from runtime.report.rundir import RunDirectory
from runtime.runs.checking import Checked, placed
from runtime.runs.choosing import settled
from runtime.runs.restarts import Restart, Restarts
from runtime.runs.run import Run, directory_of

RESTART = "restart"  # the event
AS_BEFORE = "resumes    what the run before did: that left no checkpoint"


class Restarting:
    """A run and those that follow it, shown on `console`. `early` is for the first. `directory`: that of the first, if
    there is one already."""

    def __init__(
        self, checked: Checked, console: RunConsole, early: Early | None, directory: RunDirectory | None
    ) -> None:
        self._checked, self._console = checked, console
        recovery = checked.loaded.config.recovery
        self._restarts = Restarts(recovery.restarts, recovery.window_seconds, recovery.backoff_seconds)
        self._reachable = recovery.machines == "reachable"
        self._before = 0  # runs that have ended
        self._run = self._made(early, directory)
        self._over = asyncio.Event()  # somebody wants the end

    def __repr__(self) -> str:
        return f"<{self._restarts!r}: {self._run!r}>"

    async def ended(self) -> ConvoyError | None:
        """Wait for the end of the last; what ended it."""
        while True:
            error = await self._seen_through()
            if error is None or self._over.is_set() or self._run.asked_to_end:
                return error
            restart = self._restarts.after(error, asyncio.get_running_loop().time(), began=self._run.has_begun)
            if restart is None:
                if self._restarts.why_not:
                    self._console.warn(self._restarts.why_not)
                return error
            if await self._goes_on_without(error):
                restart = Restart(0.0, restart.text)
            if restart.seconds:
                self._console.say(f"restart    {restart.text}, in {restart.seconds:g} s")
                if await self._ends_within(restart.seconds):
                    return error
            self._checked, told = await asyncio.to_thread(goes_on, self._checked, self._run.directory)
            if self._over.is_set():
                return error
            directory = directory_of(self._checked.loaded.config, asyncio.get_running_loop().time)
            fields = {"count": restart.text, "after": self._run.directory.name}
            directory.event(SUPERVISOR, RESTART, {**fields, "from": told})
            self._console.open()
            self._console.event(SUPERVISOR, RESTART, fields)
            for line in told:
                self._console.say(line)
            self._before += 1
            self._run = self._made(None, directory)

    def _made(self, early: Early | None, directory: RunDirectory | None) -> Run:
        checked, console = self._checked, self._console
        config, options = checked.loaded.config, checked.loaded.options
        return Run(
            checked.placement,
            config,
            options=options,
            console=lambda: console,
            early=early,
            directory=directory,
            restarts=self._before,
        )

    async def _goes_on_without(self, error: ConvoyError) -> bool:
        """Leave out a machine that cannot take part, if that is wanted and possible."""
        if self._reachable and isinstance(error, Absent):
            try:
                self._checked = await asyncio.to_thread(without, self._checked, error.machine)  # it plans
            except ConfigError as why:
                self._console.warn(f"machine '{error.machine}' is waited for: {why.problems[0]}")
            else:
                self._console.say(f"{RESTART:<10} goes on without machine '{error.machine}'")
                return True
        return False

    async def _seen_through(self) -> ConvoyError | None:
        await self._run.start()
        self._console.say(f"run directory {self._run.directory}")
        if self._run.metrics_url:
            self._console.say(f"metrics    {self._run.metrics_url} lists every process")
        if self._run.report_url:
            self._console.say(f"report     {self._run.report_url} shows the run in a browser")
        return await self._run.ended()

    async def _ends_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return False
        return True

    # -- what is left, and what signals do to a run

    @property
    def summary(self) -> str:
        """See Run.summary: of the last."""
        return self._run.summary

    @property
    def has_begun(self) -> bool:
        """See Run.has_begun: of the present one."""
        return self._run.has_begun

    async def wind_down(self, reason: str = "asked to") -> None:
        """See Run.wind_down. None follows."""
        self._over.set()
        await self._run.wind_down(reason)

    async def end_now(self) -> None:
        """See Run.end_now. None follows."""
        self._over.set()
        await self._run.end_now()

    async def save(self) -> None:
        """See Run.save."""
        await self._run.save()


def without(checked: Checked, machine: str) -> Checked:
    """The same on the other machines. ConfigError if it cannot do without this one."""
    config, loaded = checked.loaded.config, checked.loaded
    others = tuple(one for one in config.machine if one.name != machine)
    if not others:
        raise ConfigError(["it is the only one"])
    config = config.model_copy(update={"machine": others})
    try:
        with kept_warnings():
            placement = placed(planned(loaded.program.plan(config, loaded.options)), config)
    except ValueError as error:  # a [[process]] or placement.spread names it
        raise ConfigError([f"cluster.toml keeps a place there: {error}"]) from None
    return dataclasses.replace(checked, loaded=dataclasses.replace(loaded, config=config), placement=placement)


def goes_on(checked: Checked, directory: Path) -> tuple[Checked, list[str]]:
    """What begins where the run in this directory has come to; a line for where that is, and one for each checkpoint
    that was skipped. Before its first checkpoint that is where it began itself."""
    config, options, program = checked.loaded.config, checked.loaded.options, checked.loaded.program
    with kept_warnings():  # they were told when it was planned first
        try:
            options, told = program.resumed(config, options, directory)
        except ConfigError:
            return checked, [AS_BEFORE]
        topology = planned(program.plan(config, options))
    return settled(checked, Chosen(options, topology, (RESTART, {}))), told
