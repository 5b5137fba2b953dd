"""Mistakes in a program of one's own: each is named with its place, most of them before anything
starts; and answers that need no class."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runtime
from runtime import Actor, ActorSpec, ConfigError, Envelope, Message, Peer, Topology, message
from runtime.cli.main import main
from tests.helpers.support import environment


@message
class Halve(Message):
    number: float


class Halver(Actor):
    def __init__(self, *, rounds: int = 1) -> None:
        self._rounds = rounds

    async def on_halve(self, message: Halve, envelope: Envelope) -> object:
        if message.number < 0:
            raise ValueError("negative")
        if message.number == 1:
            return {"halves": (0.5, np.full(3, 0.5))}
        return message.number / 2


@dataclass(frozen=True, kw_only=True)
class AskerOptions:
    halvers: tuple[Peer, ...]
    spare: Peer | None = None
    number: float = 4


class Asker(Actor):
    Options = AskerOptions

    def __init__(self, options: AskerOptions) -> None:
        self._options = options

    async def run(self) -> None:
        said = await self.ask(self._options.halvers[0], Halve(number=self._options.number), float)
        whole = await self.ask(self._options.halvers[0], Halve(number=1), dict)
        self.emit("halved", half=said, sum=float(whole["halves"][1].sum()))


class Keywords(Actor):
    def __init__(self, *, halvers: list[Peer], by_name: dict[str, Peer] | None = None) -> None:
        self._halvers = halvers
        self._by_name = by_name

    async def run(self) -> None:
        await self.ask("halvor", Halve(number=4), float)


ROLES = {"halver": Halver, "asker": Asker, "keywords": Keywords}


def topology(*links: tuple[str, str], **options: Any) -> Topology:
    asker = ActorSpec("asker", "asker", {"halvers": ("halver",), **options})
    return Topology(__name__, (asker, ActorSpec("halver", "halver")), links, "asker")


LINK = ("asker", "halver")


def problems_of(given: Topology) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        runtime.launch(given)
    return refused.value.problems


@pytest.mark.parametrize("processes", ["here", "one-per-actor"])
def test_a_plain_value_answers_an_ask(tmp_path: Path, processes: Any) -> None:
    result = runtime.run(topology(LINK), directory=tmp_path, processes=processes)
    assert result == {"half": 2.0, "sum": 1.5}


@pytest.mark.parametrize("processes", ["here", "one-per-actor"])
def test_an_exception_in_a_handler_is_shown_with_the_line_of_the_handler_first(
    tmp_path: Path, processes: Any
) -> None:
    lines = Path(__file__).read_text().splitlines()
    raised = 1 + lines.index('            raise ValueError("negative")')
    with pytest.raises(runtime.RoleDied) as died:
        runtime.run(topology(LINK, number=-1), directory=tmp_path, processes=processes)
    assert f"test_first_try.py:{raised}, in on_halve: ValueError: negative" in str(died.value)


def test_an_answer_of_another_type_is_reported_with_both(tmp_path: Path) -> None:
    with pytest.raises(runtime.RoleDied, match=r"halver answered \{'halves'.* expected float"):
        runtime.run(topology(LINK, number=1), directory=tmp_path, processes="here")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"halvers": ("halvor",)},
            "actor 'asker' (role 'asker'): halvers[0]: no actor is called 'halvor' "
            "(did you mean 'halver'?)",
        ),
        ({"spare": "nobody"}, "actor 'asker' (role 'asker'): spare: no actor is called 'nobody'"),
        (
            {"numbr": 3},
            "actor 'asker' (role 'asker'): numbr: unknown key (did you mean 'number'?)",
        ),
    ],
)
def test_a_wrong_peer_and_an_unknown_option_are_refused_before_the_start(
    options: dict[str, Any], expected: str
) -> None:
    assert problems_of(topology(LINK, **options)) == [expected]


def test_a_forgotten_link_is_refused_before_the_start() -> None:
    assert problems_of(topology()) == [
        "actor 'asker' (role 'asker'): halvers[0]: it has no link to 'halver': add "
        "('asker', 'halver') to the links of the topology"
    ]
    given = topology()
    keywords = ActorSpec("asker", "keywords", {"halvers": ["halver"], "by_name": {"a": "halver"}})
    given = dataclasses.replace(given, actors=(keywords, *given.actors[1:]))
    assert [line.partition(": it has")[0] for line in problems_of(given)] == [
        "actor 'asker' (role 'keywords'): halvers[0]",
        "actor 'asker' (role 'keywords'): by_name.a",
    ]


def test_an_unknown_keyword_and_an_unknown_role_are_refused_with_the_nearest_name() -> None:
    given = topology(LINK)
    wrong = (
        dataclasses.replace(given.actors[1], options={"round": 2}),
        dataclasses.replace(given.actors[1], name="other", role="halvr"),
    )
    given = dataclasses.replace(given, actors=(given.actors[0], *wrong))
    first, second = problems_of(given)
    assert first == ("actor 'halver' (role 'halver'): round: unknown key (did you mean 'rounds'?)")
    assert second.startswith(
        "actor 'other': the program has no role 'halvr' (did you mean 'halver'?)"
    )


@pytest.mark.parametrize(
    ("links", "lead", "expected"),
    [
        ((("asker", "halvor"),), "asker", "no actor is called 'halvor', but a link names it (did"),
        (("asker", "halver"), "asker", "links: found 'asker', expected a pair of names such as"),
        ((LINK,), "askr", "no actor is called 'askr', but it is the lead (did you mean 'asker'?)"),
    ],
)
def test_a_wrong_link_and_a_wrong_lead_are_refused_when_the_topology_is_made(
    links: Any, lead: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        Topology(
            __name__, (ActorSpec("asker", "asker"), ActorSpec("halver", "halver")), links, lead
        )
    assert expected in str(refused.value)


def test_a_message_to_a_wrong_name_is_reported_with_the_nearest_one_and_the_line(
    tmp_path: Path,
) -> None:
    keywords = ActorSpec("asker", "keywords", {"halvers": ["halver"]})
    given = topology(LINK)
    given = dataclasses.replace(given, actors=(keywords, given.actors[1]))
    with pytest.raises(runtime.RoleDied) as died:
        runtime.run(given, directory=tmp_path, processes="here")
    assert (
        ", in run: asker has no link to an actor called 'halvor' (did you mean 'halver'?)"
        in str(died.value)
    )


def test_an_exception_of_a_programs_plan_is_reported_with_its_line_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "planless.py").write_text('ROLES = {}\ndef plan(config, options):\n    {}["x"]\n')
    (tmp_path / "cluster.toml").write_text('program = "planless"\n')
    assert main(["check"]) == 1
    assert capsys.readouterr().err == "planless.py:3, in plan: KeyError: 'x'\n"


def test_an_installed_preset_is_the_users_code_and_other_packages_are_not(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "bent.py").write_text("from other import fail\ndef bend():\n    fail()\n")
    (site / "other.py").write_text("def fail():\n    raise KeyError('deep')\n")
    information = site / "bent-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: bent\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[convoy.presets]\nbent = bent:bend\n")
    script = (
        "import site, sys\n"
        f"site.getsitepackages = lambda: [{str(site)!r}]\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "from bent import bend\n"
        "from runtime.user_code import told\n"
        "try:\n    bend()\n"
        "except KeyError as error:\n    print(told(error))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "site/bent.py:3, in bend: KeyError: 'deep'\n", done.stderr
