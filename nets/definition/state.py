"""What a checkpoint calls the arrays of a part's parameters: `layer.i`, `layer.i.history`, `layer.i.history2`."""

from __future__ import annotations

from collections.abc import Mapping

from nets.definition.params import ParamSpec
from nets.definition.solver import SolverSpec
from nets.errors import NetError
from ops import Array


def state_shapes(params: Mapping[str, tuple[ParamSpec, ...]], solver: SolverSpec) -> dict[str, tuple[int, ...]]:
    """The arrays that a checkpoint of these parameters holds: name -> shape."""
    found: dict[str, tuple[int, ...]] = {}
    for layer, specs in params.items():
        for index, spec in enumerate(specs):
            names = (f"{layer}.{index}", *history_names(layer, index, solver.histories(spec)))
            found |= dict.fromkeys(names, spec.shape)
    return found


def history_names(layer: str, index: int, count: int) -> list[str]:
    """The `count` histories that the solver keeps of a parameter."""
    return [f"{layer}.{index}.history{number if number > 1 else ''}" for number in range(1, count + 1)]


def check_state(state: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """NetError names every array that is missing or misshapen."""
    problems: list[str] = []
    for name, shape in shapes.items():
        found = state[name].shape if name in state else "nothing"
        if found != shape:
            problems.append(f"checkpoint: '{name}': found {found}, expected shape {shape}")
    if problems:
        raise NetError(problems)
