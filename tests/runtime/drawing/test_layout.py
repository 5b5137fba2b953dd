"""The layout of a drawing: rows and bands, and no overlap of any two things in any topology."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.drawing.layout_geometry import Box, Scene, at, ranks, scene
from runtime.plan.topology import ActorSpec, Placement, ProcessSpec, Topology


def topology(actors: dict[str, str], *links: tuple[str, str]) -> Topology:
    """A topology of these actors (name -> role); the first one leads."""
    return Topology(
        "p",
        tuple(ActorSpec(name, role) for name, role in actors.items()),
        links,
        next(iter(actors)),
    )


TREE = topology(
    {
        "model": "model",
        **{f"sum-{n}": "sum" for n in range(3)},
        **{f"worker-{n}": "worker" for n in range(4)},
    },
    ("sum-2", "model"),
    ("sum-0", "sum-2"),
    ("sum-1", "sum-2"),
    *((f"worker-{n}", f"sum-{n // 2}") for n in range(4)),
    *((f"worker-{n}", "model") for n in range(4)),
)


def alone(of: Topology, machine: str = "here") -> Placement:
    """A placement with a process for each actor."""
    return Placement(
        of, tuple(ProcessSpec(actor.name, machine, (actor.name,)) for actor in of.actors)
    )


def test_receivers_stand_above_their_senders_and_a_tree_shows_its_levels() -> None:
    found = ranks(TREE)
    assert found["model"] == 0
    assert found["sum-2"] == 1
    assert {found["sum-0"], found["sum-1"]} == {2}
    assert {found[f"worker-{n}"] for n in range(4)} == {3}


def test_fully_linked_actors_of_one_role_share_a_row_and_circles_are_laid_out() -> None:
    names = {f"r-{n}": "replica" for n in range(4)}
    ring = topology(names, *itertools.combinations(names, 2))
    assert set(ranks(ring).values()) == {0}
    circle = topology(
        {"a": "x", "b": "y", "c": "z"}, ("a", "b"), ("b", "c"), ("c", "a"), ("a", "a")
    )
    assert sorted(ranks(circle).values()) == [0, 1, 2]


def test_a_long_link_does_not_run_behind_the_boxes_it_passes() -> None:
    found = scene(alone(TREE), {})
    assert_nothing_meets(found)
    assert len(found.links["worker-0", "model"]) == 6  # the line bends around two rows


def test_every_label_finds_a_place_once_rows_move_apart() -> None:
    labels = dict.fromkeys(TREE.links, "▲ 123 MB  ▼ 123 MB")
    found = scene(alone(TREE), labels)
    assert found.labels.keys() == labels.keys()
    assert_nothing_meets(found)


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    """Any topology on any machines; some actors share processes."""
    count = draw(st.integers(1, 12))
    names = [f"actor-{n}" for n in range(count)]
    roles = {name: draw(st.sampled_from("xyz")) for name in names}
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names))
    links = draw(st.lists(pairs, max_size=24))
    homes = {name: draw(st.integers(0, count - 1)) for name in names}
    machines = {home: draw(st.sampled_from(["m-0", "m-1", "m-2"])) for home in set(homes.values())}
    specs = [
        ProcessSpec(
            f"process-{home}", machine, tuple(name for name in names if homes[name] == home)
        )
        for home, machine in machines.items()
    ]
    return Placement(topology(roles, *links), tuple(specs))


@settings(max_examples=150, deadline=None)
@given(placements())
def test_no_two_things_overlap_in_any_topology(placement: Placement) -> None:
    links = scene(placement, {}).links
    found = scene(placement, dict.fromkeys(links, "▲ 1.23 MB"))
    assert_nothing_meets(found)
    for spec in placement.processes:
        assert all(holds(found.processes[spec.name], found.actors[name]) for name in spec.actors)
        assert holds(found.machines[spec.machine], found.processes[spec.name])
    assert {frozenset(link) for link in found.links} == {
        frozenset(link) for link in placement.topology.links if link[0] != link[1]
    }


def holds(outer: Box, inner: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and outer.right >= inner.right
        and outer.bottom >= inner.bottom
    )


def assert_nothing_meets(found: Scene) -> None:
    """Check that boxes of a kind do not overlap, no line crosses an actor, no label covers a label
    or an actor, and everything lies in the picture.
    """
    picture = Box(0, 0, found.width, found.height)
    for boxes in (found.machines, found.processes, found.actors, found.labels):
        for (one, a), (other, b) in itertools.combinations(boxes.items(), 2):
            assert not a.meets(b), f"{one} meets {other}"
    for boxes in (found.machines, found.labels):
        assert all(holds(picture, box) for box in boxes.values())
    for link, points in found.links.items():
        assert points[0][1] == found.actors[link[1]].bottom
        assert any(
            abs(points[-1][1] - y) < 1e-6
            for y in (found.actors[link[0]].y, found.actors[link[0]].bottom)
        )
        for start, end in itertools.pairwise(points):
            for step in range(21):
                x, y = at(start, end, step / 20)
                dot = Box(x - 0.5, y, 1, 0.0)
                assert holds(picture, dot), link
                inside = [
                    name
                    for name, box in found.actors.items()
                    if box.x < x < box.right and box.y < y < box.bottom
                ]
                assert inside == [], f"{link} runs behind {inside}"
    for link, label in found.labels.items():
        assert [name for name, box in found.actors.items() if box.meets(label)] == [], link
