"""The presets that could stand in place of "auto": they compute the same as `single`, and can train
this net here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roles import registry
from roles.base.shapes import Shapes
from roles.forecasting.plan_forecast import plainly
from roles.learning.job import Job
from roles.options import AUTO, SOLVER, Options, Strategy, Train, Tuning
from roles.planning.planner import plan
from roles.planning.refusals import Problem
from roles.planning.strategies import preset_called
from roles.presets.request import SHAPE, Preset
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
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


def mistakes(train: Train) -> Iterator[Problem]:
    """Keys that must not be set with preset = "auto", since not every preset uses them."""
    for key in (key for key in Strategy.model_fields if key in OF_ONE_PRESET):
        found = getattr(train.strategy, key)
        if found != Strategy.model_fields[key].default:
            said = str(found).lower() if isinstance(found, bool) else repr(found)
            text = (
                f"found {said}, but preset = 'auto' chooses among presets that do not all "
                "use this key: name a preset"
            )
            yield text, ("strategy", key)


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
                candidate = _candidate(config, options, name, preset)
                if (why := _unlike(candidate, preset) or _twin(candidate, found)) is not None:
                    left[name] = why
                else:
                    found.append(candidate)
        except ConfigError as error:
            refused[name], left[name] = error, _in_a_line(error)
    if not found:
        raise refused.get(REFERENCE) or next(iter(refused.values()))
    return found, left


def as_trial(options: Options) -> Options:
    """The same options, without the settings that are chosen while a run goes on."""
    train = options.train
    begun = {"base_lr": None, "momentum": SOLVER, "batch": None}
    keys = {key: value for key, value in begun.items() if getattr(train, key) == AUTO}
    return _with(options, tuning=Tuning(), **keys) if keys else options


def _candidate(config: ClusterConfig, options: Options, name: str, preset: Preset) -> Candidate:
    strategy = options.train.strategy
    workers = 1 if preset.alone else strategy.workers
    chosen = _with(
        options, strategy=strategy.model_copy(update={"preset": name, "workers": workers})
    )
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
    return None if twin is None else f"with one group it is '{twin}'"


def _in_a_line(error: ConfigError) -> str:
    first, *more = error.problems
    return f"{first} (and {len(more)} more)" if more else first
