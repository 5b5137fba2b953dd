"""The decisions about actors that others start and end: the present placement, and every refusal in
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.config.file import load
from runtime.errors import ConfigError, Refused
from runtime.plan.growth import Growth
from runtime.plan.placement import place, placed_later
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology


def beside(actor: ActorSpec, linked: Sequence[str], placement: Placement) -> ProcessSpec:
    return ProcessSpec(actor.name, "m", (actor.name,))


def growth() -> Growth:
    topology = Topology(
        "program", (ActorSpec("pool", "pool"), ActorSpec("log", "log")), (("pool", "log"),), "pool"
    )
    processes = (ProcessSpec("pool", "m", ("pool",)), ProcessSpec("rest", "m", ("log",)))
    return Growth(Placement(topology, processes), beside)


def started(made: Growth, parent: str, name: str, links: Sequence[str] = ()) -> ProcessSpec:
    spec = made.start(parent, ActorSpec(name, "worker"), links)
    made.began(name)
    return spec


def test_a_started_actor_has_a_process_of_its_own_and_links_in_both_directions() -> None:
    made = growth()
    spec = started(made, "pool", "w", ["log", "pool"])
    assert (spec.name, spec.actors, spec.number) == ("w", ("w",), 1)
    assert made.placement.topology.links == (("pool", "log"), ("pool", "w"), ("log", "w"))
    assert list(made.placement.neighbours("w")) == ["pool", "rest"]


def test_an_ended_actor_leaves_the_placement_as_it_was_and_its_name_is_free() -> None:
    made = growth()
    before = made.placement
    started(made, "pool", "w", ["log"])
    assert made.end("pool", "w") == ["w"]
    made.ended("w")
    assert made.placement == before
    assert started(made, "pool", "w").number == 2


def test_the_actors_that_an_ended_actor_has_started_end_before_it() -> None:
    made = growth()
    started(made, "pool", "a")
    started(made, "a", "b")
    started(made, "b", "c")
    started(made, "a", "d")
    order = made.end("pool", "a")
    assert order.index("c") < order.index("b") < order.index("a")
    assert set(order) == {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("name", "links", "words"),
    [
        ("log", [], "an actor or a process of this run has this name"),
        ("rest", [], "an actor or a process of this run has this name"),
        ("", [], "its name is empty"),
        ("x", ["lgo"], "links: no actor is called 'lgo' (did you mean 'log'?)"),
        ("x", ["early"], "actor 'early' has not begun yet"),
        ("x", ["late"], "actor 'late' is ending"),
    ],
)
def test_a_start_that_is_not_possible_is_refused_and_changes_nothing(
    name: str, links: list[str], words: str
) -> None:
    made = growth()
    made.start("pool", ActorSpec("early", "worker"), [])
    started(made, "pool", "late")
    made.end("pool", "late")
    before = made.placement
    with pytest.raises(Refused) as refused:
        made.start("pool", ActorSpec(name, "worker"), links)
    assert str(refused.value) == words
    assert made.placement is before


@pytest.mark.parametrize("name", ["supervisor", "a/agent"])
def test_a_name_that_the_runtime_keeps_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="which is kept for the runtime"):
        growth().start("pool", ActorSpec(name, "worker"), [])


@pytest.mark.parametrize(
    ("parent", "name", "words"),
    [
        ("pool", "worker-9", "no actor of this run is called 'worker-9' (any more)"),
        ("pool", "log", "it belongs to the plan of the run, which no actor has started"),
        ("log", "w", "only 'pool', which has started it, can end it"),
        ("w", "w", "only 'pool', which has started it, can end it"),
        ("pool", "early", "actor 'early' has not begun yet"),
        ("pool", "late", "actor 'late' is ending already"),
    ],
)
def test_an_end_that_is_not_possible_is_refused(parent: str, name: str, words: str) -> None:
    made = growth()
    started(made, "pool", "w")
    made.start("pool", ActorSpec("early", "worker"), [])
    started(made, "pool", "late")
    made.end("pool", "late")
    with pytest.raises(Refused) as refused:
        made.end(parent, name)
    assert str(refused.value).startswith(words)


def later(folder: Path, text: str, name: str = "w-9", parent: str = "pool") -> ProcessSpec:
    """The process of an actor that `parent` starts, in a run that this file places."""
    actors = (ActorSpec("pool", "pool"), ActorSpec("w-0", "worker"), ActorSpec("w-1", "worker"))
    path = folder / "cluster.toml"
    path.write_text(text)
    config = load(path)
    placement = place(Topology("program", actors, (), "pool"), config)
    return placed_later(ActorSpec(name, "worker"), [parent], placement, config)


TWO = "[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n"


def test_a_started_actor_lives_on_the_machine_of_the_one_that_starts_it(tmp_path: Path) -> None:
    rule = "[[process]]\nname = 'lead'\nmachine = 'b'\nactors = ['pool']\n"
    assert later(tmp_path, TWO + rule).machine == "b"
    assert later(tmp_path, TWO + rule, parent="w-0").machine == "a"


def test_a_process_rule_with_a_pattern_for_its_name_places_it(tmp_path: Path) -> None:
    rule = "[[process]]\nname = 'crowd'\nmachine = 'b'\nactors = ['w-*']\n"
    found = later(tmp_path, TWO + rule)
    assert (found.name, found.machine, found.actors) == ("w-9", "b", ("w-9",))


def test_a_started_actor_gets_ports_that_no_other_process_has(tmp_path: Path) -> None:
    machine = "[links]\ntransport = 'tcp'\n[[machine]]\nname = 'a'\nport = 5000\nthreads = 1\n"
    assert later(tmp_path, machine).port == 5006


def test_another_host_is_refused_with_the_machine_and_the_remedy(tmp_path: Path) -> None:
    far = "[launcher]\nkind = 'ssh'\n[[machine]]\nname = 'a'\naddress = '10.0.0.1'\n"
    with pytest.raises(ConfigError, match="'w-9' is placed on machine 'a', which is another host"):
        later(tmp_path, far)
