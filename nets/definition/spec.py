"""A net as its author wrote it: the layers of a prototxt, each with the place it stands at.

Finds and reads the file, applies the phase rules, knows the names of the zoo.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from nets.definition.ignored import Note, misplaced, refusals, unused, warnings
from nets.definition.prototxt import Node, Where, parse
from nets.definition.upgrade import upgrade
from nets.errors import PrototxtError, did_you_mean
from nets.reasons import reason
from nets.regular import is_file, read_bytes
from nets.schema import caffe_pb2 as caffe
from nets.schema.fields import SOURCE

MOST_BYTES = 1 << 20  # of a prototxt: five times ResNet-152
MOST_LAYERS = 4096  # ResNet-1001 has 3500
WRITTEN = "# a net from Python, as if it stood in "  # how a source begins that is the text of a net
ZOO = Path(__file__).parents[1] / "zoo"
# a line up to its comment
_SAID = re.compile(r"""(?:[^"'#]|"(?:\\.|[^"\\])*+"?|'(?:\\.|[^'\\])*+'?)*+""")
# bytes that are not UTF-8, as "surrogateescape" reads them
_FOREIGN = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class LayerSpec:
    """One layer: its message (read only) and where it stands."""

    proto: caffe.LayerParameter
    where: Where


@dataclass(frozen=True)
class NetSpec:
    """A whole net: `proto` with its layers in today's format, the `path` it came from, its layers.

    `phase`: whose rules have chosen the layers ("TRAIN" or "TEST"), or "" where all are here.
    `notes`: what the file says and nothing here does.
    """

    proto: caffe.NetParameter
    path: Path
    layers: tuple[LayerSpec, ...]
    where: Where = field(repr=False)
    phase: str = ""
    notes: tuple[Note, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The net's own name, or its file's."""
        return self.proto.name or self.path.stem

    @property
    def warnings(self) -> tuple[str, ...]:
        """See `told`, where the data layers' own sources are not read."""
        return self.told(sources_read=False)

    def told(self, *, sources_read: bool) -> tuple[str, ...]:
        """What the file says and nothing here does, a line each. `sources_read`: its data layers
        read what they name."""
        return warnings(note for note in self.notes if not (sources_read and note.why == SOURCE))

    def for_phase(
        self, phase: str, *, level: int | None = None, stages: tuple[str, ...] = ()
    ) -> NetSpec:
        """Keep the layers whose include/exclude rules admit `phase` ("TRAIN" or "TEST"), `level`
        and `stages`.

        The net's own `state` adds its stages; its level counts when none is given. Rules as Caffe's
        Net::FilterNet. A net whose layers have been chosen stays as it is. PrototxtError where the
        net's own state is of the other phase.
        """
        if self.phase == phase:
            return self
        own = self.proto.state
        if own.HasField("phase") and own.phase != caffe.Phase.Value(phase):
            text = (
                f"found {caffe.Phase.Name(own.phase)}, but the net is wanted for {phase}: "
                "leave the phase away"
            )
            raise self.where.error("state.phase", text)
        state = caffe.NetState(phase=phase, level=own.level if level is None else level)
        state.stage.extend({*stages, *own.stage})
        kept = tuple(layer for layer in self.layers if _admitted(layer.proto, state))
        return replace(self, layers=kept, phase=phase)


def load_net(source: str | Path) -> NetSpec:
    """Read a net from a prototxt path or a name of the zoo ("lenet"), or of the text that a
    NetBuilder gives; PrototxtError lists every mistake."""
    if isinstance(source, str) and is_text(source):
        return _kept.get(source) or _parsed(
            source, Path(source.partition("\n")[0].removeprefix(WRITTEN))
        )
    path = locate(source, suffixes=("",))
    return _parsed(read_text(path), path)


def net_of_text(text: str, path: Path) -> NetSpec:
    """Read a net from its prototxt text; `path` is what errors call it. PrototxtError lists every
    mistake."""
    proto, root = parse(text, caffe.NetParameter(), path.name)
    return net_from_proto(proto, root, path)


def is_text(source: str) -> bool:
    """Whether it is a net itself, and no path."""
    return source.startswith(WRITTEN)


def keep(text: str, spec: NetSpec) -> None:
    """Let `load_net` give this net for the text: its places are the lines of a script."""
    if len(_kept) > 3:
        _kept.pop(next(iter(_kept)))
    _kept[text] = spec


_kept: dict[str, NetSpec] = {}  # a few: one text is asked for by many who plan


@lru_cache(maxsize=4)
def _parsed(text: str, path: Path) -> NetSpec:
    """One text is asked for by many who plan."""
    return net_of_text(text, path)


def net_from_proto(proto: caffe.NetParameter, root: Node, path: Path) -> NetSpec:
    """Bring a parsed net to today's format and check what can be checked without shapes."""
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
    """Return the file's text; PrototxtError when it cannot be read or is not UTF-8. Comments may be
    in any encoding: their other bytes become question marks."""
    try:
        content = read_bytes(path, MOST_BYTES)
    except OSError as error:
        raise PrototxtError(f"{path.name}: cannot be read: {reason(error)}") from None
    lines = content.decode("utf-8", errors="surrogateescape").split("\n")
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
    """Whether the layer takes part: any include rule met, or without include rules no exclude rule
    met."""
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
                "exclude", ("given besides 'include', expected only one of the two")
            )
        )
    return found
