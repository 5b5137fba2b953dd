"""`up --resume`: the search for the checkpoint that the run resumes.

`train.resume` is then set to that checkpoint, and the planner checks it like one that the user
named.
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
from roles.options import AUTO, Options, Train
from roles.planning.auto_settings import AutoSettings, named, sized
from roles.planning.compensating import as_it_was
from roles.planning.contents import Contents
from roles.planning.measured_runs import options_of_run
from roles.planning.planner import ANY, plan, with_any_preset
from roles.planning.strategies import preset_called
from runtime.config.sections import ClusterConfig
from runtime.counting import counted
from runtime.errors import ConfigError
from runtime.plan.run_names import names_of
from runtime.plan.run_plan import SAID
from runtime.reasons import reason
from runtime.records.runs import run_directory, runs_named
from runtime.regular import is_file


def resumed(config: ClusterConfig, options: Options, run: Path | None) -> tuple[Options, list[str]]:
    """The options of a run that resumes the newest checkpoint of `run`, or, if that is None, of the
    runs that this cluster.toml has started; and lines to print: one for the checkpoint, and one for
    each run or file that was skipped.

    `run` may be a file: the state that a run that died had in memory. Raises ConfigError if no
    checkpoint is found, or if cluster.toml has other mistakes.
    """
    if run is not None and is_file(run):
        return _in_memory(config, options, run)
    search = _Search(config, options, named=run is not None)
    runs = [search.located(run)] if run is not None else search.runs()
    found, skipped = newest(runs, search.wrong_run, search.wrong_file)
    if found is None:
        where = f"{runs[0]}" if run is not None else search.looked_at(len(runs))
        raise ConfigError([f"--resume: found no checkpoint to resume in {where}", *skipped])
    train, told = as_scaled(options.train, found.parent)
    train = train.model_copy(update={"resume": str(found.absolute())})
    train, more = search.with_momentum(train, found)
    train = as_tuned(train, config, found.parent)
    lines = [*skipped, search.taken(found), *told, *more]
    return options.model_copy(update={"train": train}), lines


def _in_memory(config: ClusterConfig, options: Options, file: Path) -> tuple[Options, list[str]]:
    """The options of a run that resumes the state that another run had in memory. Raises
    ConfigError if the file cannot be read."""
    try:
        facts = checkpoint.metadata(file)
        iteration, _ = place_in(str(file), facts)
    except NetError as error:
        raise ConfigError(error.problems) from None
    kept = kept_of(facts)
    whose = kept.by if kept is not None else "an actor"
    train = options.train.model_copy(update={"resume": str(file)})
    train = as_tuned(train, config, Path(kept.run)) if kept is not None else train
    return options.model_copy(update={"train": train}), [
        f"resumes    the state that {whose} had in memory: iteration {iteration}"
    ]


def as_tuned(train: Train, config: ClusterConfig, run: Path) -> Train:
    """The same [train] section, with a tuner that begins with the settings that the resumed run had
    found for its "auto" keys. Nothing changes if cluster.toml names another start."""
    base = config.raw.base
    name = train.strategy.preset
    preset = preset_called(ANY if name == AUTO else name)  # every preset would start alike
    return AutoSettings(train, preset, base).going_on(run)


def as_scaled(train: Train, run: Path) -> tuple[Train, list[str]]:
    """The section with as many workers and groups as the resumed run had after it was scaled, and a
    line that reports this.

    A number changes only if cluster.toml has the same number as when that run began.
    """
    said = options_of_run(run, SAID)
    theirs = options_of_run(run)
    if said is None or theirs is None:
        return train, []
    strategy = train.strategy
    before = said.train.strategy
    after = theirs.train.strategy
    changed = {
        key: getattr(after, key)
        for key in ("workers", "groups")
        if getattr(strategy, key) == getattr(before, key) != getattr(after, key)
    }
    if not changed:
        return train, []
    now = ", ".join(
        (f"{value} {key}, where cluster.toml says {getattr(strategy, key)}")
        for key, value in changed.items()
    )
    if strategy.preset == AUTO:  # the number of groups belongs to the preset that was scaled
        train = named(train, after.preset, preset_called(after.preset))
    return sized(train, changed), [f"scaled     as {run.name} was: {now}"]


class _Search:
    """The runs and checkpoints that fit a cluster.toml. `named`: the user named the run, so it may
    have had another preset."""

    def __init__(self, config: ClusterConfig, options: Options, *, named: bool) -> None:
        self.directory = Path(config.run.directory)
        self._train = options.train
        self._named = named
        plain = options.model_copy(
            update={"train": options.train.model_copy(update={"resume": None})}
        )
        # other mistakes are reported as always
        topology = plan(config, with_any_preset(plain), tell=False, resuming=True)
        self._names = names_of(config, topology)
        (lead,) = (actor.options for actor in topology.actors if actor.name == topology.lead)
        self._job = dataclasses.replace(lead.job, kernels="numpy")
        values = {key: value for key, value in lead.job.solver_values.items() if key != "momentum"}
        self._plain = dataclasses.replace(lead.job, solver_values=values)
        with told():
            self._net = self._job.build(
                TRAIN, "all", self._job.shapes(TRAIN, self._job.source(TRAIN))
            )

    @property
    def _preset(self) -> str:
        return self._train.strategy.preset

    def runs(self) -> list[Path]:
        """The directories of the runs that this cluster.toml has started, by their names, the
        newest first. Raises ConfigError if the folder cannot be read."""
        try:
            return [known.directory for known in reversed(runs_named(self.directory, *self._names))]
        except OSError as error:
            raise ConfigError([f"--resume: {self.directory}: {reason(error)}"]) from None

    def looked_at(self, count: int) -> str:
        """The runs among which no checkpoint was found, and the way to name another run."""
        names = " or ".join(f"'{name}'" for name in self._names)
        return (
            f"{self.directory}, among {counted(count, 'run')} with the name {names}; "
            "--resume NAME takes a run of another name"
        )

    def located(self, run: Path) -> Path:
        """The directory of a run, from its path, from its folder in `run.directory`, or from its
        name, which stands for its newest run. Raises ConfigError if no run is found."""
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
        """The reason to skip this run; "" if its checkpoints may be resumed."""
        try:
            theirs = options_of_run(run)
        except ConfigError as error:
            return f"its config.toml: {error.problems[0]}"
        if theirs is None:
            return "it is not a run directory: it has no config.toml and events.jsonl"
        before = theirs.train.strategy.preset
        if self._named or before == self._preset or AUTO in (before, self._preset):
            return ""
        return (
            f"it had preset '{before}', this one has '{self._preset}': to resume it anyway, "
            f"use --resume {run}"
        )

    def wrong_file(self, file: Path) -> str:
        """The reason to skip this checkpoint; "" if it fits."""
        try:
            Contents(dataclasses.replace(self._job, resume=str(file))).of_checkpoint(self._net)
        except NetError as error:
            return "; ".join(text.removeprefix(f"{file}: ") for text in error.problems[:2])
        return ""

    def with_momentum(self, train: Train, file: Path) -> tuple[Train, list[str]]:
        """The section with the momentum that the run of this checkpoint had; see `as_it_was`."""
        theirs = options_of_run(file.parent)
        if train.strategy.preset == AUTO or theirs is None:
            return train, []
        facts = checkpoint.verify(file)
        return as_it_was(train, theirs.train, self._plain.solver_spec, facts, file.parent.name)

    def taken(self, file: Path) -> str:
        """The line that reports the chosen checkpoint."""
        iteration, _ = place_in(str(file), checkpoint.verify(file))
        theirs = options_of_run(file.parent)
        before = theirs.train.strategy.preset if theirs is not None else self._preset
        other = f", of a run with preset '{before}'" if before != self._preset else ""
        instead = (
            (f", in place of train.resume = '{self._train.resume}'") if self._train.resume else ""
        )
        return f"resumes    {file}: iteration {iteration}{other}{instead}"
