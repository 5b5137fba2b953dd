"""`plan` predicts the cluster that `up` starts: the same actors with the same options on each
machine, for one kind of machine and for machines of different kinds."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import roles
from roles.planning import predicted_times
from runtime.cli.main import main
from runtime.plan.program import checked
from runtime.plan.prospects import Prospects, Wanted
from runtime.plan.run_plan import RunPlan
from runtime.plan.topology import Placement
from runtime.runs.checking import check
from tests.helpers.support import SOLVER, run_directory, run_up

SHAPES = {"lenet": [1, 28, 28], "cifar10_quick": [3, 32, 32], "caffenet": [3, 227, 227]}
CLUSTER = """[train]
net = "{net}"
solver = "solver.prototxt"
batch = {batch}
devices = {{ "*" = "emulated:times.json" }}
[train.data]
train = {{ format = "blank", shape = {shape}, size = 65536 }}
[train.strategy]
preset = "{preset}"
workers = {workers}
"""
FAST = "g2.8xlarge"
SLOW = "c4.4xlarge"
FAR = '[launcher]\nkind = "manual"\n'


@dataclass(frozen=True)
class Case:
    """A net and a preset on machines, each with its kind."""

    net: str
    preset: str
    workers: int
    kinds: tuple[str, ...]
    strategy: str = ""

    def __str__(self) -> str:
        return f"{self.preset}-{self.workers}-on-{len(self.kinds)}-{self.net}"

    def write(self, folder: Path, machines: str, iterations: int = 10) -> Path:
        """Write a cluster.toml with these tables of machines."""
        folder.mkdir(parents=True, exist_ok=True)
        solver = SOLVER.format(iterations=iterations).replace("lenet", self.net)
        (folder / "solver.prototxt").write_text(solver)
        (folder / "times.json").write_text(json.dumps({"*/*": 0.001}))
        text = CLUSTER.format(
            net=self.net, batch=64, shape=SHAPES[self.net], preset=self.preset, workers=self.workers
        )
        path = folder / "cluster.toml"
        path.write_text(f"{machines}{text}{self.strategy}")
        return path

    def mixed(self, more: str = "") -> str:
        """A [[machine]] of each kind."""
        return "".join(
            f'[[machine]]\nname = "m{number}"\nkind = "{kind}"\n{more}'
            for number, kind in enumerate(self.kinds)
        )


def equal(net: str, preset: str, workers: int, machines: int, strategy: str = "") -> Case:
    return Case(net, preset, workers, (SLOW,) * machines, strategy)


ALIKE = [
    equal("lenet", "omnivore", 1, 2),
    equal("lenet", "sync", 4, 5),
    equal("lenet", "local-fc-shards", 4, 6),
    equal("cifar10_quick", "omnivore", 8, 9, "groups = 4\n"),
    equal("cifar10_quick", "replicas", 7, 7),
    equal("cifar10_quick", "mxnet-sync", 4, 4, "servers = 3\n"),
    equal("caffenet", "omnivore", 4, 5, "groups = 2\npipeline = 2\n"),
    equal("caffenet", "one-weird-trick", 4, 4),
]
MIXED = [
    Case("lenet", "omnivore", 2, (FAST, SLOW, SLOW)),
    Case("lenet", "replicas", 3, (SLOW, FAST, SLOW)),
    Case("cifar10_quick", "omnivore", 6, (FAST, FAST, *[SLOW] * 4), "groups = 2\n"),
    Case("cifar10_quick", "singa", 4, (SLOW, SLOW, FAST, SLOW, SLOW), "groups = 2\n"),
    Case("caffenet", "omnivore", 8, (FAST, *[SLOW] * 8), "groups = 3\n"),
    Case("caffenet", "local-fc-shards", 3, (FAST, SLOW, SLOW, FAST, FAST), "groups = 2\n"),
]


def homes(placement: Placement) -> list[tuple[str, ...]]:
    """The actors of each machine that has some, whatever the machines are called."""
    found: dict[str, list[str]] = {}
    for process in placement.processes:
        found.setdefault(process.machine, []).extend(process.actors)
    return sorted(tuple(sorted(actors)) for actors in found.values())


def printed(text: str) -> list[tuple[str, ...]]:
    """The actors of each machine, from the output of `plan`."""
    found: dict[str, list[str]] = {}
    head, *table = re.split("^(?=process )", text, flags=re.MULTILINE)[1].splitlines()
    at = ""
    for line in itertools.takewhile(bool, table):
        # the further actors of a process are in lines of their own
        at = line[head.index("machine") : head.index("threads")].strip() or at
        actor = line[head.index("actor") : head.index("role")].strip()
        found.setdefault(at, []).append(actor)
    return sorted(tuple(sorted(actors)) for actors in found.values())


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> list[Placement]:
    """The placements whose times `plan` has predicted."""
    seen: list[Placement] = []
    choice = predicted_times._Asked._choice

    def noted(self: object, number: int, one: object, placement: Placement) -> object:
        seen.append(placement)
        return choice(self, number, one, placement)  # type: ignore[arg-type]

    monkeypatch.setattr(predicted_times._Asked, "_choice", noted)
    return seen


@pytest.mark.parametrize("case", ALIKE, ids=str)
def test_plan_for_a_kind_lays_out_what_up_starts_on_so_many_machines(
    case: Case, tmp_path: Path, placed: list[Placement], capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = f'{FAR}[[machine]]\nhosts = "n[1-{len(case.kinds)}]"\n'
    started = check(case.write(tmp_path / "up", hosts)).placement
    assert main(["plan", str(case.write(tmp_path / "plan", "")), "--machine", SLOW]) == 0
    assert printed(capsys.readouterr().out) == homes(started)
    assert len(homes(started)) == len(case.kinds)
    same = [one for one in placed if homes(one) == homes(started)]
    assert [options_of(one) for one in same] == [options_of(started)]


@pytest.mark.parametrize("case", MIXED, ids=str)
def test_plan_for_machines_of_several_kinds_lays_out_what_up_starts_on_them(
    case: Case, tmp_path: Path, placed: list[Placement], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = case.write(tmp_path, case.mixed())
    started = check(cluster).placement
    assert main(["plan", str(cluster)]) == 0
    out = capsys.readouterr().out
    assert printed(out) == homes(started)
    assert re.search("^predicted: machines of kinds (?=.*g2.8x)(?=.*c4.4x)", out, re.MULTILINE)
    assert options_of(started) in [options_of(one) for one in placed]


def options_of(placement: Placement) -> list[tuple[str, str]]:
    """The options of each actor as text, without the folder of the run."""
    return [
        (actor.name, re.sub(r"/[^' ]+/(?:up|plan)\b", "", repr(actor.options)))
        for actor in placement.topology.actors
    ]


REAL = [MIXED[0], MIXED[2], equal("lenet", "sync", 4, 5)]


@pytest.mark.few("[omnivore-2-on-3-lenet]")
@pytest.mark.parametrize("case", REAL, ids=str)
def test_processes_of_a_run_on_machines_with_kinds_are_those_of_the_plan(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = case.write(tmp_path, case.mixed("threads = 1\n"), iterations=4)
    assert main(["plan", str(cluster)]) == 0
    foretold = capsys.readouterr().out
    done = run_up(cluster)
    assert done.returncode == 0, done.stderr
    started = RunPlan.read(run_directory(cluster)).placement
    assert homes(started) == printed(foretold)
    made = checked(started.topology)
    planned = check(cluster).placement.topology
    assert [actor.options for actor in made.actors] == [actor.options for actor in planned.actors]


# -- what follows from kinds


def groups(cluster: Path, *settings: str) -> list[list[tuple[str, int]]]:
    """The workers of each group and their rows."""
    from roles.base.shapes import Shapes

    shapes = Shapes(check(cluster, settings, starts=False).placement.topology)
    return [[(name, shapes.rows(name)) for name in members] for members in shapes.groups]


def sizes(cluster: Path, *settings: str) -> list[list[int]]:
    return [[rows for _, rows in members] for members in groups(cluster, *settings)]


def test_groups_and_rows_follow_the_speeds_of_the_machines_unless_the_file_says_otherwise(
    tmp_path: Path,
) -> None:
    # a g2.8xlarge is 5.2 times as fast as a c4.4xlarge
    case = Case("lenet", "omnivore", 6, (FAST, *[SLOW] * 6), "groups = 2\n")
    cluster = case.write(tmp_path, case.mixed())
    assert sizes(cluster) == [[64], [13, 13, 13, 13, 12]]
    assert sizes(cluster, "train.strategy.groups=1") == [[30, 7, 7, 7, 7, 6]]
    equally = ("train.strategy.shares='equal'",)
    assert sizes(cluster, *equally, "train.strategy.groups=1") == [[11, 11, 11, 11, 10, 10]]
    assert [len(rows) for rows in sizes(cluster, *equally)] == [1, 5]
    live = sizes(cluster, "train.strategy.live=true")
    assert [len(rows) for rows in live] == [3, 3]  # groups that can be changed are equally large
    assert live[0][0] > 2 * live[0][1]
    repeats = ("train.strategy.reproducible=true", "train.devices={}")
    assert sizes(cluster, *repeats, "train.strategy.groups=3") == [[32, 32]] * 3
    same = Case("lenet", "omnivore", 6, (SLOW,) * 7, "groups = 2\n")
    assert sizes(same.write(tmp_path / "same", same.mixed())) == [[22, 21, 21]] * 2


def test_groups_are_equal_and_the_user_is_told_if_a_rule_would_move_workers(
    tmp_path: Path,
) -> None:
    case = Case("lenet", "omnivore", 4, (FAST, *[SLOW] * 4), "groups = 2\n")
    rule = '[[process]]\nname = "w"\nmachine = "m1"\nactors = ["conv-0-1"]\n'
    cluster = case.write(tmp_path, case.mixed() + rule)
    assert [len(rows) for rows in sizes(cluster)] == [2, 2]
    (told,) = [line for line in check(cluster).warnings if "equally large" in line]
    assert "train.strategy.groups: groups are equally large, although" in told


def test_a_note_tells_the_rows_that_follow_from_kinds(tmp_path: Path) -> None:
    cluster = MIXED[0].write(tmp_path, MIXED[0].mixed())
    of_rows, of_kinds = check(cluster).notes[-2:]
    assert of_rows.endswith("as soon as the run has them: 53, 11")
    assert of_kinds.startswith("machine.kind: `plan` predicts with the figures of the kinds; `up` ")


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        (
            '[[machine]]\nname = "a"\nkind = "c4.4xlarg"\n',
            "cluster.toml:3: machine[0].kind: found 'c4.4xlarg', no such kind in the catalogue "
            "(did you mean 'c4.4xlarge'?)",
        ),
        (
            f'[[machine]]\nname = "a"\nkind = "{SLOW}"\n[[machine]]\nname = "b"\n',
            "machine[1].kind: missing for machine 'b', but other machines have one",
        ),
        (
            f'[placement]\nkinds = "no.toml"\n[[machine]]\nkind = "{SLOW}"\n',
            "cluster.toml:2: placement.kinds: ",
        ),
    ],
)
@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_kind_that_is_not_known_is_refused_with_its_line(
    command: str, tables: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = equal("lenet", "sync", 2, 1).write(tmp_path, tables)
    assert main([command, str(cluster)]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "Traceback" not in err


def test_own_kinds_come_from_the_file_that_placement_or_the_command_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "[machine.ours]\nflops = 1e12\nshare = 0.5\nbytes_per_second = '{}MB'\n"
    (tmp_path / "ours.toml").write_text(own.format(100))
    (tmp_path / "other.toml").write_text(own.format(50))
    tables = '[placement]\nkinds = "ours.toml"\n[[machine]]\nkind = "ours"\n'
    cluster = equal("lenet", "sync", 2, 1).write(tmp_path, tables)
    assert main(["plan", str(cluster)]) == 0
    assert "machines of kind ours, 100 MB/s each way" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    for words in ((), ("--machine", "ours")):
        assert main(["plan", "--machines", "other.toml", *words]) == 0
        assert "machines of kind ours, 50 MB/s each way" in capsys.readouterr().out


def prospects_of(cluster: Path, wanted: Wanted | None = None) -> Prospects:
    found = check(cluster, starts=False)
    assert isinstance(found.loaded.options, roles.Options)
    return roles.prospects(
        found.loaded.config, found.loaded.options, found.placement, wanted or Wanted()
    )


def test_a_row_of_the_plan_has_the_sizes_that_its_groups_have_on_machines_of_other_kinds(
    tmp_path: Path,
) -> None:
    case = Case("lenet", "omnivore", 6, (FAST, *[SLOW] * 6), "groups = 2\n")
    found = prospects_of(case.write(tmp_path, case.mixed()))
    names = [choice.name for choice in found.choices]
    assert names[:2] == ["1 group of 6", "2 groups of 1 to 5"]
    every = prospects_of(tmp_path / "cluster.toml", Wanted(presets=True))
    assert "omnivore, 2 groups of 1 to 5" in {choice.name for choice in every.choices}
    assert "single, 1 group of 1" in {choice.name for choice in every.choices}


def test_each_machine_has_the_speed_the_network_and_the_price_of_its_kind(tmp_path: Path) -> None:
    catalogue = tmp_path / "k.toml"

    def kind(name: str, flops: float, rate: str, price: float) -> str:
        return (
            f"[machine.{name}]\nflops = {flops}\nshare = 1.0\nbytes_per_second = '{rate}'\n"
            f"price_per_hour = {price}\nlatency = 0.0\n"
        )

    catalogue.write_text(
        kind("quick", 4e11, "1GB", 4.0)
        + kind("slow", 1e11, "1GB", 1.0)
        + kind("narrow", 4e11, "1MB", 2.0)
    )
    seconds: dict[tuple[str, ...], float] = {}
    prices = {}
    for kinds in (("quick", "quick"), ("slow", "slow"), ("quick", "slow"), ("quick", "narrow")):
        case = Case("lenet", "omnivore", 1, kinds)
        tables = '[placement]\nkinds = "../k.toml"\n' + case.mixed()
        cluster = case.write(tmp_path / "-".join(kinds), tables)
        cluster.write_text(cluster.read_text().replace("emulated:times.json", "emulated"))
        found = prospects_of(cluster)
        seconds[kinds] = found.of_chosen.seconds
        prices[kinds] = found.price_per_hour()
    # the worker on the first machine, the FC server on the second
    assert seconds["slow", "slow"] > seconds["quick", "slow"] > seconds["quick", "quick"]
    assert seconds["quick", "narrow"] > 100 * seconds["quick", "quick"]
    assert prices == {
        ("quick", "quick"): 8.0,
        ("slow", "slow"): 2.0,
        ("quick", "slow"): 5.0,
        ("quick", "narrow"): 6.0,
    }


def test_processes_of_a_machine_share_its_flops(tmp_path: Path) -> None:
    def seconds(machines: int) -> float:
        case = equal("lenet", "omnivore", 1, machines)
        cluster = case.write(tmp_path / str(machines), case.mixed())
        text = cluster.read_text().replace("emulated:times.json", "emulated")
        fast = '[placement]\nkinds = "k.toml"\n'
        cluster.write_text(fast + text.replace(SLOW, "k"))
        (cluster.parent / "k.toml").write_text("[machine.k]\nflops = 1e9\nshare = 1.0\n")
        return prospects_of(cluster).choices[0].use["fc_server"]

    # alone, the FC server waits for its worker; together, their machine is always busy
    assert seconds(1) == pytest.approx(1.0)
    assert seconds(2) < 0.6


def without_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from runtime.machine.memory import MachineMemory

    monkeypatch.setattr(MachineMemory, "total", property(lambda self: 1_000_000))
    monkeypatch.setattr(MachineMemory, "available", property(lambda self: 1_000_000))


def commands(cluster: Path) -> Iterator[list[str]]:
    yield ["plan", str(cluster), "--machine", SLOW]
    yield ["plan", str(cluster), "--machine", SLOW, "--machine", FAST, "--presets"]


def test_a_plan_for_other_machines_does_not_need_the_memory_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_memory(tmp_path, monkeypatch)
    case = equal("lenet", "sync", 2, 3)
    cluster = case.write(tmp_path / "one", "")
    cluster.write_text(re.sub("devices.*\n", "", cluster.read_text()))
    mixed = case.write(tmp_path / "kinds", case.mixed())
    mixed.write_text(re.sub("devices.*\n", "", mixed.read_text()))
    for words in (*commands(cluster), ["plan", str(mixed)]):
        assert main(words) == 0, words
        capsys.readouterr()
    for words in (["plan", str(cluster)], ["check", str(cluster)], ["check", str(mixed)]):
        assert main(words) == 2, words
        assert "but this machine (or its control group) has 1 MB" in capsys.readouterr().err
