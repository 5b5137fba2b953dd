"""The sections of [train] that stand for settings of the solver's file: their mistakes, the
settings of the file that they replace, and the schedule and optimizer of a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from nets import (
    OptimizerSettings,
    RateSchedule,
    SolverExtras,
    SolverSpec,
    WeightAverage,
    is_graph,
    load_solver,
    own_solver,
    zoo_names,
)
from roles.learning.job import Job
from roles.options import Train, is_auto
from roles.solver_options import Optimizer, Schedule

Remark = tuple[str, tuple[str, ...]]  # a line, and the keys below [train] that it is about

WARM_UP = ("warmup", "warmup_epochs", "warmup_from")
STEPS = ("at", "at_epochs", "every", "every_epochs")
TAKES = {  # type of a schedule -> its keys, other than those of the warm-up
    "cosine": ("end",),
    "one-cycle": ("end", "shape"),
    "linear": ("end",),
    "step": (*STEPS, "factor"),
    "plateau": ("by", "patience", "min_delta", "factor", "least"),
    "solver": (),
}
DECOUPLED = {"SGD": "SGDW", "Nesterov": "NesterovW", "Adam": "AdamW", "AdamW": "AdamW"}
FIELDS = {  # key of [train.optimizer] -> field of the solver, or number that only cluster.toml has
    "weight_decay": "weight_decay",
    "momentum2": "momentum2",
    "epsilon": "delta",
    "clip_norm": "clip_gradients",
    "trust": "trust",
}
KINDS_OF = {  # key of [train.optimizer] -> the types that take it
    "momentum2": ("Adam", "AdamW", "Muon"),
    "epsilon": ("AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW", "LARS", "Muon"),
    "trust": ("LARS",),
}
# types whose steps have about one length
SAME_RATES = (("SGD", "Nesterov"), ("Adam", "AdamW", "Muon"))
NEED_MOMENTUM = ("Nesterov", "Adam", "AdamW", "LARS", "Muon")
FIRST_SHARE = 0.05  # of the first weights in an average, more than which is hardly meant
CURVE = ("warmup_from", "end", "factor", "shape")  # keys that the schedule takes as they are
TOP = 0.3  # the share of a one-cycle in which the rate rises, as in PyTorch
ONE_CYCLE = {"warmup_from": 0.04, "end": 4e-6}  # PyTorch's div_factor and final_div_factor


def mistakes(train: Train) -> Iterator[Remark]:
    """The mistakes of these sections that show without any file."""
    if train.optimizer is not None:
        for text, key in _of_optimizer(train.optimizer):
            yield text, ("optimizer", key)
    if train.schedule is not None:
        for text, key in _of_schedule(train.schedule):
            yield text, ("schedule", key)


def set_by_recipe(train: Train) -> Iterator[Remark]:
    """The keys that the recipe of [train] sets, in one line."""
    if train.by_recipe:
        values = ", ".join(f"{key} = {_toml(value)}" for key, value in train.by_recipe.items())
        yield f"'{train.recipe}' sets {values}", ("recipe",)


def _toml(value: object) -> str:
    """A value as a person would write it in TOML."""
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def of_open_rate(train: Train) -> Iterator[Remark]:
    """The mistake of a rate that both the tuner and the tests would choose."""
    if is_auto(train.base_lr) and train.schedule is not None and train.schedule.type == "plateau":
        yield "found 'auto', but train.schedule.type 'plateau' changes the rate too", ("base_lr",)


def untaken(train: Train, job: Job) -> Iterator[Remark]:
    """The numbers of [train.optimizer] without a type that the solver's type does not take."""
    said = train.optimizer
    if said is not None and said.type is None:
        solver = _solver_without(train, job)
        for text, key in _not_of(said, solver.type, f"'{solver.type}' of {solver.path.name}"):
            yield text, ("optimizer", key)


def replaced(train: Train, job: Job) -> Iterator[Remark]:
    """A line for a solver that no key names, and one for each setting of the solver's file that
    these sections replace."""
    solver = _solver_without(train, job)
    if train.solver is None and "net" in train.model_fields_set and not own_solver(train.net):
        yield from _default_solver(train, solver)
    if train.optimizer is not None:
        yield from _replaced(train.optimizer, solver)
    said = train.schedule
    policy = solver.proto.lr_policy
    if said is not None and said.type != "solver" and (said.type, policy) != ("plateau", "fixed"):
        text = f"'{said.type}' replaces lr_policy '{policy}' of {solver.path.name}"
        yield text, ("schedule", "type")


