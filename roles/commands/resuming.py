"""`up --resume`: which checkpoint of which run this one goes on from.

`train.resume` is then set to it: what a checkpoint must be, the planner says for both.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from nets import NetError
from nets.files import checkpoint
from roles.checkpoints.newest import newest
from roles.commands.common import told
from roles.learning.resume import kept_of, place_in
from roles.messages import TRAIN
from roles.options import AUTO, Options, Strategy, Train
from roles.planning.auto_settings import AutoSettings
from roles.planning.contents import Contents
from roles.planning.measured_runs import options_of_run
from roles.planning.planner import plan
from roles.planning.strategies import preset_called
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.run_plan import SAID
from runtime.reasons import reason
from runtime.records.runs import run_directory, runs_named


def resumed(config: ClusterConfig, options: Options, run: Path | None) -> tuple[Options, list[str]]:
    """The options of a run that goes on from the newest checkpoint of `run`, or, if that is None,
    of the runs that this cluster.toml has started; and what to tell: a line for it, and one for
    each that was skipped.

    `run` may be a file: what a run that died had in memory. ConfigError if there is none, or
    cluster.toml has other mistakes.
    """
    if run is not None and run.is_file():
        return _in_memory(config, options, run)
    search = _Search(config, options, named=run is not None)
    runs = (
        [search.located(run)] if run is not None else search.runs(config.run.name or config.program)
    )
    found, skipped = newest(runs, search.wrong_run, search.wrong_file)
    if found is None:
        where = (
            f"{runs[0]}"
            if run is not None
            else (f"{search.directory}, among {len(runs)} runs of this name")
        )
        raise ConfigError([f"--resume: found no checkpoint to go on from in {where}", *skipped])
    strategy, told = as_scaled(options.train.strategy, found.parent)
    train = options.train.model_copy(update={"resume": str(found.absolute()), "strategy": strategy})
    train = as_tuned(train, config, found.parent)
    return options.model_copy(update={"train": train}), [*skipped, search.taken(found), *told]


def _in_memory(config: ClusterConfig, options: Options, file: Path) -> tuple[Options, list[str]]:
    """The options of a run that goes on from what another held. ConfigError if it cannot be
    read."""
    try:
        facts = checkpoint.metadata(file)
        iteration, _ = place_in(str(file), facts)
    except NetError as error:
        raise ConfigError(error.problems) from None
    kept = kept_of(facts)
    whose = kept.by if kept is not None else "somebody"
    train = options.train.model_copy(update={"resume": str(file)})
    train = as_tuned(train, config, Path(kept.run)) if kept is not None else train
    return options.model_copy(update={"train": train}), [
        f"resumes    what {whose} had in memory: iteration {iteration}"
    ]


def as_tuned(train: Train, config: ClusterConfig, run: Path) -> Train:
    """What the run before had found out about what is "auto" is where the tuner begins, if nothing
    else is said."""
    if train.strategy.preset == AUTO:  # what can be tuned is not known yet
        return train
    base = config.raw.path.resolve().parent
    return AutoSettings(train, preset_called(train.strategy.preset), base).going_on(run)


def as_scaled(strategy: Strategy, run: Path) -> tuple[Strategy, list[str]]:
    """With as many workers and groups as a run had that was scaled, and a line for that, where
    cluster.toml says what it said when that run began."""
    said = options_of_run(run, SAID)
    theirs = options_of_run(run)
    if said is None or theirs is None:
        return strategy, []
    before = said.train.strategy
    after = theirs.train.strategy
    changed = {
        key: getattr(after, key)
        for key in ("workers", "groups")
        if getattr(strategy, key) == getattr(before, key) != getattr(after, key)
    }
    if not changed:
        return strategy, []
    now = ", ".join(
        (f"{value} {key}, where cluster.toml says {getattr(strategy, key)}")
        for key, value in changed.items()
    )
    return strategy.model_copy(update=changed), [f"scaled     as {run.name} was: {now}"]


class _Search:
    """What fits a cluster.toml. `named`: a person chose the run, which may have had another
    preset."""

    def __init__(self, config: ClusterConfig, options: Options, *, named: bool) -> None:
        self.directory = Path(config.run.directory)
        self._train = options.train
        self._named = named
        plain = options.model_copy(
            update={"train": options.train.model_copy(update={"resume": None})}
        )
        any_preset = preset_called("single") if self._preset == AUTO else None
        # what else is wrong is told as always
        topology = plan(config, plain, any_preset, tell=False)
        (lead,) = (actor.options for actor in topology.actors if actor.name == topology.lead)
        self._job = dataclasses.replace(lead.job, kernels="numpy")
        with told():
            self._net = self._job.build(
                TRAIN, "all", self._job.shapes(TRAIN, self._job.source(TRAIN))
            )

    @property
    def _preset(self) -> str:
        return self._train.strategy.preset

    def runs(self, name: str) -> list[Path]:
        """The directories of the runs of this name, the newest first. ConfigError if the folder
        cannot be read."""
        try:
            return [known.directory for known in reversed(runs_named(self.directory, name))]
        except OSError as error:
            raise ConfigError([f"--resume: {self.directory}: {reason(error)}"]) from None

    def located(self, run: Path) -> Path:
        """A run by its path, by its folder in `run.directory`, or the newest of its name.
        ConfigError if it is none."""
        try:
            found = run_directory(run, self.directory)
        except OSError as error:
            raise ConfigError([f"--resume: {self.directory}: {reason(error)}"]) from None
        if found is not None:
            return found
        expected = (
            f"expected a run directory, as those in {self.directory}, or the name of a run there"
        )
        raise ConfigError([f"--resume {run}: found no such folder, {expected}"])

    def wrong_run(self, run: Path) -> str:
        """Why nothing of this run is taken."""
        try:
            theirs = options_of_run(run)
        except ConfigError as error:
            return f"its config.toml: {error.problems[0]}"
        if theirs is None:
            return "it is no run directory: it has no config.toml and events.jsonl"
        before = theirs.train.strategy.preset
        if self._named or before == self._preset or AUTO in (before, self._preset):
            return ""
        return (
            f"it had preset '{before}', this one has '{self._preset}': to go on from it "
            f"write --resume {run}"
        )

    def wrong_file(self, file: Path) -> str:
        """Why this checkpoint is not taken."""
        try:
            Contents(dataclasses.replace(self._job, resume=str(file))).of_checkpoint(self._net)
        except NetError as error:
            return "; ".join(text.removeprefix(f"{file.name}: ") for text in error.problems[:2])
        return ""

    def taken(self, file: Path) -> str:
        """What is told of the one that is."""
        iteration, _ = place_in(str(file), checkpoint.verify(file))
        theirs = options_of_run(file.parent)
        before = theirs.train.strategy.preset if theirs is not None else self._preset
        other = f", of a run with preset '{before}'" if before != self._preset else ""
        instead = (
            (f", in place of train.resume = '{self._train.resume}'") if self._train.resume else ""
        )
        return f"resumes    {file}: iteration {iteration}{other}{instead}"
