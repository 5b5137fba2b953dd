"""Topologies and their placement: the mistakes that are refused, shared processes, neighbours, and
the JSON.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import ConfigError
from runtime.plan.grouping import ProcessRule, group_into_processes
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology

NAMES = ("worker-0", "worker-1", "model", "server")


def topology(
    names: tuple[str, ...] = NAMES, links: tuple[tuple[str, str], ...] = (), lead: str = ""
) -> Topology:
    return Topology(
        "program", tuple(ActorSpec(name, "role") for name in names), links, lead or names[0]
    )


def problems(*arguments: object, **more: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        topology(*arguments, **more)  # type: ignore[arg-type]
    return caught.value.problems


def test_every_mistake_of_a_topology_is_named_at_once() -> None:
    found = problems(("a", "a", "b"), (("a", "x"), ("y", "b")), "z")
    assert found == [
        "topology: two actors are called 'a'",
        "topology: no actor is called 'x', but a link names it",
        "topology: no actor is called 'y', but a link names it",
        "topology: no actor is called 'z', but it is the lead",
    ]


def test_mistakes_come_in_one_order_whatever_the_hash_seed() -> None:
    program = (
        "from runtime.plan.topology import *\n"
        "try: Topology('p', tuple(ActorSpec(n, 'r') for n in 'abcdefabcdef'), (), 'a')\n"
        "except Exception as error: print(error)"
    )
    shown = [
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert shown[0] == shown[1] != ""


def test_the_peers_of_an_actor_are_those_linked_to_it_in_either_direction() -> None:
    made = topology(links=(("worker-0", "model"), ("server", "worker-0"), ("model", "model")))
    assert made.peers("worker-0") == {"model", "server"}
    assert made.peers("model") == {"worker-0", "model"}
    assert made.peers("worker-1") == set()


def grouped(*rules: ProcessRule, together: bool = False) -> list[tuple[str, str, tuple[str, ...]]]:
    return group_into_processes(topology(), rules, "here", together)


def test_without_rules_every_actor_has_a_process_with_its_name() -> None:
    assert grouped() == [(name, "here", (name,)) for name in NAMES]


def test_all_actors_may_share_one_process() -> None:
    assert grouped(together=True) == [("convoy", "here", NAMES)]


def test_rules_take_their_actors_in_order_and_an_actor_goes_to_the_first_that_matches() -> None:
    found = grouped(
        ProcessRule("workers", "there", ("worker-*",)),
        ProcessRule("rest", "here", ("worker-0", "s*", "m?del")),
    )
    assert found == [
        ("workers", "there", ("worker-0", "worker-1")),
        ("rest", "here", ("model", "server")),
    ]


def test_actors_that_no_rule_takes_follow_the_default() -> None:
    rule = ProcessRule("workers", "there", ("worker-[01]",))
    assert grouped(rule)[1:] == [("model", "here", ("model",)), ("server", "here", ("server",))]
    assert grouped(rule, together=True)[1:] == [("convoy", "here", ("model", "server"))]


def test_actors_that_name_a_process_share_it_unless_a_rule_takes_them() -> None:
    actors = (
        ActorSpec("a", "r", process="pair"),
        ActorSpec("b", "r"),
        ActorSpec("c", "r", process="pair"),
    )
    made = Topology("p", actors, (), "a")
    assert group_into_processes(made, [], "here", False) == [
        ("pair", "here", ("a", "c")),
        ("b", "here", ("b",)),
    ]
    rule = ProcessRule("apart", "there", ("c",))
    assert group_into_processes(made, [rule], "here", False) == [
        ("apart", "there", ("c",)),
        ("pair", "here", ("a",)),
        ("b", "here", ("b",)),
    ]


def test_patterns_distinguish_upper_and_lower_case() -> None:
    with pytest.raises(ConfigError, match="no actor left matches"):
        grouped(ProcessRule("x", "here", ("Model",)))


def test_every_rule_that_takes_no_actor_is_a_mistake_that_lists_the_actors() -> None:
    with pytest.raises(ConfigError) as caught:
        grouped(
            ProcessRule("all", "here", ("*",)),
            ProcessRule("late", "here", ("model",)),
            ProcessRule("odd", "here", ("x", "y")),
        )
    assert caught.value.problems == [
        (
            "process: no actor left matches ['model']; the actors are worker-0, worker-1, model, "
            "server"
        ),
        (
            "process: no actor left matches ['x', 'y']; the actors are worker-0, worker-1, "
            "model, server"
        ),
    ]


@pytest.mark.parametrize(
    ("rules", "together", "name"),
    [
        ((ProcessRule("model", "here", ("server",)),), False, "model"),
        ((ProcessRule("convoy", "here", ("server",)),), True, "convoy"),
        ((ProcessRule("x", "here", ("server",)), ProcessRule("x", "here", ("model",))), False, "x"),
    ],
)
def test_two_processes_of_one_name_are_a_mistake_not_a_clash_of_sockets(
    rules: tuple[ProcessRule, ...], together: bool, name: str
) -> None:
    with pytest.raises(ConfigError, match=f"two processes would be called '{name}'"):
        grouped(*rules, together=together)


patterns = st.sampled_from(["worker-*", "*", "m*", "server", "*r", "worker-1", "none"])
rules = st.lists(
    st.builds(
        ProcessRule,
        st.sampled_from("xyz"),
        st.just("there"),
        st.lists(patterns, min_size=1).map(tuple),
    ),
    max_size=3,
    unique_by=lambda rule: rule.name,
)


@given(rules, st.booleans())
def test_every_actor_lives_in_exactly_one_process_or_the_rules_are_refused(
    chosen: list[ProcessRule], together: bool
) -> None:
    try:
        found = grouped(*chosen, together=together)
    except ConfigError:
        return
    assert sorted(name for _, _, actors in found for name in actors) == sorted(NAMES)
    assert len({name for name, _, _ in found}) == len(found)
    assert all(actors for _, _, actors in found)


def placed() -> Placement:
    links = (
        ("worker-0", "model"),
        ("worker-1", "model"),
        ("worker-0", "worker-1"),
        ("server", "server"),
    )
    processes = (
        ProcessSpec("workers", "here", ("worker-0", "worker-1"), threads=2, port=7000),
        ProcessSpec("model", "here", ("model",)),
        ProcessSpec("server", "here", ("server",)),
    )
    return Placement(topology(links=links), processes)


def test_a_process_is_a_neighbour_of_each_process_that_its_actors_talk_to_itself_included() -> None:
    made = placed()
    assert made.neighbours("workers") == {"workers": ("worker-0", "worker-1"), "model": ("model",)}
    assert made.neighbours("model") == {"workers": ("worker-0", "worker-1")}
    assert made.neighbours("server") == {"server": ("server",)}
    assert made.process_of()["worker-1"] == "workers"


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=5,
)


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    names = draw(
        st.lists(
            st.text(st.characters(exclude_characters="/"), min_size=1).filter("supervisor".__ne__),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    actors = tuple(
        ActorSpec(n, draw(st.text()), draw(st.dictionaries(st.text(), plain, max_size=2)))
        for n in names
    )
    end = st.sampled_from(names)
    links = tuple(draw(st.lists(st.tuples(end, end), max_size=4)))
    numbers = st.integers(0, 65535)
    processes = tuple(
        ProcessSpec(n, draw(st.text()), (n,), draw(numbers), draw(numbers)) for n in names
    )
    return Placement(Topology(draw(st.text()), actors, links, draw(end)), processes)


@given(placements())
def test_json_reads_back_equal(made: Placement) -> None:
    assert Placement.from_json(made.to_json()) == made


def test_json_with_other_options_differs() -> None:
    made = placed()
    first, *rest = made.topology.actors
    changed = dataclasses.replace(
        made,
        topology=dataclasses.replace(
            made.topology, actors=(dataclasses.replace(first, options={"k": 1}), *rest)
        ),
    )
    assert Placement.from_json(changed.to_json()) != made


@pytest.mark.parametrize("name", ["supervisor", "a/agent"])
def test_names_of_the_runtimes_own_actors_are_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=(f"an actor is called '{name}', which is kept for the runtime")
    ):
        Topology("p", (ActorSpec(name, "r"),), (), name)
    with pytest.raises(ConfigError, match=f"process '{name}': this name is kept for the runtime"):
        grouped(ProcessRule(name, "here", ("*",)))
