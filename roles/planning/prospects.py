"""What `plan` tells of time: predicted for the configured run and, where a preset has groups, for 1, 2, 4, ... of them.

Times come from a profile, or from a kind of machine that one thinks of renting and the FLOPs of the layers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roles.forecasting.basis import basis_of
from roles.forecasting.prediction import predict
from roles.learning.tree import split
from roles.options import AUTO, Options
from roles.planning.measured import measured, options_of_run
from roles.planning.planner import plan
from roles.planning.strategies import preset_called
from roles.planning.tuned import Tuned
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.placement import place
from runtime.plan.prospects import Prospect, Prospects, Wanted
from runtime.plan.topology import Placement, Topology

HOW = (
    "How long it takes: `python -m runtime time --profile FILE` writes down how long array work takes here, and "
    "`--profile FILE` predicts from it; so does `--machine NAME` for a kind of machine in a catalogue"
)
SEVERAL = (
    "that the run of this profile tried several numbers of groups, and so work on different numbers of rows: all of it "
    "is counted as of one group"
)
ALWAYS = (
    "the first iterations, tests and checkpoints",
    "how many iterations a target takes: with more groups gradients are older, and it may take more",
)


def prospects(config: ClusterConfig, options: Options, placement: Placement, wanted: Wanted) -> Prospects:
    """Predictions for a plan. ConfigError says what is wrong with the profile, the kind of machine or a run's files."""
    options, run = _begun(options), None if wanted.profile is None else options_of_run(wanted.profile.parent)
    basis = basis_of(config, placement, wanted, None if run is None else _as_run(config, options, run))
    if basis is None:
        return Prospects(notes=(HOW,))
    strategy, topology = options.train.strategy, placement.topology
    preset = preset_called(strategy.preset)
    chosen = preset.groups(strategy)
    choices, notes = [], dict.fromkeys(basis.notes)
    said: Any = None if run is None else run.train.strategy.groups
    if said == AUTO:
        notes[SEVERAL] = None
    others = _numbers(strategy.workers, chosen) if "groups" in preset.uses else [chosen]
    for groups in others:
        try:
            here = topology if groups == chosen else _in_groups(config, options, groups)
        except ConfigError as error:
            notes |= dict.fromkeys(f"{groups} groups: {problem}" for problem in error.problems)
            continue
        placed = place(here, config)
        found = predict(here, basis.times(here), basis.network(placed), placed.process_of())
        choices.append(Prospect(_name(strategy.workers, groups), groups, found.seconds, found.use, found.bottleneck))
        notes |= dict.fromkeys(found.notes)
    told = {name: value for actor in topology.actors for name, value in vars(actor.options).items()}
    table, job = told["timetable"], told["job"]
    return Prospects(
        basis=basis.name,
        choices=tuple(choices),
        varies="groups" if "groups" in preset.uses else "",
        chosen=chosen,
        step="iteration",
        items="images",
        per_step=job.batch,
        steps=table.last - table.first,
        prices=basis.prices(placement),
        notes=(*notes, *ALWAYS),
        measured=tuple(measured(wanted.measured, options)),
    )


def _in_groups(config: ClusterConfig, options: Options, groups: int) -> Topology:
    """The same run with another number of groups. What is worth telling was told of the configured one."""
    return _changed(config, options, strategy=options.train.strategy.model_copy(update={"groups": groups}))


def _as_run(config: ClusterConfig, options: Options, run: Options) -> Topology:
    """What a run was that left a profile: the same net and data, its strategy and batch."""
    run = _begun(run)
    return _changed(config, options, strategy=run.train.strategy, batch=run.train.batch)


def _begun(options: Options) -> Options:
    """What is "auto" as the run begins with it: what will be chosen, nobody knows yet."""
    train = options.train
    begun = Tuned(train, preset_called(train.strategy.preset), Path()).begun_with
    return options.model_copy(update={"train": begun})


def _changed(config: ClusterConfig, options: Options, **keys: Any) -> Topology:
    train = options.train.model_copy(update=keys)
    return plan(config, options.model_copy(update={"train": train}), tell=False)


def _numbers(workers: int, chosen: int) -> list[int]:
    """1, 2, 4, ... as many groups as workers, and the configured number."""
    doubled = [1 << power for power in range(workers.bit_length())]
    return sorted({*doubled, workers, chosen})


def _name(workers: int, groups: int) -> str:
    """ "4 groups of 8"."""
    sizes = split(workers, groups)
    of = f"{min(sizes)}" if len({*sizes}) == 1 else f"{min(sizes)} or {max(sizes)}"
    return f"{groups} group{'s'[: groups != 1]} of {of}"
