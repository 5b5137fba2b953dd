"""A net as its author wrote it: the layers of a prototxt, each with its place in the file.

This module finds and reads the file, applies the phase rules, and knows the names of the zoo.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from google.protobuf import text_format

from nets.definition.ignored import Note, misplaced, refusals, unused, warnings
from nets.definition.prototxt import Node, Where, parse
from nets.definition.upgrade import upgrade
from nets.definition.zoo import NETS, build, names_a_net
from nets.errors import NetError, PrototxtError, did_you_mean
from nets.imported import GraphKeys, Imported, import_net
from nets.reasons import reason
from nets.regular import decoded, is_file, is_there, read_bytes
from nets.schema import caffe_pb2 as caffe
from nets.schema.fields import SOURCE

MOST_BYTES = 1 << 20  # of a prototxt, five times the size of ResNet-152's
MOST_LAYERS = 4096  # ResNet-1001 has 3500
OF_WEIGHTS = (".caffemodel", ".h5", ".safetensors", ".pth", ".pt")  # endings that no net has
WRITTEN = "# a net from Python, as if it stood in "  # the beginning of a net's text
GRAPH = GraphKeys()
ZOO = Path(__file__).parents[1] / "zoo"
# a line without its comment
_SAID = re.compile(r"""(?:[^"'#]|"(?:\\.|[^"\\])*+"?|'(?:\\.|[^'\\])*+'?)*+""")
# bytes that are not UTF-8, as "surrogateescape" reads them
_FOREIGN = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class LayerSpec:
    """One layer: its message (read only) and its place in the file. A `frozen` layer keeps its
    parameters and running statistics (`NetSpec.freezing`)."""

    proto: caffe.LayerParameter
    where: Where
    frozen: bool = False


@dataclass(frozen=True)
class NetSpec:
    """A whole net: `proto` with its layers in today's format, the `path` of its file, its layers.

    `phase` is the phase whose rules have chosen the layers ("TRAIN" or "TEST"), or "" if all layers
    are here. `notes` are the settings of the file that have no effect.
    """

    proto: caffe.NetParameter
    path: Path
    layers: tuple[LayerSpec, ...]
    where: Where = field(repr=False)
    phase: str = ""
    notes: tuple[Note, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The net's name, or the name of its file."""
        return self.proto.name or self.path.stem

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of a run that does not read the data layers' own sources (see `told`)."""
        return self.told(sources_read=False)

    def told(self, *, sources_read: bool) -> tuple[str, ...]:
        """Return one line for each setting of the file that has no effect. `sources_read`: the data
        layers read the sources that they name."""
        return warnings(note for note in self.notes if not (sources_read and note.why == SOURCE))

    def for_phase(
        self, phase: str, *, level: int | None = None, stages: tuple[str, ...] = ()
    ) -> NetSpec:
        """Keep the layers whose include/exclude rules admit `phase` ("TRAIN" or "TEST"), `level`
        and `stages`.

        The net's own `state` adds its stages. Its level counts if the caller gives none. The rules
        are those of Caffe's Net::FilterNet. If the layers have already been chosen, the net is
        returned unchanged. Raises PrototxtError if the net's own state has the other phase.
        """
        if self.phase == phase:
            return self
        own = self.proto.state
        if own.HasField("phase") and own.phase != caffe.Phase.Value(phase):
            text = (
                f"found {caffe.Phase.Name(own.phase)}, but the net is needed for {phase}: "
                "remove the phase"
            )
            raise self.where.error("state.phase", text)
        state = caffe.NetState(phase=phase, level=own.level if level is None else level)
        state.stage.extend({*stages, *own.stage})
        kept = tuple(layer for layer in self.layers if _admitted(layer.proto, state))
        return replace(self, layers=kept, phase=phase)

    def freezing(self, patterns: Sequence[str]) -> NetSpec:
        """The same net, in which the layers whose names fit one of the patterns are frozen."""
        if not patterns:
            return self
        layers = tuple(
            replace(layer, frozen=fits(layer.proto.name, patterns)) for layer in self.layers
        )
        return replace(self, layers=layers)


def fits(layer: str, patterns: Iterable[str]) -> bool:
    """Whether the name of a layer fits one of the patterns."""
    return any(fnmatchcase(layer, pattern) for pattern in patterns)


def load_net(source: str | Path) -> NetSpec:
    """Read a net from a path, from a name of the zoo ("lenet", "resnet18(classes=10)"), or from the
    text that a NetBuilder gives. The file is a prototxt, or a graph of ONNX (.onnx). Raises
    NetError with every mistake."""
    if isinstance(source, str) and is_text(source):
        return _kept.get(source) or _parsed(
            source, Path(source.partition("\n")[0].removeprefix(WRITTEN))
        )
    if isinstance(source, str) and names_a_net(source) and not is_file(Path(source)):
        return _of_zoo(source)
    path = locate(source, suffixes=("",))
    if is_graph(path):
        return net_of_graph(path)[0]
    if path.suffix.lower() == ".py":
        raise NetError(
            f"{path.name}: found a Python file, expected a prototxt, an ONNX file or a name of the "
            "zoo. A script trains its own net: roles.training({'net': ...}), docs/scripting.md"
        )
    if path.suffix.lower() in OF_WEIGHTS:
        raise NetError(
            f"{path.name}: found a file of weights, expected the layers of a net: a prototxt, an "
            "ONNX file or a name of the zoo. Weights belong in train.weights"
        )
    return _parsed(read_text(path), path)


def is_graph(path: Path) -> bool:
    """Whether the path is that of a graph of ONNX, not of a prototxt."""
    return path.suffix.lower() == ".onnx"


def net_of_graph(path: Path, keys: GraphKeys = GRAPH) -> tuple[NetSpec, Imported]:
    """Read a graph of ONNX, completed by `keys`. Returns the net, and the graph's weights. Raises
    NetError with every mistake."""
    found = import_net(path, keys)
    return _without_lines(found.proto, path), found


def text_of(spec: NetSpec) -> str:
    """Return the text of a net that is not in a prototxt. `load_net` reads it in any process."""
    text = f"{WRITTEN}{spec.path}\n{text_format.MessageToString(spec.proto)}"
    keep(text, spec)
    return text


def net_of_text(text: str, path: Path) -> NetSpec:
    """Read a net from its prototxt text. `path` is the name in error texts. Raises PrototxtError
    with every mistake."""
    proto, root = parse(text, caffe.NetParameter(), path.name)
    return net_from_proto(proto, root, path)


def is_text(source: str) -> bool:
    """Whether the source is the text of a net, not a path."""
    return source.startswith(WRITTEN)


def keep(text: str, spec: NetSpec) -> None:
    """Make `load_net` return `spec` for this text. The places in `spec` are the lines of a
    script."""
    if len(_kept) > 3:
        _kept.pop(next(iter(_kept)))
    _kept[text] = spec


_kept: dict[str, NetSpec] = {}  # a few nets: several steps of planning ask for one text


@lru_cache(maxsize=4)
def _parsed(text: str, path: Path) -> NetSpec:
    """Parse a net. The result is cached, because several steps of planning ask for one text."""
    return net_of_text(text, path)


@lru_cache(maxsize=4)
def _of_zoo(source: str) -> NetSpec:
    """Build a net of the zoo. Its mistakes name the net, not the lines of the zoo's own code. The
    result is cached, as that of `_parsed`."""
    return _without_lines(build(source).proto(), ZOO / source)


def _without_lines(proto: caffe.NetParameter, path: Path) -> NetSpec:
    """A net whose layers have no lines in a file of the user."""
    root = Node(0)
    root.fields["layer"] = [Node(0) for _ in proto.layer]
    return net_from_proto(proto, root, path)


def net_from_proto(proto: caffe.NetParameter, root: Node, path: Path) -> NetSpec:
    """Convert a parsed net to today's format and make the checks that need no shapes."""
    top = Where(path.name, root)
    upgraded, nodes = upgrade(proto, top)
    layers = tuple(
        LayerSpec(
            layer,
            Where(path.name, node, f"layer '{layer.name}'" if layer.name else "layer without name"),
        )
        for layer, node in zip(upgraded.layer, nodes, strict=True)
    )
    if len(layers) > MOST_LAYERS:
        raise top.error("", f"found {len(layers)} layers, expected at most {MOST_LAYERS}")
    problems = refusals(upgraded, top) + [
        problem for layer in layers for problem in _mistakes(layer)
    ]
    if not layers:
        problems.append(top.problem("", "the net has no layer"))
    if problems:
        raise PrototxtError(problems)
    notes = unused(upgraded, top)
    for layer in layers:
        notes += [*unused(layer.proto, layer.where), *misplaced(layer.proto, layer.where)]
    return NetSpec(upgraded, path, layers, top, notes=tuple(notes))


def locate(source: str | Path, suffixes: tuple[str, ...]) -> Path:
    """Return the file that `source` names: a path, or a zoo name followed by one of `suffixes`."""
    path = Path(source)
    if is_file(path):
        return path
    for suffix in suffixes:
        candidate = ZOO / f"{source}{suffix}.prototxt"
        if isinstance(source, str) and path.name == source and is_file(candidate):
            return candidate
    if is_there(path) or is_graph(path):
        return path  # the reader reports why it is not a file
    names = zoo_names(solvers="_solver" in suffixes)
    raise PrototxtError(
        f"{source}: no such file, and the zoo has no such name{did_you_mean(path.stem, names)}; "
        f"it has {', '.join(names)}"
    )


def zoo_names(*, solvers: bool = False) -> list[str]:
    """Return the names of the zoo's nets, or of its solvers."""
    stems = {*NETS, *(file.stem for file in ZOO.glob("*.prototxt"))}
    return sorted(name for name in stems if name.endswith("_solver") == solvers)


def read_text(path: Path) -> str:
    """Return the file's text. Raises PrototxtError if it cannot be read or is not UTF-8. Comments
    may have any encoding: bytes in them that are not UTF-8 become question marks."""
    try:
        content = read_bytes(path, MOST_BYTES)
    except OSError as error:
        raise PrototxtError(f"{path.name}: cannot be read: {reason(error)}") from None
    lines = decoded(content, "surrogateescape").split("\n")
    for number, line in enumerate(lines, 1):
        said = _SAID.match(line)
        end = said.end() if said else 0
        if _FOREIGN.search(line, 0, end):
            raise PrototxtError(
                f"{path.name}:{number}: found bytes that are not UTF-8, expected text"
            )
        lines[number - 1] = line[:end] + _FOREIGN.sub("?", line[end:])
    return "\n".join(lines)


def _admitted(layer: caffe.LayerParameter, state: caffe.NetState) -> bool:
    """Whether the layer is in the net: some include rule matches, or there are no include rules and
    no exclude rule matches."""
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
    found = refusals(layer.proto, layer.where)
    if not layer.proto.name:
        found.append(layer.where.problem("name", "missing, expected a name"))
    if not layer.proto.type:
        found.append(layer.where.problem("type", "missing, expected a layer type"))
    if layer.proto.include and layer.proto.exclude:
        found.append(
            layer.where.problem(
                "exclude", ("given together with 'include', expected only one of the two")
            )
        )
    return found
