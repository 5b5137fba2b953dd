"""What roles say of themselves is so: who is durable, who is asked for state, who computes
where."""

from __future__ import annotations

import dataclasses

import pytest

import roles
from roles import registry
from roles.base.role import Anew, RoleOptions
from roles.coordination.coordinator import CoordinatorOptions
from roles.messages import GetState
from runtime.options import plain, typed

DURABLE = {Anew.FROM_STATE, Anew.FROM_PEER}
DATA = {"train": {"format": "digits", "split": "train"}}


def topology(preset: str) -> roles.Topology:
    return roles.training({"data": DATA, "strategy": {"preset": preset, "workers": 2}})


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_whose_state_lasts_gives_it_and_no_other(role: str) -> None:
    known = roles.ROLES[role]
    assert known.Options is not None
    assert issubclass(known.Options, RoleOptions)
    assert (known.Options.anew in DURABLE) == (GetState in known.handlers)


@pytest.mark.parametrize("preset", registry.PRESETS.known)
def test_a_checkpoint_is_made_of_all_that_lasts(preset: str) -> None:
    of = topology(preset)
    told = {actor.name: actor.options for actor in of.actors}
    lead = told[of.lead]
    assert isinstance(lead, CoordinatorOptions)
    alone = {name for name, options in told.items() if options.anew is Anew.FROM_STATE}
    peers = {name for name, options in told.items() if options.anew is Anew.FROM_PEER}
    assert set(lead.holders) == alone | peers
    assert set(lead.servers) == alone | set(sorted(peers)[:1])


@pytest.mark.parametrize("preset", registry.PRESETS.known)
def test_what_a_preset_tells_its_actors_is_plain_data_and_comes_back_the_same(preset: str) -> None:
    for actor in topology(preset).actors:
        assert dataclasses.is_dataclass(actor.options)
        assert typed(type(actor.options), plain(actor.options)) == actor.options
