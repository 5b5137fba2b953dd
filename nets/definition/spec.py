"""A net as its author wrote it: the layers of a prototxt, each with the place it stands at.

Finds and reads the file, applies the phase rules, knows the names of the zoo.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from nets.definition.prototxt import Node, Where, parse
from nets.definition.upgrade import upgrade
from nets.errors import PrototxtError, did_you_mean
from nets.regular import is_file, read_bytes
from nets.schema import caffe_pb2 as caffe

MOST_BYTES = 1 << 20  # of a prototxt: five times ResNet-152
MOST_LAYERS = 4096  # ResNet-1001 has 3500
ZOO = Path(__file__).parents[1] / "zoo"


@dataclass(frozen=True)
class LayerSpec:
    """One layer: its message (read only) and where it stands."""

    proto: caffe.LayerParameter
    where: Where


@dataclass(frozen=True)
class NetSpec:
    """A whole net: `proto` with its layers in today's format, the `path` it came from, its layers."""

    proto: caffe.NetParameter
    path: Path
    layers: tuple[LayerSpec, ...]
    where: Where = field(repr=False)

    @property
    def name(self) -> str:
        """The net's own name, or its file's."""
        return self.proto.name or self.path.stem

    def for_phase(self, phase: str, *, level: int = 0, stages: tuple[str, ...] = ()) -> NetSpec:
        """Keep the layers whose include/exclude rules admit `phase` ("TRAIN" or "TEST"), `level` and `stages`.

        The net's own `state` adds its stages; its level counts when none is given. Rules as Caffe's Net::FilterNet.
        """
        state = caffe.NetState(phase=phase, level=level or self.proto.state.level)
        state.stage.extend({*stages, *self.proto.state.stage})
        kept = tuple(layer for layer in self.layers if _admitted(layer.proto, state))
        return NetSpec(self.proto, self.path, kept, self.where)


def load_net(source: str | Path) -> NetSpec:
    """Read a net from a prototxt path or a name of the zoo ("lenet"); PrototxtError lists every mistake."""
    path = locate(source, suffixes=("",))
    return _parsed(read_text(path), path)


@lru_cache(maxsize=4)
def _parsed(text: str, path: Path) -> NetSpec:
    """One text is asked for by many who plan."""
    proto, root = parse(text, caffe.NetParameter(), path.name)
    return net_from_proto(proto, root, path)


def net_from_proto(proto: caffe.NetParameter, root: Node, path: Path) -> NetSpec:
    """Bring a parsed net to today's format and check what can be checked without shapes."""
    top = Where(path.name, root)
    upgraded, nodes = upgrade(proto, top)
    layers = tuple(
        LayerSpec(layer, Where(path.name, node, f"layer '{layer.name}'" if layer.name else "layer without name"))
        for layer, node in zip(upgraded.layer, nodes, strict=True)
    )
    if len(layers) > MOST_LAYERS:
        raise top.error("", f"found {len(layers)} layers, expected at most {MOST_LAYERS}")
    problems = [problem for layer in layers for problem in _mistakes(layer)]
    if not layers:
        problems.append(top.problem("", "the net has no layer"))
    if problems:
        raise PrototxtError(problems)
    return NetSpec(upgraded, path, layers, top)


def locate(source: str | Path, suffixes: tuple[str, ...]) -> Path:
    """Return the file `source` names: a path, or a zoo name followed by one of `suffixes`."""
    path = Path(source)
    if is_file(path):
        return path
    for suffix in suffixes:
        candidate = ZOO / f"{source}{suffix}.prototxt"
        if isinstance(source, str) and path.name == source and candidate.is_file():
            return candidate
    if path.exists():
        return path  # whoever reads it says what it is
    names = sorted(file.stem for file in ZOO.glob("*.prototxt"))
    raise PrototxtError(
        f"{source}: no such file, and the zoo has no such name{did_you_mean(path.stem, names)}; "
        f"it has {', '.join(names)}"
    )


def read_text(path: Path) -> str:
    """Return the file's text; PrototxtError when it cannot be read or is not UTF-8."""
    try:
        return read_bytes(path, MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise PrototxtError(f"{path.name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise PrototxtError(f"{path.name}: byte {error.start}: not UTF-8 text, expected a prototxt") from None


def _admitted(layer: caffe.LayerParameter, state: caffe.NetState) -> bool:
    """Whether the layer takes part: any include rule met, or without include rules no exclude rule met."""
    if layer.include:
        return any(_meets(state, rule) for rule in layer.include)
    return not any(_meets(state, rule) for rule in layer.exclude)


def _meets(state: caffe.NetState, rule: caffe.NetStateRule) -> bool:
    if rule.HasField("phase") and rule.phase != state.phase:
        return False
    if rule.HasField("min_level") and state.level < rule.min_level:
        return False
    if rule.HasField("max_level") and state.level > rule.max_level:
        return False
    return set(rule.stage) <= set(state.stage) and not set(rule.not_stage) & set(state.stage)


def _mistakes(layer: LayerSpec) -> list[str]:
    found = []
    if not layer.proto.name:
        found.append(layer.where.problem("name", "missing, expected a name"))
    if not layer.proto.type:
        found.append(layer.where.problem("type", "missing, expected a layer type"))
    if layer.proto.include and layer.proto.exclude:
        found.append(layer.where.problem("exclude", "given besides 'include', expected only one of the two"))
    return found
