"""Names that the runtime uses on every actor: a class that takes one by accident is an error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import runtime
from runtime.actors.actor import RESERVED, Actor
from runtime.messages.message import Envelope, WindDown
from runtime.plan.topology import ActorSpec, Topology
from tests.helpers.node_pair import Pair

ROOT = Path(runtime.__file__).parents[1]
TELLS = "which the runtime uses itself on every actor: call it something else, such as my_"


def made(name: str, value: Any, *bases: type, **more: Any) -> type:
    """A class of actors with one additional attribute."""
    return type("Mine", bases or (Actor,), {name: value}, **more)


async def placed(actor: Actor, on: list[str] | None = None) -> None:
    """Place the actor on a node and let it prepare."""

    async def place(pair: Pair) -> None:
        pair.p.add("mine", "mine", actor)
        if on is not None:
            on.append("placed")
        await pair.p.prepare(["mine"])

    await place(Pair())


def test_the_words_that_the_docs_give_to_authors_are_among_the_reserved_names() -> None:
    words = "tell ask reply memory compute race emit finish took stepped counter gauge histogram"
    words += " summary phase run_directory name role log device steps now handlers _runtime"
    assert set(words.split()) <= RESERVED
    assert not RESERVED & {"Options", "conversations", "writes", "run", "on_start", "on_stop"}
    assert not RESERVED & {"on_save", "on_wind_down", "__init__", "__repr__"}


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_class_that_defines_a_reserved_name_is_refused_when_it_is_made(name: str) -> None:
    meant = f', or declare overrides=("{name}",) if you mean to redefine it'
    meant = "" if name.startswith("_") else meant
    wanted = re.escape(f"Mine defines {name}, {TELLS}{name.lstrip('_')}{meant}")
    with pytest.raises(TypeError, match=f"^{wanted}$"):
        made(name, 3)
    with pytest.raises(TypeError, match=f"^{wanted}$"):
        made(name, lambda self: None)


@pytest.mark.parametrize("first", [True, False])
def test_a_class_that_inherits_a_reserved_name_from_another_class_is_refused(first: bool) -> None:
    class Stepping:
        steps = 3

    bases = (Stepping, Actor) if first else (Actor, Stepping)
    with pytest.raises(TypeError, match=r"^Mine defines steps in Stepping, which the runtime "):
        made("mine", 3, *bases)


def test_a_declared_override_is_legal_and_holds_for_subclasses_too() -> None:
    class Mixin:
        def phase(self, name: str) -> None: ...

    class Meant(Mixin, Actor, overrides=("tell", "phase")):
        async def tell(self, to: str, message: Any, *, step: int = -1) -> None: ...

    class Further(Meant): ...

    assert Further.tell is Meant.tell
    with pytest.raises(TypeError, match=r"^Mine defines ask, "):
        made("ask", 3, Meant)
    # an override is declared for other names only
    with pytest.raises(TypeError, match=r"^Mine defines tell, "):
        made("tell", 3, Meant)
    with pytest.raises(TypeError, match=r"Mine: .* no name 'tel' \(did you mean 'tell'\?\)$"):
        made("mine", 3, overrides=("tel",))


@pytest.mark.parametrize("name", ["name", "role", "log", "device", "steps"])
async def test_the_runtimes_attributes_of_an_actor_can_be_read_but_not_set(
    name: str,
) -> None:
    class Mine(Actor):
        def __init__(self, late: bool) -> None:
            self._late = late
            if not late:
                setattr(self, name, 3)

        async def on_start(self) -> None:
            getattr(self, name)
            setattr(self, name, 3)

    wanted = rf"^Mine sets self\.{name}, {TELLS}{name}$"
    with pytest.raises(TypeError, match=wanted):
        Mine(late=False)
    with pytest.raises(TypeError, match=wanted):
        await placed(Mine(late=True))


@pytest.mark.parametrize("name", ["memory", "tell", "now", "handlers", "_runtime"])
@pytest.mark.parametrize("late", [False, True])
async def test_an_attribute_that_hides_a_method_is_refused_when_the_actor_is_placed_or_prepares(
    name: str, late: bool
) -> None:
    class Mine(Actor):
        def __init__(self) -> None:
            if not late:
                vars(self)[name] = {}

        async def on_start(self) -> None:
            vars(self)[name] = {}

    reached: list[str] = []
    with pytest.raises(TypeError, match=rf"^Mine sets self\.{name}, {TELLS}{name.lstrip('_')}$"):
        await placed(Mine(), reached)
    assert reached == ["placed"] * late


@pytest.mark.parametrize("overrides", [(), ("tell",)])
def test_a_decorator_that_makes_the_class_again_is_legal(overrides: tuple[str, ...]) -> None:
    class Plain(Actor, overrides=overrides):
        seen: int = 0

        async def on_wind_down(self, message: WindDown, envelope: Envelope) -> None: ...

    if overrides:
        Plain.tell = lambda self: None  # type: ignore[method-assign, assignment, misc]
    again = dataclass(slots=True)(Plain)
    assert again is not Plain
    assert again(3).seen == 3
    assert again.handlers == Plain.handlers
    assert again._runtime_overrides == set(overrides)
    with pytest.raises(TypeError, match=r"^Mine defines ask, "):
        made("ask", 3, again)


def test_a_reserved_name_that_only_a_run_can_find_ends_it_as_a_mistake_of_the_program(
    tmp_path: Path,
) -> None:
    (tmp_path / "keeping.py").write_text(
        "from runtime import Actor, ActorSpec, Topology\n"
        "class Keeper(Actor):\n"
        "    def __init__(self):\n"
        "        self.memory = {}\n"
        "ROLES = {'keeper': Keeper}\n"
        "def plan(config, options):\n"
        "    return Topology(__name__, (ActorSpec('a', 'keeper'),), (), 'a')\n"
    )
    (tmp_path / "cluster.toml").write_text("program = 'keeping'\n")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    up = [sys.executable, "-m", "runtime", "up", "cluster.toml"]
    done = subprocess.run(
        up, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"a: Keeper sets self.memory, {TELLS}memory" in done.stderr
    assert "TypeError" not in done.stderr


async def test_an_actor_may_use_any_name_with_an_underscore_for_its_own_state() -> None:
    class Mine(Actor):
        def __init__(self) -> None:
            self._name = self._role = self._steps = self._node = self._memory = self._log = 3
            self.inbox = self.state = self.blocked_by = self.inbox_task = self.attach = 4

    actor = Mine()
    await placed(actor)
    assert (actor.name, actor.role, actor.steps) == ("mine", "mine", 0)
    assert (actor._name, actor.blocked_by) == (3, 4)
    actor.stepped()
    assert (actor.steps, actor._steps) == (1, 3)


def test_a_name_that_is_read_too_early_is_an_error() -> None:
    class Mine(Actor):
        def __init__(self) -> None:
            self.greeting = f"I am {self.name}"

    with pytest.raises(AttributeError, match=r"^Mine\.name is known from on_start on, not in __i"):
        Mine()


def test_the_error_of_a_run_names_the_class_and_the_name_that_it_took(tmp_path: Path) -> None:
    topology = Topology(__name__, (ActorSpec("a", "keeper"),), (), "a")
    with pytest.raises(runtime.ConvoyError, match=rf"Keeper sets self\.memory, {TELLS}memory"):
        runtime.run(topology, directory=tmp_path, processes="here")


class Keeper(Actor):
    def __init__(self) -> None:
        vars(self)["memory"] = {}

    async def run(self) -> None:
        """Finish at once, which would end the run."""


ROLES = {"keeper": Keeper}
