"""The topology of a run after its groups were changed: the same as a topology made for these
groups."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from roles import training
from roles.forecasting.regrouped import regrouped
from runtime import Topology


def planned(workers: int, groups: int) -> Topology:
    data = {"train": {"format": "digits", "split": "train"}}
    strategy = {"preset": "omnivore", "workers": workers, "groups": groups, "live": True}
    return training(
        {"net": "lenet", "solver": "lenet_digits_solver", "data": data, "strategy": strategy}
    )


def ways(topology: Topology) -> tuple[Any, dict[str, Any]]:
    """The groups, and the receivers of gradients for each worker of a group."""
    options = {actor.name: actor.options for actor in topology.actors}
    groups = options["coordinator"].groups
    found = {name: options[name].models for members in groups for name in members}
    used = [way.parent for models in found.values() for way in models if way.parent in options]
    for name in used:
        if hasattr(options[name], "parent"):
            found[name] = (options[name].parent, options[name].part, options[name].parts)
            used.append(options[name].parent)
    return groups, found


def test_groups_and_routes_equal_a_topology_made_for_them() -> None:
    topology = planned(4, 1)
    names = [name for members in ways(topology)[0] for name in members]
    for groups in (2, 4, 1, 3):
        topology = regrouped(topology, 4, groups)
        made, found = ways(topology)
        expected, wanted = ways(planned(4, groups))
        called = dict(
            zip(
                (n for each in expected for n in each),
                (n for each in made for n in each),
                strict=True,
            )
        )
        assert [len(members) for members in made] == [len(members) for members in expected]
        assert sorted(name for members in made for name in members) == sorted(names)
        for theirs, ours in called.items():
            assert [(way.server, way.part, way.parts) for way in found[ours]] == [
                (way.server, way.part, way.parts) for way in wanted[theirs]
            ]
        assert len(found) == len(wanted)


@pytest.mark.parametrize(
    ("before", "after"), list(pairwise([(4, 1), (4, 4), (2, 2), (2, 1), (4, 1)]))
)
def test_fewer_workers_leave_the_others_without_a_group(
    before: tuple[int, int], after: tuple[int, int]
) -> None:
    made, _ = ways(regrouped(regrouped(planned(4, 1), *before), *after))
    assert (sum(map(len, made)), len(made)) == after


def test_the_same_numbers_change_nothing() -> None:
    topology = planned(4, 2)
    assert regrouped(topology, 4, 2) is topology
