"""The predictions of time that `plan` shows: for the configured run and for its alternatives, 1, 2,
4, ... groups or other presets. With a target, also the time until it is reached.

Times come from a profile, or from a kind of machine to rent and the FLOPs of the layers. Iterations
to the target come from runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from roles.forecasting.plan_forecast import forecast
from roles.forecasting.prediction import predict
from roles.forecasting.prediction_basis import PredictionInputs
from roles.forecasting.prediction_inputs import basis_of
from roles.options import Options
from roles.planning.alternatives import Candidate, by_groups, by_preset, changed
from roles.planning.auto_settings import BATCH, GROUPS, AutoSettings
from roles.planning.learnt import Learnt, Target, learnt, rates_of
from roles.planning.measured_runs import measured, options_of_run
from roles.planning.paying_machines import worth_of
from roles.planning.settled_shares import settled
from roles.planning.strategies import manner_of, preset_called
from roles.planning.workers_on_cpus import shared_with_cpus
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.placement import place
from runtime.plan.prospects import Needed, Prospect, Prospects, Wanted, hourly
from runtime.plan.rented import on_rented
from runtime.plan.topology import Placement, Topology
from runtime.records.run_identity import CONFIG
from runtime.typed_name import shown

HOW = (
    f"To predict times: {shown('time --profile FILE')} measures the array work on this "
    "machine, and "
    "`--profile FILE` predicts from it; `--machine NAME` predicts for a kind of machine in the "
    "catalogue"
)
BEGINS = "the choices of the tuner: the run starts with the settings of this plan, and {} 'auto'"
SEVERAL = (
    "the number of rows of each piece of work: the run of this profile tried several numbers of "
    "groups or several batches, "
    "and all of its work is counted with the rows of its first setting"
)
UNTIMED = "the first iterations, tests and checkpoints"
NO_TARGET = (
    "the number of iterations to a target: with more groups gradients are older, and "
    "it may take more; "
)
NO_TARGET += "--target and --learnt predict it from runs"
SEEDS = (
    "chance: with other first parameters or another order of the groups, a run takes more or "
    "fewer iterations"
)
FREE = "the cost: not every machine has a price_per_hour"
LINEAR = (
    "~ lies between the iterations of two runs with fewer and with more groups, linear "
    "in the logarithm of groups"
)


def prospects(
    config: ClusterConfig, options: Options, placement: Placement, wanted: Wanted
) -> Prospects:
    """Make the predictions for a plan. Raises ConfigError for a wrong profile, kind of machine, run
    file or target.

    If `wanted` names a kind of machine, the plan is laid out and placed on such machines, as
    `placement` may be already.
    """
    chosen_by_tuner = list(_chosen_by_tuner(_tuned(options)))
    options = _as_begun(options)
    written = config
    if wanted.machine:
        config, placement = _on_rented(config, lambda there: changed(there, options))
    run, profiled = _profiled(written, options, wanted)
    basis = basis_of(config, placement, wanted, profiled)
    if basis is None:
        return Prospects(notes=(HOW,))
    strategy = options.train.strategy
    topology = placement.topology
    told = {name: value for actor in topology.actors for name, value in vars(actor.options).items()}
    table = told["timetable"]
    job = told["job"]
    target = Target.of(wanted.target) if wanted.target else None
    seen = None if target is None else learnt(target, wanted.learnt, options, job, table.first)
    every = list(enumerate(by_preset(strategy, topology), 1)) if wanted.presets else []
    every = every or [(one.groups, one) for one in by_groups(strategy, topology)]
    asked = _Asked(written, options, basis, seen, wanted)
    if run is not None and {GROUPS, BATCH} & {*_tuned(run).keys}:
        asked.notes[SEVERAL] = None
    choices = list(asked.choices(every))
    if not choices:
        raise ConfigError(asked.refused)
    groups = "groups" if "groups" in preset_called(strategy.preset).uses else ""
    return Prospects(
        basis=basis.name,
        choices=tuple(
            sorted(choices, key=lambda choice: choice.seconds) if wanted.presets else choices
        ),
        varies="preset" if wanted.presets else groups,
        chosen=next(number for number, one in every if one.known),
        step="iteration",
        items="images",
        per_step=job.batch,
        steps=table.last - table.first,
        prices=basis.prices(placement),
        notes=(
            *asked.notes,
            UNTIMED,
            *(_of_target(choices) if seen else (NO_TARGET,)),
            *chosen_by_tuner,
        ),
        remarks=(*_worth(placement, basis, wanted), *asked.remarks),
        measured=tuple(measured(wanted.measured, options, job.batch)),
        kind=wanted.machine,
        doubled=not wanted.presets,
        refused=tuple(asked.refused),
        target="" if target is None else str(target),
        learnt=() if seen is None else seen.rows,
    )


def _worth(placement: Placement, basis: PredictionInputs, wanted: Wanted) -> tuple[str, ...]:
    return worth_of(placement, basis) if wanted.profile or wanted.machine else ()


class _Asked:
    """The candidates, one after the other. `notes`: what is not known of them, in the order in
    which it was found."""

    def __init__(
        self,
        config: ClusterConfig,
        options: Options,
        basis: PredictionInputs,
        seen: Learnt | None,
        wanted: Wanted,
    ) -> None:
        self._config = config
        self._options = options
        self._basis = basis
        self._seen = seen
        self._presets = wanted.presets
        self._rented = bool(wanted.machine)
        self._refused: dict[str, list[str]] = {}  # reason -> names of candidates
        self.notes = dict.fromkeys(basis.notes)
        self.remarks = list[str]()  # on the configured run

    def choices(self, candidates: Iterable[tuple[int, Candidate]]) -> Iterator[Prospect]:
        """Predict all candidates that are possible.

        A basis that does not fit a candidate raises ConfigError; among presets, the candidate is
        refused instead.
        """
        for number, one in candidates:
            try:
                placed = self._placed(one)
            except ConfigError as error:
                self._refuse(one, error)
                continue
            try:
                yield self._choice(number, one, placed)
            except ConfigError as error:
                if not self._presets:
                    raise
                self._refuse(one, error)

    def _placed(self, one: Candidate) -> Placement:
        return self._on_machines(lambda there: one.topology(there, self._options))

    def _laid(self, options: Options) -> Placement:
        """The run with other options, on the same machines. Raises ConfigError."""
        return self._on_machines(lambda there: changed(there, options))

    def _on_machines(self, lay: Callable[[ClusterConfig], Topology]) -> Placement:
        if self._rented:
            return _on_rented(self._config, lay)[1]
        return place(lay(self._config), self._config)

    def _refuse(self, one: Candidate, error: ConfigError) -> None:
        for problem in error.problems:
            self._refused.setdefault(problem, []).append(one.name)

    @property
    def refused(self) -> list[str]:
        """One line for each reason: candidates that are impossible, and candidates whose times are
        not known."""
        return [f"{'; '.join(names)}: {why}" for why, names in self._refused.items()]

    def _choice(self, number: int, one: Candidate, placed: Placement) -> Prospect:
        basis = self._basis
        times = basis.times(placed)
        placed = settled(placed, times)
        topology = placed.topology
        one = one.sized(topology)
        found = predict(topology, times, basis.network(placed), placed.process_of())
        self.notes |= dict.fromkeys(found.notes)
        if one.known:
            of_cpus = shared_with_cpus(placed, self._options, basis, found.seconds, self._laid)
            self.remarks += of_cpus
        return Prospect(
            one.name,
            number,
            found.seconds,
            found.use,
            found.bottleneck,
            self._needed(one, topology),
            hourly(basis.prices(placed)),
            self._memory(placed) if self._presets else None,
        )

    def _memory(self, placed: Placement) -> int:
        """Bytes on the machine that holds most."""
        home = placed.process_of()
        machines = self._basis.machines(placed)
        held = Counter[str]()
        for actor, parts in forecast(placed.topology).memory.items():
            held[machines[home[actor]]] += sum(parts.values())
        return max(held.values(), default=0)

    def _needed(self, one: Candidate, topology: Topology) -> Needed:
        """The iterations to the target. Notes rates of the runs that differ from those of this
        candidate."""
        if self._seen is None:
            return Needed()
        manner = manner_of(one.strategy, one.groups)
        best = self._seen.efficiency.best(manner, one.groups)
        (lead,) = (actor.options for actor in topology.actors if actor.name == topology.lead)
        rates = rates_of(lead.job.solver_spec)
        if best is not None and (best.momentum, best.base_lr) != rates:
            momentum, rate = rates
            text = (
                f"{one.name}: the iterations are those of a run with momentum "
                f"{best.momentum:g} and base_lr"
            )
            text += f" {best.base_lr:g}; this plan has {momentum:g} and {rate:g}"
            self.notes.setdefault(text)
        return self._seen.efficiency.needed(manner, one.groups)


def _on_rented(
    config: ClusterConfig, lay: Callable[[ClusterConfig], Topology]
) -> tuple[ClusterConfig, Placement]:
    there, topology = on_rented(config, lay)
    return there, place(topology, there)


def _of_target(choices: Sequence[Prospect]) -> Iterator[str]:
    yield SEEDS
    if all(choice.hourly is None for choice in choices):
        yield FREE
    if any(choice.needed.steps is not None and not choice.needed.seen for choice in choices):
        yield LINEAR


def _chosen_by_tuner(tuned: AutoSettings) -> Iterator[str]:
    """A note on settings that the tuner chooses and that an iteration's time depends on."""
    keys = [f"train.{'.'.join(keys)}" for keys in (GROUPS, BATCH) if keys in tuned.keys]
    if keys:
        yield BEGINS.format(f"{' and '.join(keys)} {'is' if len(keys) == 1 else 'are'}")


