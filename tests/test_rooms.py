"""The rooms of the house: which folder may import which. The table is the map."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tests.house.source import GENERATED, OURS, PACKAGES, nodes_of

# A folder may import the folders in its row, and itself. The names that a package exports, its own
# `__init__`, rank above its folders: `nets!` is `nets/__init__.py`. Only other packages may import
# it.
ROOMS: dict[str, str] = {
    "ops": "",
    "ops.reference": "ops",
    "ops.interface": "ops ops.reference",
    "ops.cpu.codegen": "ops",
    "ops.cpu.team": "ops ops.cpu.codegen ops.interface",
    "ops.cpu.gemm": "ops ops.cpu.codegen ops.cpu.team ops.interface ops.reference",
    "ops.cpu.depthwise": "ops ops.cpu.codegen ops.cpu.gemm",
    "ops.cpu.tiled": "ops ops.cpu.codegen ops.cpu.gemm ops.cpu.team",
    "ops.cpu.elementwise": "ops ops.cpu.codegen ops.cpu.team ops.reference",
    "ops.cpu.recurrent": (
        "ops ops.cpu.codegen ops.cpu.elementwise ops.cpu.gemm ops.cpu.team ops.reference"
    ),
    "ops.cpu.conv": (
        "ops ops.cpu.codegen ops.cpu.depthwise ops.cpu.elementwise ops.cpu.gemm ops.cpu.team "
        "ops.cpu.tiled ops.reference"
    ),
    "ops.cpu": "",
    "ops.cuda.kernels": "",
    "ops.cuda": "ops ops.cuda.kernels ops.interface ops.reference",
    "ops.cuda.conv": "ops ops.cuda ops.reference",
    "ops.cuda.copies": "ops ops.cuda",
    "ops.backends": "ops ops.cpu.conv ops.cpu.elementwise ops.cpu.gemm ops.cpu.recurrent ops.cpu.team "
    "ops.cuda ops.cuda.conv ops.cuda.copies"
    " ops.interface",
    "ops!": "ops ops.backends ops.cpu.codegen ops.cpu.gemm ops.interface",
    "nets": "",
    "nets.schema": "",
    "nets.imported": "nets nets.schema",
    "nets.definition": "nets nets.imported nets.schema ops!",
    "nets.zoo": "nets nets.definition",
    "nets.files": "nets nets.definition nets.imported nets.schema",
    "nets.data.pictures": "nets nets.files",
    "nets.data.decoding": "nets nets.data.pictures",
    "nets.data.augmentation": "nets nets.data.pictures nets.definition nets.files nets.schema",
    "nets.data.sources": "nets nets.data.decoding nets.definition nets.files",
    "nets.data.lmdb": (
        "nets nets.data.decoding nets.data.pictures nets.data.sources nets.files nets.schema"
    ),
    "nets.data.batches": "nets nets.data.augmentation nets.data.sources nets.definition",
    "nets.data": (
        "nets nets.data.augmentation nets.data.batches nets.data.decoding nets.data.lmdb "
        "nets.data.pictures nets.data.sources nets.definition"
    ),
    "nets.layers": "nets nets.definition nets.schema ops! ops.reference",
    "nets.graph": ("nets nets.data nets.data.batches nets.definition nets.layers nets.schema ops!"),
    "nets.sharding": "nets nets.definition nets.graph nets.layers nets.schema ops!",
    "nets.tools": (
        "nets nets.data nets.data.lmdb nets.data.sources nets.definition nets.files nets.graph "
        "nets.layers nets.schema"
    ),
    "nets.predict": (
        "nets nets.data nets.data.decoding nets.data.pictures nets.data.sources nets.definition "
        "nets.files nets.graph nets.layers nets.schema nets.zoo ops!"
    ),
    "nets.onnx": "nets nets.definition nets.files nets.graph nets.layers nets.predict ops!",
    "nets!": "nets nets.definition nets.graph nets.imported",
    "runtime": "",
    "runtime.messages": "runtime",
    "runtime.memory": "runtime",
    "runtime.machine": "runtime",
    "runtime.records": "runtime runtime.machine",
    "runtime.transport.zmtp": "runtime",
    "runtime.transport": (
        "runtime runtime.machine runtime.memory runtime.messages runtime.transport.zmtp"
    ),
    "runtime.compute": "runtime runtime.machine",
    "runtime.tracing": "runtime runtime.machine runtime.messages runtime.records",
    "runtime.serving": "",
    "runtime.actors": "runtime runtime.compute runtime.memory runtime.messages "
    "runtime.serving runtime.tracing"
    " runtime.transport",
    "runtime.config": "runtime runtime.machine",
    "runtime.queueing": "",
    "runtime.plan": "runtime runtime.actors runtime.config runtime.machine runtime.memory "
    "runtime.messages"
    " runtime.records runtime.transport",
    "runtime.drawing": "runtime runtime.plan",
    "runtime.cluster.machines": (
        "runtime runtime.compute runtime.machine runtime.messages runtime.transport"
    ),
    "runtime.cluster.kubernetes": "runtime runtime.config",
    "runtime.cluster.operators": "runtime runtime.cluster runtime.config runtime.machine "
    "runtime.messages runtime.plan"
    " runtime.transport",
    "runtime.cluster": "runtime runtime.actors runtime.compute runtime.config "
    "runtime.machine runtime.memory"
    " runtime.messages runtime.plan runtime.tracing runtime.transport",
    "runtime.cluster.supervising": "runtime runtime.actors runtime.cluster runtime.machine "
    "runtime.messages runtime.plan runtime.transport",
    "runtime.cluster.launchers": "runtime runtime.cluster runtime.cluster.kubernetes "
    "runtime.cluster.machines"
    " runtime.config runtime.machine runtime.memory runtime.messages runtime.plan",
    "runtime.simulation": (
        "runtime runtime.actors runtime.compute runtime.plan runtime.tracing runtime.transport"
    ),
    "runtime.report": (
        "runtime runtime.actors runtime.cluster runtime.machine runtime.plan runtime.records"
    ),
    "runtime.page": "runtime runtime.compute runtime.drawing runtime.machine runtime.plan "
    "runtime.records"
    " runtime.report",
    "runtime.attached": "runtime runtime.actors runtime.cluster runtime.cluster.operators "
    "runtime.compute"
    " runtime.machine runtime.messages runtime.plan runtime.records runtime.report "
    "runtime.transport",
    "runtime.runs": "runtime runtime.actors runtime.cluster runtime.cluster.launchers "
    "runtime.cluster.operators runtime.cluster.supervising"
    " runtime.compute runtime.config runtime.machine runtime.memory runtime.messages runtime.page runtime.plan"
    " runtime.records runtime.report runtime.serving runtime.simulation"
    " runtime.transport",
    "runtime.pool": "runtime runtime.actors runtime.machine runtime.memory runtime.messages "
    "runtime.plan runtime.runs",
    "runtime.recovery": "runtime runtime.cluster runtime.cluster.operators runtime.config"
    " runtime.messages runtime.plan"
    " runtime.records runtime.report runtime.runs",
    "runtime.cli.watch": "runtime runtime.attached runtime.cli runtime.cluster.operators "
    "runtime.machine runtime.plan"
    " runtime.records runtime.report runtime.runs runtime.tracing",
    "runtime.cli": "runtime runtime.attached runtime.cluster runtime.cluster.launchers "
    "runtime.cluster.operators runtime.config"
    " runtime.drawing runtime.machine runtime.page runtime.plan"
    " runtime.records runtime.recovery"
    " runtime.report runtime.runs",
    "runtime!": "runtime runtime.actors runtime.attached runtime.cli runtime.cluster "
    "runtime.messages runtime.plan"
    " runtime.pool runtime.report runtime.runs",
    "roles.formats": "ops! ops.reference",
    "roles": "roles.formats runtime runtime.config runtime.messages",
    "roles.learning": "nets! nets.data nets.data.augmentation nets.files nets.graph "
    "nets.sharding ops! roles roles.formats runtime runtime!"
    " runtime.compute runtime.machine runtime.messages",
    "roles.base": (
        "nets! nets.data nets.sharding ops! roles roles.learning runtime "
        "runtime.messages runtime.plan"
    ),
    "roles.exchange": (
        "nets! ops! roles roles.base roles.learning runtime runtime! runtime.memory runtime.plan"
    ),
    "roles.fc": (
        "nets.graph nets.sharding ops! roles roles.base roles.learning runtime! runtime.compute"
    ),
    "roles.workers": (
        "nets! nets.data ops! roles roles.base roles.exchange roles.fc roles.learning runtime! "
        "runtime.plan"
    ),
    "roles.islands": "ops! roles roles.base roles.learning roles.workers runtime! runtime.messages",
    "roles.forecasting": "nets! nets.tools roles roles.base roles.learning runtime "
    "runtime.compute runtime.config runtime.machine runtime.memory"
    " runtime.plan runtime.queueing runtime.transport",
    "roles.tuning": "nets.files ops! roles roles.base roles.forecasting roles.learning runtime runtime! "
    "runtime.plan runtime.records",
    "roles.servers": "nets! ops! roles roles.base roles.learning roles.tuning runtime!",
    "roles.checkpoints": "nets nets! nets.data nets.data.sources nets.files nets.graph nets.predict ops! roles "
    "roles.learning runtime!"
    " runtime.config runtime.plan",
    "roles.coordination": "nets! nets.data nets.predict roles roles.base roles.checkpoints "
    "roles.learning roles.tuning runtime runtime!"
    " runtime.messages",
    "roles.presets": "roles roles.coordination roles.exchange roles.fc roles.islands "
    "roles.learning "
    "roles.servers roles.tuning roles.workers"
    " runtime.plan",
    "roles.planning": "nets! nets.data nets.data.augmentation nets.data.sources nets.files ops! roles roles.base "
    "roles.checkpoints "
    "roles.coordination"
    " roles.exchange roles.fc roles.forecasting roles.formats roles.learning roles.presets "
    "roles.tuning runtime runtime.compute"
    " runtime.config runtime.drawing runtime.plan runtime.queueing runtime.records",
    "roles.choosing": "nets! ops! roles roles.base roles.checkpoints roles.coordination "
    "roles.forecasting"
    " roles.learning roles.planning roles.presets roles.tuning runtime runtime.compute "
    "runtime.config runtime.plan",
    "roles.commands": "nets! nets.data nets.data.decoding nets.data.sources nets.files nets.onnx nets.predict nets.tools ops! "
    "roles roles.base"
    " roles.checkpoints roles.forecasting roles.learning roles.planning runtime runtime.cli"
    " runtime.compute runtime.config runtime.plan runtime.records runtime.runs",
    "roles!": "ops! roles roles.checkpoints roles.choosing roles.commands roles.coordination "
    "roles.exchange roles.fc roles.forecasting roles.islands roles.planning roles.servers "
    "roles.tuning roles.workers runtime! runtime.config",
}

MODULES = {name.removesuffix(".py").replace("/", "."): name for name in [*OURS, *sorted(GENERATED)]}


def room_of(module: str) -> str:
    """The folder of a module, such as `nets.layers` of `nets.layers.conv`. A package's `__init__`
    and `__main__` are a separate room, `nets!`.
    """
    folder, _, last = module.rpartition(".")
    return f"{folder}!" if folder in PACKAGES and last in ("__init__", "__main__") else folder


def imported(name: str) -> Iterator[tuple[str, int]]:
    """The module and the line of each import of our own code. `from package import module` imports
    the module, `from package import name` the package's `__init__`.
    """
    for node in nodes_of(name):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            wanted = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in wanted:
            parent = target.rpartition(".")[0]
            known = (target, f"{target}.__init__", parent, f"{parent}.__init__")
            if module := next((module for module in known if module in MODULES), None):
                yield module, node.lineno


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """All nodes that are in a circle or lead to one, as one list. Nodes without targets are removed
    again and again; the rest is the list.
    """
    left = {name: set(targets) - {name} for name, targets in graph.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    return [sorted(left)] if left else []


def test_every_folder_is_in_the_table_and_imports_only_the_folders_of_its_row() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    where = {}
    for module, name in MODULES.items():
        room = room_of(module)
        found[room] |= set()
        for target, line in imported(name):
            if room_of(target) != room:
                found[room].add(room_of(target))
                where[room, room_of(target)] = f"{name}:{line} imports {target}"
    wanted = {room: set(rooms.split()) for room, rooms in ROOMS.items()}
    assert set(found) - set(wanted) == set(), "add a row for each of these folders to ROOMS"
    assert set(wanted) - set(found) == set(), "these folders do not exist: remove them from ROOMS"
    more = [where[room, target] for room in found for target in found[room] - wanted[room]]
    assert more == [], "import only folders below; move the code, or change the row in ROOMS"


def test_no_circle_of_imports_by_folder() -> None:
    assert circles({room: rooms.split() for room, rooms in ROOMS.items()}) == []


def test_no_circle_of_imports_by_file() -> None:
    assert (
        circles(
            {module: [target for target, _ in imported(name)] for module, name in MODULES.items()}
        )
        == []
    )


def test_a_circle_would_be_found() -> None:
    assert circles({"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": []}) == [["a", "b", "c"]]
