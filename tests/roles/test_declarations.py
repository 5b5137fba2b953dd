"""The declarations of roles are true: which roles are durable, which are asked for state, and where
each computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import pytest

import roles
from roles import registry
from roles.base.role import (
    Anew,
    DeviceOptions,
    GradientOptions,
    Held,
    MemoryOptions,
    PredictionOptions,
    RecoveryOptions,
    RoleOptions,
    Sent,
    TrafficOptions,
    TuningOptions,
)
from roles.base.shapes import Shapes
from roles.base.steps import Step, Steps, Turn, Work
from roles.coordination.coordinator import CoordinatorOptions
from roles.forecasting.costs import loads_of
from roles.forecasting.plan_forecast import footprint
from roles.forecasting.traffic import traffic_of
from roles.messages import Done, GetState
from roles.planning.auto_settings import _batch_stays, _telling
from roles.planning.devices import Devices
from roles.planning.gradient_links import _with_keepers, gradient_links
from runtime import ActorSpec, Topology
from runtime.actor_options import plain, typed

DURABLE = {Anew.FROM_STATE, Anew.FROM_PEER}
DATA = {"train": {"format": "digits", "split": "train"}}


def topology(preset: str) -> roles.Topology:
    return roles.training({"data": DATA, "strategy": {"preset": preset, "workers": 2}})


@pytest.mark.parametrize("role", roles.ROLES)
def test_exactly_the_roles_with_lasting_state_can_return_it(role: str) -> None:
    known = roles.ROLES[role]
    assert known.Options is not None
    assert issubclass(known.Options, RoleOptions)
    assert (known.Options.anew in DURABLE) == (GetState in known.handlers)


@pytest.mark.parametrize("preset", registry.PRESETS.known)
def test_a_checkpoint_consists_of_all_lasting_state(preset: str) -> None:
    of = topology(preset)
    told = {actor.name: actor.options for actor in of.actors}
    lead = told[of.lead]
    assert isinstance(lead, CoordinatorOptions)
    alone = {name for name, options in told.items() if options.anew is Anew.FROM_STATE}
    peers = {name for name, options in told.items() if options.anew is Anew.FROM_PEER}
    assert set(lead.holders) == alone | peers
    assert set(lead.servers) == alone | set(sorted(peers)[:1])


@pytest.mark.parametrize("preset", registry.PRESETS.known)
def test_options_of_actors_are_plain_data_and_are_read_back_unchanged(preset: str) -> None:
    for actor in topology(preset).actors:
        assert dataclasses.is_dataclass(actor.options)
        assert typed(type(actor.options), plain(actor.options)) == actor.options


# -- options of a role with one concern only

CONCERNS = RoleOptions.__bases__


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sends(TrafficOptions):
    def sends(self, name: str, shapes: Shapes) -> Sent:
        yield "b", Done, 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Holds(MemoryOptions):
    def holds(self, name: str, shapes: Shapes) -> Held:
        return {"a table": 16}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Works(PredictionOptions):
    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        yield Step((name, "work"), Work("work"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lasts(RecoveryOptions):
    keeps_beside: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computes(DeviceOptions):
    spread: ClassVar[bool] = True
    device: str = "cpu"

    def on_device(self, device: str, blank: Mapping[str, Any]) -> Self | None:
        return dataclasses.replace(self, device=device)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learns(GradientOptions):
    def parents(self) -> tuple[str, ...]:
        return ("b",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fixed(TuningOptions):
    any_batch: ClassVar[bool] = False

    @property
    def tells_of(self) -> frozenset[str]:
        return frozenset({"noise"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lead:
    keepers: tuple[str, ...] = ()
    beside: str = ""


def with_(options: object) -> Topology:
    actors = (ActorSpec("a", "mine", options), ActorSpec("b", "lead", Lead()))
    return Topology("nobody", actors, (("a", "b"),), "b")


def test_each_declaration_of_a_role_belongs_to_one_concern() -> None:
    said = [name for kind in CONCERNS for name in vars(kind) if not name.startswith("_")]
    assert sorted(said) == sorted({*said})
    assert {name for name in dir(RoleOptions) if not name.startswith("_")} == {*said}
    assert all(kind.__doc__ for kind in CONCERNS)


def test_options_may_declare_only_the_messages_that_a_role_sends() -> None:
    shapes = Shapes(with_(Sends()))
    assert traffic_of(shapes) == {("a", "b"): {"Done": 8}}
    assert (footprint(shapes), loads_of(shapes), gradient_links(with_(Sends()))) == ({}, {}, [])


def test_options_may_declare_only_the_memory_that_a_role_holds() -> None:
    shapes = Shapes(with_(Holds()))
    assert footprint(shapes) == {"a": {"a table": 16}}
    assert traffic_of(shapes) == {}


def test_options_may_declare_only_the_work_that_a_role_does() -> None:
    shapes = Shapes(with_(Works()))
    assert (traffic_of(shapes), footprint(shapes), loads_of(shapes)) == ({}, {}, {})
    assert [step.name for step in Works().steps("a", shapes, Turn(("a",), 0, 1))] == [("a", "work")]


def test_options_may_declare_only_that_a_state_lasts() -> None:
    lead = _with_keepers(with_(Lasts()), set()).actors[1].options
    assert lead.keepers == ("a",)
    lead = _with_keepers(with_(Sends()), set()).actors[1].options
    assert lead.keepers == ()


def test_options_may_declare_only_the_device_on_which_a_role_computes() -> None:
    topology = with_(Computes())
    found = Devices({"*": "cuda:1"}, {}, 0, None).of(topology.actors[0])  # type: ignore[arg-type]
    assert found == ("*", Computes(device="cuda:1"))
    assert [(actor.spread, actor.beside) for actor in topology.actors] == [(True, ""), (False, "")]
    assert Devices({"*": "cpu"}, {}, 0, None).of(topology.actors[1]) is None  # type: ignore[arg-type]


def test_options_may_declare_only_the_receivers_of_gradients() -> None:
    assert gradient_links(with_(Learns())) == [("a", "b")]


def test_options_may_declare_only_the_facts_that_a_tuner_must_know() -> None:
    assert [*_telling(with_(Fixed()), "noise")] == ["a"]
    assert [*_batch_stays(with_(Fixed()))] == ["has actors whose batch is fixed: 'a' (mine)"]


def test_the_actor_whose_process_an_actor_shares_is_a_field_of_its_options() -> None:
    near = ActorSpec("a", "mine", Lead(beside="b"))
    assert (near.beside, near.spread) == ("b", False)
