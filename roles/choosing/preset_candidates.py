"""The presets that could stand in place of "auto": they compute the same as `single`, and can train
this net here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from roles import registry
from roles.base.shapes import Shapes
from roles.forecasting.plan_forecast import plainly
from roles.forecasting.regrouped import regrouped
from roles.learning.job import Job
from roles.options import AUTO, SOLVER, Options, Strategy, Train, Tuning, is_auto
from roles.planning.auto_settings import COMPARES, OF_CHOICE, AutoSettings, named, sized
from roles.planning.planner import plan
from roles.planning.refusals import Problem
from roles.planning.strategies import preset_called
from roles.presets.request import SHAPE, Preset
from roles.tuning.choices import counts_up_to
from roles.tuning.momentum import compensated
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.host_map import several
from runtime.plan.placement import place
from runtime.plan.topology import Placement, Topology

REFERENCE = "single"
OF_ONE_PRESET = (SHAPE | {"options"}) - {"workers"}
STATISTICS = (
    "layer '{}' takes its statistics from the rows of a worker, not of the batch; with "
    "reproducible = true all agree"
)


@dataclass(frozen=True)
class Candidate:
    """A preset in place of "auto": the options that name it, and its placed topology."""

    name: str
    options: Options
    placement: Placement

    @property
    def topology(self) -> Topology:
        """The actors and links of the preset."""
        return self.placement.topology

    @property
    def regroups(self) -> bool:
        """True if the tuner will choose the number of groups."""
        return is_auto(self.options.train.strategy.groups)

    @cached_property
    def job(self) -> Job:
        """The job of the actors that compute."""
        found: Job = next(
            actor.options.job for actor in self.topology.actors if hasattr(actor.options, "job")
        )
        return found

    @property
    def first(self) -> int:
        """The iteration at which the run begins."""
        timetables = (
            actor.options.timetable
            for actor in self.topology.actors
            if actor.name == self.topology.lead
        )
        return int(next(timetables).first)

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of groups that the run may have."""
        strategy = self.options.train.strategy
        if self.regroups:
            return counts_up_to(strategy.workers)
        return (preset_called(self.name).groups(strategy),)

    def in_groups(self, groups: int) -> Placement:
        """The placement with one of these numbers of groups, as the run would form them."""
        if not self.regroups:
            return self.placement
        topology = regrouped(self.topology, self.options.train.strategy.workers, groups)
        return dataclasses.replace(self.placement, topology=topology)


def mistakes(train: Train) -> Iterator[Problem]:
    """Settings that no preset could choose, and keys that must not be set with preset = "auto",
    since not every preset uses them."""
    yield from AutoSettings(train, preset_called(REFERENCE), Path()).refused()
    for key in (key for key in Strategy.model_fields if key in OF_ONE_PRESET):
        found = getattr(train.strategy, key)
        if key == "groups" and is_auto(found):
            continue
        if found != Strategy.model_fields[key].default:
            said = str(found).lower() if isinstance(found, bool) else repr(found)
            text = (
                f"found {said}, but preset = 'auto' chooses among presets that do not all "
                "use this key: name a preset"
            )
            yield text, ("strategy", key)
    yield from _of_runs(train)


def _of_runs(train: Train) -> Iterator[Problem]:
    """Find runs to learn from without effect, and a target without runs."""
    found = {key: getattr(train.tuning, key) for key in OF_CHOICE}
    for key, value in found.items():
        missing = next(other for other in OF_CHOICE if other != key)
        if value and not is_auto(train.strategy.groups):
            yield f"found {value!r}, but {COMPARES}", ("tuning", key)
        elif value and not found[missing]:
            yield f"found {value!r}, but no {missing}: both are needed", ("tuning", key)


def candidates(config: ClusterConfig, options: Options) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates in the order of the registry; and each other preset that computes the same as
    `single`, with the reason why it is left out.

    If no candidate is left, raises ConfigError with the mistakes of `single`.
    """
    found: list[Candidate] = []
    left: dict[str, str] = {}
    refused: dict[str, ConfigError] = {}
    for name in registry.PRESETS.names():
        try:
            preset = preset_called(name)
            if name != AUTO and preset.equals_single:
                candidate = candidate_of(config, options, name, preset)
                if (why := _unlike(candidate, preset) or _twin(candidate, found)) is not None:
                    left[name] = why
                else:
                    found.append(candidate)
        except ConfigError as error:
            refused[name], left[name] = error, _in_a_line(error)
    if not found:
        raise refused.get(REFERENCE) or next(iter(refused.values()))
    same = {} if several(config) else _with_one_group(config, found)
    return [candidate for candidate in found if candidate.name not in same], left | same


def as_trial(candidate: Candidate, groups: int) -> Options:
    """The options of a candidate without the settings that are chosen while a run goes on, in this
    number of groups.

    A trial shows how long an iteration takes, not what it is worth. So several groups get less
    momentum, such that they do not diverge.
    """
    train = candidate.options.train
    begun = {"base_lr": None, "momentum": SOLVER, "batch": None}
    values: dict[str, object] = {
        key: value for key, value in begun.items() if is_auto(getattr(train, key))
    }
    if candidate.regroups:
        values["strategy"] = train.strategy.model_copy(update={"groups": groups, "live": True})
        if groups > 1 and (momentum := candidate.job.solver_spec.momentum):
            values["momentum"] = compensated(momentum, groups - 1)
    return _with(candidate.options, tuning=Tuning(), **values) if values else candidate.options


def candidate_of(config: ClusterConfig, options: Options, name: str, preset: Preset) -> Candidate:
    """The preset of this name in place of "auto". Raises ConfigError if it cannot train this."""
    chosen = options.model_copy(update={"train": named(options.train, name, preset)})
    return Candidate(name, chosen, place(plan(config, chosen, tell=False), config))


def _with(options: Options, **keys: object) -> Options:
    return options.model_copy(update={"train": options.train.model_copy(update=keys)})


def _unlike(candidate: Candidate, preset: Preset) -> str | None:
    """The reason why the preset computes something else than `single` with this net; None if it
    computes the same."""
    if preset.alone or candidate.options.train.strategy.reproducible:
        return None
    shapes = Shapes(plainly(candidate.topology))
    job: Job = next(options.job for options in shapes.having("job").values())
    for layer, params in shapes.net(job, "all").params.items():
        if any(param.keep is not None and param.keep < 1 for param in params):
            return STATISTICS.format(layer)
    return None


def _twin(candidate: Candidate, found: list[Candidate]) -> str | None:
    """The reason to leave out a candidate that has the topology of an earlier one."""
    twin = next((other.name for other in found if other.topology == candidate.topology), None)
    alike = "it is" if candidate.regroups else "with one group it is"
    return None if twin is None else f"{alike} '{twin}'"


def _with_one_group(config: ClusterConfig, found: Iterable[Candidate]) -> dict[str, str]:
    """The candidates with one group that another candidate also has among its numbers of groups,
    with the reason to leave them out.

    On several hosts they differ: groups that can be changed do not add up on each host first.
    """
    left: dict[str, str] = {}
    for one in (candidate for candidate in found if candidate.regroups):
        train = sized(one.options.train, {"groups": 1})
        fixed = plan(config, one.options.model_copy(update={"train": train}), tell=False)
        for other in found:
            if not other.regroups and other.topology == fixed:
                left[other.name] = f"it is '{one.name}' with one group"
    return left


def _in_a_line(error: ConfigError) -> str:
    first, *more = error.problems
    return f"{first} (and {len(more)} more)" if more else first
