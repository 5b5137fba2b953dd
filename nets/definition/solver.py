"""The settings of a net's training: the checked solver prototxt, and the learning rate at each
iteration.

`solver_checks` finds the mistakes of a solver. The rate policies are in `policies`, the solver
types in `solver_types`, and the update of a parameter in `update_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.definition.optimizer import OptimizerSettings, SolverExtras
from nets.definition.policies import POLICIES
from nets.definition.prototxt import Where, parse
from nets.definition.rate_schedule import SOLVER
from nets.definition.solver_checks import TRAIN_NETS, problems, solver_type, told
from nets.definition.solver_types import RULES
from nets.definition.spec import ZOO, NetSpec, load_net, locate, net_from_proto, read_text
from nets.definition.update_rules import Updates
from nets.definition.zoo import names_a_net
from nets.errors import PrototxtError
from nets.regular import is_file
from nets.schema import caffe_pb2 as caffe
from ops import Backend

Values = Mapping[str, float | str]  # field of a solver -> its value
NO_EXTRAS = SolverExtras()
NOTHING: Values = MappingProxyType({})


@dataclass(frozen=True)
class SolverSpec(Updates):
    """A checked solver. Iterations count from 0. Rates and decay are Caffe's `base_lr` and
    `weight_decay`. `extras` has the settings that the file lacks."""

    proto: caffe.SolverParameter
    path: Path
    where: Where = field(repr=False)
    extras: SolverExtras = NO_EXTRAS

    max_iter = property(lambda self: int(self.proto.max_iter))
    test_interval = property(lambda self: int(self.proto.test_interval))
    display = property(lambda self: int(self.proto.display))
    snapshot = property(lambda self: int(self.proto.snapshot))
    base_lr = property(lambda self: float(self.proto.base_lr))
    momentum = property(lambda self: float(self.proto.momentum))
    weight_decay = property(lambda self: float(self.proto.weight_decay))
    iter_size = property(lambda self: int(self.proto.iter_size))
    average = property(lambda self: self.extras.average)
    clips = property(lambda self: self.proto.clip_gradients >= 0)

    @property
    def optimizer(self) -> OptimizerSettings:
        """The settings of the optimizer that the file lacks."""
        return self.extras.optimizer

    @cached_property
    def type(self) -> str:
        """The solver's type, a key of `solver_types.RULES`. The file may give it in the old way,
        too."""
        return solver_type(self.proto)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each setting in the file that has no effect, and for each rate that is
        probably not intended."""
        return told(self.proto, self.where)

    @property
    def weights(self) -> tuple[str, ...]:
        """The files of first weights, as written: `nets.files.parts.parts_of` reads them."""
        return tuple(said.strip() for said in self.proto.weights if said.strip())

    @property
    def average_loss(self) -> int | None:
        """The number of iterations over which the reported loss is averaged, or None if the file
        does not give it."""
        return int(self.proto.average_loss) if self.proto.HasField("average_loss") else None

    @property
    def test_iters(self) -> tuple[int, ...]:
        """The number of batches that each test net runs, 0 for all batches. A file that gives none
        has one test net."""
        return tuple(int(count) for count in self.proto.test_iter) or (0,)

    def state(self, phase: str, test: int = 0) -> tuple[int | None, tuple[str, ...]]:
        """Return the (level, stages) that the solver requests for the net in `phase`: from
        train_state, or from the test_state of test net number `test`."""
        states = (
            [self.proto.train_state]
            if phase == "TRAIN"
            else list(self.proto.test_state)[test : test + 1]
        )
        for state in states:
            return int(state.level) if state.HasField("level") else None, tuple(state.stage)
        return None, ()

    @property
    def random_seed(self) -> int | None:
        """The seed, or None if Caffe would take one from the clock (-1 or absent)."""
        return int(self.proto.random_seed) if self.proto.random_seed >= 0 else None

    def rate(self, iteration: int) -> float:
        """Return the learning rate of `iteration` (from 0): that of the schedule, or else as
        Caffe's SGDSolver::GetLearningRate."""
        schedule = self.extras.schedule
        if schedule is None:
            return self._policy_rate(iteration)
        begun = self._policy_rate(iteration) if schedule.kind == SOLVER else self.base_lr
        return begun * schedule.rate_factor(iteration, self.max_iter)

    def _policy_rate(self, iteration: int) -> float:
        """The rate of Caffe's policy; infinity if it is too large for a number, as in Caffe."""
        try:
            return POLICIES[self.proto.lr_policy].rate(self.proto, iteration)
        except (OverflowError, ZeroDivisionError):  # 0 to a negative power
            return math.inf

    def step_numbers(self, ops: Backend, iteration: int, dtype: Any) -> NDArray[Any]:
        """Return the numbers of `update_layers` that differ from step to step, of a backend that
        updates in one operation. There are none if it updates parameters one by one."""
        kind = RULES[self.type].vectors or self.type
        if RULES[kind].whole:
            return np.zeros(0, dtype)
        return np.array(ops.update_numbers(kind, **self._of_step(kind, iteration)), dtype)

    def override(self, values: Values) -> SolverSpec:
        """Return the same solver with other values (type, max_iter, base_lr, momentum). Raises
        PrototxtError if they make no sense."""
        proto = caffe.SolverParameter()
        proto.CopyFrom(self.proto)
        if "type" in values:
            proto.ClearField("solver_type")
        for key, value in values.items():
            setattr(proto, key, value)
        return _checked(replace(self, proto=proto))

    def load_net(self, test: int | None = None) -> NetSpec:
        """Read the training net, or test net number `test`.

        A net is part of the solver, or a path from the working directory or from the solver's
        folder, or the name of a file in that folder. Test nets with their own files come first, as
        in Caffe.
        """
        own = [("test_net_param", at) for at in range(len(self.proto.test_net_param))]
        own += [("test_net", at) for at in range(len(self.proto.test_net))]
        if test is not None and test < len(own):
            return self._read(*own[test])
        keys = TRAIN_NETS if test is None or not self._generic else self._generic
        key = next((key for key in keys if self.proto.HasField(key)), None)
        if key is None:
            raise self.where.error("net", "missing, expected the path of a net prototxt")
        return self._read(key)

    @property
    def tests_other_nets(self) -> bool:
        """Whether some test nets have their own files or texts."""
        return bool(self.proto.test_net or self.proto.test_net_param)

    @property
    def net_source(self) -> str:
        """The source of the net that serves training and tests, for `load_net`: an absolute path or
        a name of the zoo. "" if there is no such file, or if some tests have other nets."""
        name = self.proto.net
        if self.tests_other_nets or names_a_net(name):
            return "" if self.tests_other_nets else name
        path = self.located(name) if name else None
        return str(path.resolve()) if path else ""

    @property
    def names_a_net(self) -> bool:
        """Whether the file names the net to train."""
        return any(self.proto.HasField(key) for key in TRAIN_NETS)

    @property
    def _generic(self) -> list[str]:
        """The key of the net that serves training and tests, as a list. It is empty if there is
        none."""
        return [key for key in ("net_param", "net") if self.proto.HasField(key)]

    def _read(self, key: str, at: int = 0) -> NetSpec:
        found = getattr(self.proto, key)
        found = found[at] if key.startswith("test") else found
        node = self.where.node.find(key, at)
        if not isinstance(found, str):
            return net_from_proto(found, node, self.path)
        if names_a_net(found):
            return load_net(found)
        path = self.located(found)
        if path is None:
            raise PrototxtError(self.missing(key, found, at))
        return load_net(path)

    def missing(self, key: str, name: str, at: int = 0) -> str:
        """Return the problem text for a file that `key` names and that does not exist."""
        place = Where(self.where.file, self.where.node.find(key, at))
        text = f"key '{key}': found '{name}', but no such file exists here or next to the solver"
        return place.problem("", text)

    def located(self, name: str) -> Path | None:
        """Return the file that the solver calls `name`, None if there is no such file. It is a path
        from the working directory or from the solver's folder, or a file in that folder. A bare
        name may also be in the zoo."""
        named = Path(name)
        candidates = [named, self.path.parent / named, self.path.parent / named.name]
        candidates += [ZOO / named] if named.name == name else []
        return next((path for path in candidates if is_file(path)), None)


def load_solver(
    source: str | Path, values: Values = NOTHING, extras: SolverExtras = NO_EXTRAS
) -> SolverSpec:
    """Read a solver from a path or a zoo name ("lenet" or "lenet_solver"). `values` replace those
    of the file, which need not have them; `extras` are added. Raises PrototxtError with every
    mistake."""
    path = locate(source, suffixes=("_solver", ""))
    found = _parsed(read_text(path), path, tuple(sorted(values.items())))
    return found if extras == NO_EXTRAS else replace(found, extras=extras)


@lru_cache(maxsize=4)
def _parsed(text: str, path: Path, values: tuple[tuple[str, float | str], ...]) -> SolverSpec:
    """Parse a solver. The result is cached, because several steps of planning ask for one text."""
    proto, root = parse(text, caffe.SolverParameter(), path.name)
    return SolverSpec(proto, path, Where(path.name, root)).override(dict(values))


def _checked(solver: SolverSpec) -> SolverSpec:
    found = problems(solver.proto, solver.where)
    if found:
        raise PrototxtError(found)
    return solver