def _as_begun(options: Options) -> Options:
    """The options with the first value of each "auto", since the choice is not known yet."""
    return options.model_copy(update={"train": _tuned(options).begun_with})


def _tuned(options: Options) -> AutoSettings:
    return AutoSettings(options.train, preset_called(options.train.strategy.preset), Path())


def _profiled(
    config: ClusterConfig, options: Options, wanted: Wanted
) -> tuple[Options | None, Topology | None]:
    """The options and the topology of the run that left the profile, if a run did."""
    folder = None if wanted.profile is None else wanted.profile.parent
    run = None if folder is None else options_of_run(folder)
    if folder is None or run is None:
        return None, None
    return run, _as_run(config, options, run, folder)


def _as_run(config: ClusterConfig, options: Options, run: Options, folder: Path) -> Topology:
    """The topology of the run in `folder`, which left a profile: the same net and data, with that
    run's strategy and batch. Raises ConfigError that names the run's configuration if it cannot be
    laid out."""
    run = _as_begun(run)
    try:
        return changed(config, options, strategy=run.train.strategy, batch=run.train.batch)
    except ConfigError as error:
        # a mistake has the place of the same key in the plan's file
        told = [line.partition(": ")[2] for line in error.problems]
        raise ConfigError([f"--profile: {folder / CONFIG}: {line}" for line in told]) from None