def _default_solver(train: Train, solver: SolverSpec) -> Iterator[Remark]:
    """The settings of the digits' solver, for a net that is not the one it is made for."""
    if train.net == type(train).model_fields["net"].default:
        return
    own = f"{train.net}_solver"
    hint = f"; the zoo has '{own}'" if own in zoo_names(solvers=True) else ""
    name = solver.path.stem
    yield f"train.solver is not given, so the settings of '{name}' count{hint}", ("net",)


def doubts(train: Train, job: Job) -> Iterator[Remark]:
    """A warning for each setting of these sections that is hardly meant."""
    has_weights = train.weights or train.resume or is_graph(Path(train.net))
    if train.recipe == "finetune" and not has_weights:
        text = "'finetune' goes on from trained weights, but train.weights is not given"
        yield text, ("recipe",)
    solver = _solver_without(train, job)
    file = solver.path.name
    kind = train.optimizer.type if train.optimizer is not None else None
    if kind in NEED_MOMENTUM and train.momentum is None and not solver.momentum:
        text = f"'{kind}' without momentum, since {file} has none; train.momentum = 0.9 is usual"
        yield text, ("optimizer", "type")
    if kind is not None and train.base_lr is None and _scale_of(kind) != _scale_of(solver.type):
        text = f"'{kind}' with base_lr {solver.base_lr:g} of {file}, a rate for '{solver.type}'"
        if train.recipe is not None:
            text += f", since the rate of '{train.recipe}' is for another type"
        yield f"{text}; give train.base_lr", ("optimizer", "type")
    said = train.schedule
    if said is not None and said.type == "solver" and not (said.warmup or said.warmup_epochs):
        text = f"lr_policy '{solver.proto.lr_policy}' of {file} counts"
        yield f"'solver' without a warm-up changes nothing: {text}", ("schedule", "type")


def _scale_of(kind: str) -> str:
    """The first type whose rates suit this type of optimizer, too."""
    return next((kinds[0] for kinds in SAME_RATES if kind in kinds), kind)


def of_average(train: Train, last: int) -> Iterator[Remark]:
    """A warning if the average of a run of `last` iterations mostly holds the first weights."""
    said = train.ema
    if said is None or said.ramp or said.power or said.lookahead or said.every > last:
        return
    share = said.decay ** (last / said.every)
    if share > FIRST_SHARE:
        text = (
            f"found {said.decay:g}: after the {last} iterations of the run, the first weights "
            f"still make up {share:.0%} of the average; ramp = true avoids this"
        )
        yield text, ("ema", "decay")


def _solver_without(train: Train, job: Job) -> SolverSpec:
    """The job's solver without the settings of [train.optimizer]."""
    ours = values_of(train.optimizer)
    values = {name: value for name, value in job.solver_values.items() if name not in ours}
    return load_solver(job.solver, values)


def _replaced(said: Optimizer, solver: SolverSpec) -> Iterator[Remark]:
    """The settings of the solver's file that [train.optimizer] replaces by others."""
    file = solver.path.name
    if said.type is not None and said.type != solver.type:
        yield f"'{said.type}' replaces type '{solver.type}' of {file}", ("optimizer", "type")
    for key, field in FIELDS.items():
        value = getattr(said, key)
        if value is None or field == "trust" or not solver.proto.HasField(field):
            continue
        theirs = getattr(solver.proto, field)
        if abs(value - theirs) > 1e-6 * abs(theirs):
            yield f"{value:g} replaces {field} {theirs:g} of {file}", ("optimizer", key)


def _of_optimizer(said: Optimizer) -> Iterator[tuple[str, str]]:
    """(text, key) of each mistake of [train.optimizer]."""
    if said.type is None:
        if said.decoupled:
            text = "found true without a type of the optimizer, expected one of"
            yield f"{text} {', '.join(DECOUPLED)}", "decoupled"
        return
    if said.decoupled and said.type not in DECOUPLED:
        text = f"found true with type '{said.type}', expected one of the types"
        yield f"{text} {', '.join(DECOUPLED)}", "decoupled"
    yield from _not_of(said, said.type, f"'{said.type}'")


def _not_of(said: Optimizer, kind: str, name: str) -> Iterator[tuple[str, str]]:
    """(text, key) of each number that the type `kind`, called `name`, does not take."""
    for key, kinds in KINDS_OF.items():
        if getattr(said, key) is not None and kind not in kinds:
            text = f"found {getattr(said, key)!r}, but {name} does not take it, only"
            yield f"{text} {', '.join(kinds)}", key


