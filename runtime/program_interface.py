"""What a program offers to the runtime: the one list of it, with the defaults.

A program is a module (or a script). `Program` reads it: an attribute of the module is looked up
when it is used, since many modules import what they need for it only then. An attribute of another
kind than is expected here is a ConfigError that names the program and the attribute.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from runtime.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

# Types of rooms above this one, which may not be imported here: their names are for the reader.
ClusterConfig = Any  # runtime.config.sections
Topology = Any  # runtime.plan.topology
Placement = Any  # runtime.plan.topology
Forecast = Any  # runtime.plan.forecast
Prospects = Any  # runtime.plan.prospects
Wanted = Any  # runtime.plan.prospects
Choice = Any  # runtime.plan.open_choice
Observer = Any  # runtime.runs.observation
Options = Any  # the program's own, or None

A_TABLE_OF_ROLES = "a table of role names and actor classes"
A_TABLE_OF_COMMANDS = "a table of command names and 'module:function'"
NO_PLAN = "has no function plan()"
A_MODEL = "a pydantic model class"


class Program:
    """A module, read as a program. `name`: how messages call it."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self._module = module
        self.name = name

    def __repr__(self) -> str:
        return f"<program {self.name}>"

    # -- tables

    @property
    def roles(self) -> Mapping[str, Callable[..., Any]]:
        """`ROLES`: role name -> actor class. ConfigError if there is none."""
        found = getattr(self._module, "ROLES", None)
        if found is None:
            raise ConfigError([f"program '{self.name}' has no ROLES, {A_TABLE_OF_ROLES}"])
        if not isinstance(found, dict):
            raise self._wrong("ROLES", found, A_TABLE_OF_ROLES)
        for role, kind in found.items():
            if not isinstance(role, str):
                raise self._wrong(f"a key of ROLES, {role!r},", role, "the name of a role")
            if not callable(kind):
                raise self._wrong(f"ROLES[{role!r}]", kind, "an actor class")
        return found

    @property
    def commands(self) -> Mapping[str, str]:
        """`COMMANDS`: name -> "module:function", what it adds to the command line."""
        found = getattr(self._module, "COMMANDS", None)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise self._wrong("COMMANDS", found, A_TABLE_OF_COMMANDS)
        for name, place in found.items():
            if not isinstance(name, str):
                raise self._wrong(f"a key of COMMANDS, {name!r},", name, "the name of a command")
            if not isinstance(place, str):
                raise self._wrong(f"COMMANDS[{name!r}]", place, "'module:function'")
        return found

    @property
    def options(self) -> type[BaseModel] | None:
        """`Options`: the model of its own sections of cluster.toml; None: it has none."""
        found = getattr(self._module, "Options", None)
        if found is None:
            return None
        from pydantic import BaseModel  # takes long; role processes do without it

        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            raise self._wrong("Options", found, A_MODEL)
        return found

    # -- what will run

    def plan(self, config: ClusterConfig, options: Options) -> Topology:
        """Which actors there are, which of them talk, which one leads. A program that a
        cluster.toml names must have it; that of a script's topology need not."""
        return self._required("plan", NO_PLAN)(config, options)

    def choice(self, config: ClusterConfig, options: Options) -> Choice | None:
        """What is to be found out before the run starts. None: nothing."""
        return self._call("choice", config, options)

    def resumed(
        self, config: ClusterConfig, options: Options, run: Path | None
    ) -> tuple[Options, list[str]]:
        """The options of a run that goes on from `run` (None: from the last one), and the lines
        that tell of it. ConfigError if there is nothing to go on from; `resumes` says whether the
        program has it."""
        text = "does not say where a run goes on: it has no resumed()"
        found: tuple[Options, list[str]] = self._required("resumed", text)(config, options, run)
        return found

    @property
    def resumes(self) -> bool:
        """Does it say where a run goes on?"""
        return self._function("resumed") is not None

    def scaled(self, config: ClusterConfig, options: Options, workers: int, groups: int) -> Options:
        """The options of a run that goes on with so many; 0: as many as before. ConfigError if that
        cannot be."""
        text = "does not say what other workers are: it has no scaled()"
        return self._required("scaled", text)(config, options, workers, groups)

    # -- what is known before it runs

    def decided(self, topology: Topology) -> Iterable[str]:
        """What it has decided by itself, a line for each: worth knowing, and no warning."""
        found: Iterable[str] = self._call("decided", topology, absent=())
        return found

    def finished(self, topology: Topology) -> tuple[str, Path] | None:
        """Why nothing is left to do, and the checkpoint that is the end. None: there is something
        to do."""
        found: tuple[str, Path] | None = self._call("finished", topology)
        return found

    def lacking(self, config: ClusterConfig, topology: Topology) -> Sequence[str]:
        """What this machine lacks for it, a line each, as far as that is known without a start."""
        found: Sequence[str] = self._call("lacking", config, topology, absent=())
        return found

    def memory(self, topology: Topology) -> Mapping[str, int] | None:
        """Actor -> the bytes that it holds at least. None: not said."""
        found: Mapping[str, int] | None = self._call("memory", topology)
        return found

    def forecast(self, topology: Topology) -> Forecast | None:
        """Memory and traffic, for `plan` and reports. None: not said."""
        return self._call("forecast", topology)

    def prospects(
        self, config: ClusterConfig, options: Options, placement: Placement, wanted: Wanted
    ) -> Prospects | None:
        """How long it will take, for `plan`. None: not said."""
        return self._call("prospects", config, options, placement, wanted)

    # -- while it runs

    def preload(self) -> None:
        """Import and prepare what every process needs, once, before they are forked."""
        self._call("preload")

    def observer(
        self, placement: Placement, config: ClusterConfig, gauge: Callable[..., Any]
    ) -> Observer | None:
        """What hears of the run while it goes on. None: nothing."""
        return self._call("observer", placement, config, gauge)

    # -- reading

    def _function(self, name: str) -> Callable[..., Any] | None:
        """The function of this name. None: the module has none. ConfigError if it is no function,
        or cannot be called as the runtime calls it."""
        found = getattr(self._module, name, None)
        if found is None:
            return None
        arguments = _arguments_of(name)
        call = f"{name}({', '.join(arguments)})"
        if not callable(found):
            raise self._wrong(name, found, f"a function {call}")
        try:
            inspect.signature(found).bind(*arguments)
        except TypeError as error:
            text = f"{name} cannot be called as {call}: {error}"
            raise ConfigError([f"program '{self.name}': {text}"]) from None
        except ValueError:  # a function of C may not say how it is called
            pass
        function: Callable[..., Any] = found
        return function

    def _required(self, name: str, complaint: str) -> Callable[..., Any]:
        """The same of what there must be; ConfigError with the complaint if it is missing."""
        found = self._function(name)
        if found is None:
            raise ConfigError([f"program '{self.name}' {complaint}"])
        return found

    def _call(self, name: str, *arguments: Any, absent: Any = None) -> Any:
        """What the function returns; `absent` if there is none."""
        found = self._function(name)
        return absent if found is None else found(*arguments)

    def _wrong(self, name: str, found: object, expected: str) -> ConfigError:
        kind = type(found).__name__
        return ConfigError([f"program '{self.name}': {name} is {kind}, expected {expected}"])

    def _judge(self) -> None:
        """ConfigError if the module has no `plan`, or defines something of a wrong kind. What it
        imports only when it is asked for is judged when it is used."""
        self._required("plan", NO_PLAN)
        defined = vars(self._module)
        for name, table in TABLES.items():
            if name in defined:
                getattr(self, table)
        for name in FUNCTIONS:
            if name in defined:
                self._function(name)


TABLES = {"ROLES": "roles", "COMMANDS": "commands", "Options": "options"}
# the public methods: what a module may offer as functions
FUNCTIONS = tuple(
    name
    for name, member in vars(Program).items()
    if inspect.isfunction(member) and not name.startswith("_")
)


def program_of(module: ModuleType, name: str = "", *, planned: bool = False) -> Program:
    """The program that a module is. `name`: that of a script, its path. `planned`: a cluster.toml
    names it, so it must have a `plan`, and what it defines is judged at once; a script may use
    these names for other things."""
    program = Program(module, name or module.__name__)
    if planned:
        program._judge()
    return program


def _arguments_of(name: str) -> list[str]:
    """The names of what the runtime gives to a function of a program: "config", "options"."""
    return list(inspect.signature(getattr(Program, name)).parameters)[1:]
