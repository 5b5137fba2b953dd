"""How a net is trained: the solver prototxt, checked, and the learning rate at each iteration.

Its mistakes are in `solver_checks`, the rate policies in `policies`, the solver types and the
update of a parameter in `rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from nets.definition.policies import POLICIES
from nets.definition.prototxt import Where, parse
from nets.definition.solver_checks import TRAIN_NETS, problems, solver_type, told
from nets.definition.spec import ZOO, NetSpec, load_net, locate, net_from_proto, read_text
from nets.definition.update_rules import Updates
from nets.errors import PrototxtError
from nets.regular import is_file
from nets.schema import caffe_pb2 as caffe


@dataclass(frozen=True)
class SolverSpec(Updates):
    """A checked solver; iterations count from 0, rates and decay are Caffe's `base_lr` and
    `weight_decay`."""

    proto: caffe.SolverParameter
    path: Path
    where: Where = field(repr=False)

    max_iter = property(lambda self: int(self.proto.max_iter))
    test_interval = property(lambda self: int(self.proto.test_interval))
    display = property(lambda self: int(self.proto.display))
    snapshot = property(lambda self: int(self.proto.snapshot))
    base_lr = property(lambda self: float(self.proto.base_lr))
    momentum = property(lambda self: float(self.proto.momentum))
    weight_decay = property(lambda self: float(self.proto.weight_decay))
    iter_size = property(lambda self: int(self.proto.iter_size))
    clips = property(lambda self: self.proto.clip_gradients >= 0)

    @property
    def type(self) -> str:
        """The solver's type, a key of `rules.RULES`, whichever way it is written."""
        return solver_type(self.proto)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the file says and nothing here does, and rates that surely are not what was meant: a
        line each."""
        return told(self.proto, self.where)

    @property
    def weights(self) -> tuple[str, ...]:
        """Files of first weights as written; of a layer in several of them the last one counts."""
        return tuple(
            name.strip()
            for names in self.proto.weights
            for name in names.split(",")
            if name.strip()
        )

    @property
    def average_loss(self) -> int | None:
        """Over how many iterations the loss that is told is averaged, or None where the file does
        not say."""
        return int(self.proto.average_loss) if self.proto.HasField("average_loss") else None

    @property
    def test_iters(self) -> tuple[int, ...]:
        """How many batches each test net runs, 0 for all there are: one number per test net, of
        which there is one where the file says nothing."""
        return tuple(int(count) for count in self.proto.test_iter) or (0,)

    def state(self, phase: str, test: int = 0) -> tuple[int | None, tuple[str, ...]]:
        """(level, stages) that train_state, or the test_state of test net number `test`, asks of
        the net in `phase`."""
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
        """The seed, or None where Caffe would take one from the clock (-1 or absent)."""
        return int(self.proto.random_seed) if self.proto.random_seed >= 0 else None

    def rate(self, iteration: int) -> float:
        """Return the learning rate of `iteration` (from 0), as Caffe's
        SGDSolver::GetLearningRate."""
        return POLICIES[self.proto.lr_policy].rate(self.proto, iteration)

    def override(self, values: Mapping[str, float]) -> SolverSpec:
        """The same solver with other values (max_iter, base_lr, momentum); PrototxtError if they
        make no sense."""
        proto = caffe.SolverParameter()
        proto.CopyFrom(self.proto)
        for key, value in values.items():
            setattr(proto, key, value)
        return _checked(SolverSpec(proto, self.path, self.where))

    def load_net(self, test: int | None = None) -> NetSpec:
        """Read the training net, or test net number `test`: inline, or a path from here, from the
        solver's folder, or beside it. Test nets that have files of their own come first, as in
        Caffe."""
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
        """Whether some test nets have files, or texts, of their own."""
        return bool(self.proto.test_net or self.proto.test_net_param)

    @property
    def names_a_net(self) -> bool:
        """Whether the file says what is trained."""
        return any(self.proto.HasField(key) for key in TRAIN_NETS)

    @property
    def _generic(self) -> list[str]:
        """The key of the net that is for training and tests, if there is one."""
        return [key for key in ("net_param", "net") if self.proto.HasField(key)]

    def _read(self, key: str, at: int = 0) -> NetSpec:
        found = getattr(self.proto, key)
        found = found[at] if key.startswith("test") else found
        node = self.where.node.find(key, at)
        if not isinstance(found, str):
            return net_from_proto(found, node, self.path)
        path = self.located(found)
        if path is None:
            raise PrototxtError(self.missing(key, found, at))
        return load_net(path)

    def missing(self, key: str, name: str, at: int = 0) -> str:
        """The problem of a file that `key` names and that is nowhere."""
        place = Where(self.where.file, self.where.node.find(key, at))
        text = f"key '{key}': found '{name}', but there is no such file here or beside the solver"
        return place.problem("", text)

    def located(self, name: str) -> Path | None:
        """The file that a solver means by `name`: a path from here, from the solver's folder, or
        beside it; a bare name may also be the zoo's."""
        named = Path(name)
        candidates = [named, self.path.parent / named, self.path.parent / named.name]
        candidates += [ZOO / named] if named.name == name else []
        return next((path for path in candidates if is_file(path)), None)


def load_solver(source: str | Path) -> SolverSpec:
    """Read a solver from a path or a zoo name ("lenet" or "lenet_solver"); PrototxtError lists
    every mistake."""
    path = locate(source, suffixes=("_solver", ""))
    return _parsed(read_text(path), path)


@lru_cache(maxsize=4)
def _parsed(text: str, path: Path) -> SolverSpec:
    """One text is asked for by many who plan."""
    proto, root = parse(text, caffe.SolverParameter(), path.name)
    return _checked(SolverSpec(proto, path, Where(path.name, root)))


def _checked(solver: SolverSpec) -> SolverSpec:
    found = problems(solver.proto, solver.where)
    if found:
        raise PrototxtError(found)
    return solver