def values_of(said: Optimizer | None) -> dict[str, float | str | None]:
    """The fields of the solver that [train.optimizer] sets. None stands for no value."""
    if said is None:
        return {}
    kind = DECOUPLED.get(said.type or "", said.type) if said.decoupled else said.type
    numbers = {field: value for field, value in _numbers(said).items() if field != "trust"}
    return {**({"type": kind} if kind is not None else {}), **numbers}


def extras_of(train: Train) -> SolverExtras:
    """The settings of the solver that its file lacks, without the schedule."""
    said = train.optimizer
    rates = tuple(train.lr_scale.items())
    optimizer = OptimizerSettings(rates=rates)
    if said is not None:
        optimizer = OptimizerSettings(said.decays, rates, _numbers(said))
    average = WeightAverage(**train.ema.model_dump()) if train.ema is not None else None
    return SolverExtras(optimizer=optimizer, average=average)


def _numbers(said: Optimizer) -> dict[str, float]:
    """Field of the solver -> the number that [train.optimizer] gives."""
    found = {field: getattr(said, key) for key, field in FIELDS.items()}
    return {field: value for field, value in found.items() if value is not None}


def _of_schedule(said: Schedule) -> Iterator[tuple[str, str]]:
    """(text, key) of each mistake of [train.schedule]."""
    takes = (*WARM_UP, *TAKES[said.type])
    for key, found in said.given.items():
        if key not in takes:
            text = f"found {found!r}, but a schedule of type '{said.type}' takes only"
            yield f"{text} {', '.join(takes)}", key
    for one, other in (("warmup", "warmup_epochs"), ("at", "at_epochs"), ("every", "every_epochs")):
        if getattr(said, one) is not None and getattr(said, other) is not None:
            yield (
                f"found {getattr(said, other)!r} together with '{one}', expected one of them",
                other,
            )
    if said.type != "step":
        return
    given = [key for key in STEPS if getattr(said, key) is not None]
    if not given:
        yield f"found 'step' without its steps, expected one of {', '.join(STEPS)}", "type"
    if any(key.startswith("at") for key in given) and any(key.startswith("ev") for key in given):
        text = f"found {getattr(said, given[-1])!r} together with '{given[0]}'"
        yield f"{text}, expected one of {', '.join(STEPS)}", given[-1]
    for key in ("at", "at_epochs"):
        times = getattr(said, key) or []
        if sorted(set(times)) != list(times):
            yield f"found {times}, expected rising numbers", key


def schedule_of(
    said: Schedule | None, last: int, iterations: Callable[[float], int]
) -> RateSchedule | None:
    """The schedule of a run of `last` iterations. None without the section. `iterations` gives the
    iterations of so many epochs."""
    if said is None:
        return None

    def time(key: str) -> int | None:
        epochs = getattr(said, f"{key}_epochs")
        found: int | None = getattr(said, key) if epochs is None else iterations(epochs)
        return found

    cycle = said.type == "one-cycle"
    warmup = time("warmup")
    at = said.at or [iterations(epochs) for epochs in said.at_epochs or []]
    shown = {key: said.given[key] for key in CURVE if key in said.given}
    return RateSchedule(
        said.type,
        warmup=(round(TOP * last) if cycle else 0) if warmup is None else warmup,
        at=tuple(at),
        every=time("every") or 0,
        **{**(ONE_CYCLE if cycle else {}), **shown},
    )


def late(schedule: RateSchedule, said: Schedule, last: int) -> Iterator[Remark]:
    """The times of a schedule that a run of `last` iterations does not reach."""
    if schedule.warmup >= last:
        key = "warmup" if said.warmup_epochs is None else "warmup_epochs"
        text = f"found {getattr(said, key)}, which is iteration {schedule.warmup}"
        yield f"{text}, expected less than the {last} iterations of the run", ("schedule", key)
    if schedule.every >= last:
        key = "every" if said.every_epochs is None else "every_epochs"
        text = f"found {getattr(said, key)}: the first step would be iteration {schedule.every}"
        yield f"{text}, but the run has only {last} iterations", ("schedule", key)
    beyond = [at for at in schedule.at if at >= last]
    key = "at" if said.at_epochs is None else "at_epochs"
    twice = [at for at, after in pairwise(schedule.at) if at == after]
    if twice:
        text = f"found {getattr(said, key)}: two of these times are iteration {twice[0]}"
        yield f"{text}, expected different iterations", ("schedule", key)
    if beyond:
        text = f"found {getattr(said, key)}: iteration {beyond[0]}"
        yield f"{text} is not one of the {last} iterations of the run", ("schedule", key)
