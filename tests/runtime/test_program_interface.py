"""The interface of a program: its parts are read from its module on use, and a part of a wrong kind
is an error.
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

import runtime
from runtime.config.file import load_program
from runtime.errors import ConfigError, ProgramFailed
from runtime.plan.program import import_program, planned, program_here
from runtime.program_interface import FUNCTIONS, TABLES, Program, program_of
from runtime.runs.scripting import launch

LOOKS = ("getattr", "hasattr")
ROOT = Path(runtime.__file__).parents[1]
PLAN = "def plan(config, options): ...\n"


def nothing(config: Any, options: Any) -> None: ...


def module_of(**offered: Any) -> ModuleType:
    module = ModuleType("offering")
    vars(module).update(offered)
    return module


def problem_of(program: Program, name: str) -> str:
    """The error when the runtime uses this part of a program."""
    with pytest.raises(ConfigError) as caught:
        if name in TABLES:
            getattr(program, TABLES[name])
        else:
            function = getattr(program, name)
            function(*inspect.signature(function).parameters)
    (problem,) = caught.value.problems
    return problem


def test_a_module_that_offers_nothing_has_every_default() -> None:
    program = program_of(module_of())
    assert (program.commands, program.options, program.resumes) == ({}, None, False)
    assert program.choice(None, None) is None
    assert [*program.decided(None), *program.lacking(None, None)] == []
    assert program.finished(None) is program.memory(None) is program.forecast(None) is None
    assert program.prospects(None, None, None, None) is program.observer(None, None, print) is None
    program.preload()


def test_a_function_of_a_module_gets_the_arguments_and_its_answer_is_returned() -> None:
    def answer(*arguments: Any) -> Any:
        return arguments

    program = program_of(module_of(**dict.fromkeys(FUNCTIONS, answer)))
    assert program.resumes
    for name in FUNCTIONS:
        arguments = tuple(inspect.signature(getattr(program, name)).parameters)
        if name not in ("preload", "resumed"):
            assert getattr(program, name)(*arguments) == arguments


def test_none_counts_as_not_defined() -> None:
    program = program_of(module_of(memory=None, COMMANDS=None, Options=None, resumed=None))
    assert program.memory("a topology") is None
    assert (program.commands, program.options, program.resumes) == ({}, None, False)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_attribute_that_is_not_a_function_is_refused_with_the_program_and_its_name(
    name: str,
) -> None:
    told = problem_of(program_of(module_of(**{name: 3})), name)
    wanted = ", ".join(inspect.signature(getattr(Program, name)).parameters).removeprefix("self")
    call = f"{name}({wanted.removeprefix(', ')})"
    assert told == f"program 'offering': {name} is int, expected a function {call}"


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if name not in ("preload", "completions")]
)
def test_a_function_that_cannot_be_called_as_the_runtime_calls_it_is_refused(name: str) -> None:
    # False: checked on use; True: checked when a cluster.toml names the program
    for planned_ in (False, True):
        offered = {"plan": nothing, name: lambda: None}
        with pytest.raises(ConfigError) as caught:
            program = program_of(module_of(**offered), planned=planned_)
            getattr(program, name)(*inspect.signature(getattr(program, name)).parameters)
        (told,) = caught.value.problems
        assert told.startswith(f"program 'offering': {name} cannot be called as {name}(")
        assert told.endswith(": too many positional arguments")


def test_an_error_raised_by_the_program_is_reported_with_its_line() -> None:
    def memory(topology: Any) -> Any:
        return topology + 1

    with pytest.raises(
        ProgramFailed, match=r"test_program_interface\.py:\d+, in memory: TypeError: .*concatenate"
    ):
        program_of(module_of(memory=memory)).memory("x")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ROLES", ["a"], "ROLES is list, expected a table of role names and actor classes"),
        ("ROLES", {"a": "b"}, "ROLES['a'] is str, expected an actor class"),
        ("ROLES", {1: print}, "a key of ROLES, 1, is int, expected the name of a role"),
        (
            "COMMANDS",
            [],
            "COMMANDS is list, expected a table of command names and 'module:function'",
        ),
        ("COMMANDS", {"a": print}, "COMMANDS['a'] is builtin_function_or_method, expected "),
        ("COMMANDS", {1: "a:b"}, "a key of COMMANDS, 1, is int, expected the name of a command"),
        ("Options", int, "Options is type, expected a pydantic model class"),
        ("Options", 3, "Options is int, expected a pydantic model class"),
    ],
)
def test_a_table_of_a_wrong_kind_is_refused(name: str, value: Any, told: str) -> None:
    assert problem_of(program_of(module_of(**{name: value})), name).startswith(
        f"program 'offering': {told}"
    )


def test_a_program_without_roles_is_an_error_when_they_are_needed() -> None:
    told = problem_of(program_of(module_of()), "ROLES")
    assert told == "program 'offering' has no ROLES, a table of role names and actor classes"


@pytest.mark.parametrize("name", [*TABLES, *(name for name in FUNCTIONS if name != "plan")])
def test_a_cluster_file_whose_program_has_a_part_of_a_wrong_kind_is_refused_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offering_wrong.py").write_text(f"{PLAN}{name} = 3\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ConfigError, match=rf"^program: program 'offering_wrong': {name} is int, "):
        load_program("offering_wrong", tmp_path)
    del sys.modules["offering_wrong"]


def test_an_attribute_that_a_module_imports_lazily_is_read_on_use() -> None:
    asked: list[str] = []

    def lazily(name: str) -> Any:
        asked.append(name)
        if name in ("plan", "memory"):
            return lambda *arguments: {"a": 1}
        raise AttributeError(name)

    module = module_of(ROLES={}, __getattr__=lazily)
    program = program_of(module, planned=True)
    assert asked == ["plan"]
    assert program.memory("a topology") == {"a": 1}
    assert asked == ["plan", "memory"]


@pytest.mark.parametrize("planned_", [None, 3, []])
def test_a_plan_that_is_not_a_topology_is_refused(planned_: Any) -> None:
    program = program_of(module_of(plan=lambda config, options: planned_))
    with pytest.raises(ConfigError) as caught:
        planned(program, None, None)  # type: ignore[arg-type]
    kind = type(planned_).__name__
    assert caught.value.problems == [
        f"program 'offering': plan returned {kind}, expected a runtime.Topology"
    ]


def test_a_script_may_use_the_names_of_the_program_interface_for_other_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Lead(runtime.Actor): ...

    module = module_of(ROLES={"lead": Lead}, finished=False, choice="a", plan=[3])
    monkeypatch.setitem(sys.modules, "offering", module)
    topology = runtime.Topology("offering", (runtime.ActorSpec("a", "lead"),), (), "a")
    launch(topology, processes="here")
    monkeypatch.setattr(module, "memory", 512, raising=False)  # except those that this script needs
    with pytest.raises(ConfigError, match=r"^program 'offering': memory is int, expected a func"):
        launch(topology, processes="here")


class Offering:
    """A program as an object, with state of its own."""

    ROLES: ClassVar = {"a": print}

    def __init__(self, size: int) -> None:
        self._size = size

    def plan(self, config: Any, options: Any) -> Any:
        return config, options, self._size

    def memory(self, topology: Any) -> dict[str, int]:
        return {"a": self._size}


def test_a_module_may_offer_its_program_as_an_object() -> None:
    module = module_of(PROGRAM=Offering(7), memory=3)
    for is_planned in (False, True):
        program = program_of(module, planned=is_planned)
        assert program.plan("config", "options") == ("config", "options", 7)
        assert (program.roles, program.memory("x")) == ({"a": print}, {"a": 7})
        assert (program.name, program.resumes) == ("offering", False)


@pytest.mark.parametrize("value", [3, Offering])
def test_an_object_that_is_not_a_program_is_refused_in_words(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^program 'offering'.*: missing a req|no function plan"):
        program_of(module_of(PROGRAM=value), planned=True)


def test_an_objects_attribute_of_a_wrong_kind_is_refused_at_once() -> None:
    class Wrong(Offering):
        memory = 3  # type: ignore[assignment]

    with pytest.raises(ConfigError, match=r"^program 'offering': memory is int, expected a func"):
        program_of(module_of(PROGRAM=Wrong(1)), planned=True)


def test_a_module_with_a_class_of_a_program_is_told_to_make_an_object_of_it() -> None:
    with pytest.raises(ConfigError) as caught:
        program_of(module_of(Offering=Offering), planned=True)
    assert caught.value.problems == [
        "program 'offering' has no function plan(); to use its class Offering, write PROGRAM = "
        "Offering() in the module"
    ]


def test_a_subclass_of_the_reader_is_refused_with_what_to_write() -> None:
    wanted = r"^Mine: Program only reads programs\. Write a class without this base, .* Mine\(\)$"
    with pytest.raises(TypeError, match=wanted):
        type("Mine", (Program,), {})


def test_the_built_in_program_offers_all_that_a_program_can() -> None:
    program = import_program("roles")
    assert program.roles["single"].__name__ == "Single"
    assert program.options is not None
    assert {"time", "test"} <= program.commands.keys()
    assert [name for name in FUNCTIONS if program._function(name) is None] == []
    here = program_here("roles")
    assert here is not None
    assert here.roles is program.roles


def test_no_other_code_of_the_runtime_looks_into_a_program() -> None:
    names = {*FUNCTIONS, *TABLES}
    found = []
    for path in sorted((ROOT / "runtime").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") in LOOKS):
                continue
            if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                found += [f"{path.name} {node.args[1].value}"] * (node.args[1].value in names)
    assert found == [
        "peers.py Options",
        *("program.py Options",) * 2,  # Options of a role, read by `options_of` and `made_of`
        *(f"program_interface.py {name}" for name in ("ROLES", "COMMANDS", "Options")),
    ]


@pytest.mark.parametrize("name", runtime.__all__)
def test_every_exported_name_of_the_runtime_exists(name: str) -> None:
    assert getattr(runtime, name) is not None


@pytest.mark.parametrize("name", [*TABLES, *FUNCTIONS])
def test_the_page_for_authors_of_programs_lists_all_that_a_program_can_offer(name: str) -> None:
    page = (ROOT / "docs" / "programs.md").read_text("utf-8")
    listed = page.partition("A program is an importable module with")[2].partition(
        "\nA module can also"
    )[0]
    if name in FUNCTIONS:
        _, *arguments = inspect.signature(getattr(Program, name)).parameters
        assert f"`{name}({', '.join(arguments)})" in listed
    else:
        assert f"`{name}`" in listed
