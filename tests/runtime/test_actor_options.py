"""Options of actors: typed by their class, plain data in transit, and every mistake reported before
any process starts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import runtime
from runtime import Actor, ActorSpec, ConfigError, Topology
from runtime.actor_options import plain, typed
from runtime.plan.program import made_of
from runtime.plan.topology import Placement, ProcessSpec


class Way(NamedTuple):
    to: str
    part: int


@dataclass(frozen=True, kw_only=True)
class Limits:
    most: int = 1


@dataclass(frozen=True, kw_only=True)
class GreeterOptions:
    greeting: str
    ways: tuple[Way, ...] = ()
    limits: Limits = Limits()
    seconds: Mapping[str, int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.greeting:
            raise ValueError("greeting: found nothing, expected a word")


class Greeter(Actor):
    Options = GreeterOptions

    def __init__(self, options: GreeterOptions) -> None:
        self.options = options

    async def run(self) -> None:
        self.emit("greeted", word=self.options.greeting, most=self.options.limits.most)


class Plain(Actor):
    def __init__(self, *, rank: int) -> None:
        self.rank = rank


ROLES = {"greeter": Greeter, "plain": Plain}
GIVEN = GreeterOptions(
    greeting="ahoy", ways=(Way("b", 1),), limits=Limits(most=2), seconds={"a": 1, "b": 0.5}
)


def of(*actors: ActorSpec) -> Topology:
    return Topology(__name__, actors, (), actors[0].name)


def test_typed_options_become_plain_data_and_are_the_same_on_the_other_side() -> None:
    placement = Placement(
        of(ActorSpec("a", "greeter", GIVEN)), (ProcessSpec("a", "local", ("a",)),)
    )
    there = Placement.from_json(placement.to_json()).topology.actors[0]
    assert there.options == {
        "greeting": "ahoy",
        "ways": [["b", 1]],
        "limits": {"most": 2},
        "seconds": {"a": 1, "b": 0.5},
    }
    made = made_of(ROLES, there)
    assert isinstance(made, Greeter)
    assert made.options == GIVEN
    assert type(made.options.seconds["a"]) is int


def test_every_actor_has_its_own_options() -> None:
    spec = ActorSpec("a", "greeter", GIVEN)
    one = made_of(ROLES, spec)
    other = made_of(ROLES, spec)
    assert isinstance(one, Greeter) and isinstance(other, Greeter)
    assert one.options == other.options
    assert one.options.seconds is not other.options.seconds


MISTAKES: dict[str, tuple[Any, str]] = {
    "missing": ({}, "greeting: missing"),
    "unknown": ({"greeting": "a", "limts": {}}, "limts: unknown key (did you mean 'limits'?)"),
    "unknown inside": (
        {"greeting": "a", "limits": {"mst": 1}},
        ("limits.mst: unknown key (did you mean 'most'?)"),
    ),
    "of another type": ({"greeting": 3}, "greeting: found int, expected str"),
    "of another type inside": (
        {"greeting": "a", "ways": [["b", "1"]]},
        "ways[0][1]: found str, expected int",
    ),
    "what the class itself refuses": ({"greeting": ""}, "greeting: found nothing, expected a word"),
    "an instance with a wrong value": (
        GreeterOptions(greeting=3),
        "greeting: found int, expected str",
    ),  # type: ignore[arg-type]
    "no data": ({"greeting": object()}, "Encoding objects of type object is unsupported"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_names_the_key_and_what_is_wrong(name: str) -> None:
    given, expected = MISTAKES[name]
    with pytest.raises(ValueError) as caught:
        typed(GreeterOptions, given)
    assert str(caught.value) == expected


def test_all_mistakes_of_a_topology_are_reported_before_any_process_starts(tmp_path: Path) -> None:
    wrong = of(
        ActorSpec("a", "greeter", {"greeting": 1}),
        ActorSpec("b", "greeter", GIVEN),
        ActorSpec("c", "plain", {"rnk": 1}),
        ActorSpec("d", "greter"),
    )
    with pytest.raises(ConfigError) as caught:
        runtime.launch(wrong, directory=tmp_path)
    assert caught.value.problems == [
        "actor 'a' (role 'greeter'): greeting: found int, expected str",
        "actor 'c' (role 'plain'): rnk: unknown key (did you mean 'rank'?)",
        "actor 'd': the program has no role 'greter' (did you mean 'greeter'?); its roles are greeter, plain",
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("processes", ["one", "here"])
def test_an_actor_gets_its_options_typed_in_any_process(tmp_path: Path, processes: Any) -> None:
    topology = of(ActorSpec("a", "greeter", dataclasses.replace(GIVEN, greeting="hello")))
    assert runtime.run(topology, directory=tmp_path, processes=processes) == {
        "word": "hello",
        "most": 2,
    }


def test_plain_data_stay_as_they_are() -> None:
    assert plain({"a": [1, 2.5, None, True, "x"]}) == {"a": [1, 2.5, None, True, "x"]}


def test_a_missing_program_is_reported_before_any_process_starts(tmp_path: Path) -> None:
    nowhere = Topology("no_such_program", (ActorSpec("a", "greeter", GIVEN),), (), "a")
    with pytest.raises(
        ConfigError,
        match=(r"^topology: program 'no_such_program' cannot be " r"imported: No module named"),
    ):
        runtime.launch(nowhere, directory=tmp_path)
