"""The interface of a program to the runtime: everything that a program may offer, with the
defaults.

A program is a module (or a script), or the object `PROGRAM` of a module. `Program` reads it. An
attribute is looked up when it is used, since many modules import what they need for it only then.
An attribute of a wrong kind raises a ConfigError that names the program and the attribute.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from runtime.errors import ConfigError, ConvoyError, ProgramFailed
from runtime.user_code import line_of, told

if TYPE_CHECKING:
    from pydantic import BaseModel

# Types of packages above this one, which this module must not import. Their names are for the
# reader.
ClusterConfig = Any  # runtime.config.sections
Topology = Any  # runtime.plan.topology
Placement = Any  # runtime.plan.topology
Forecast = Any  # runtime.plan.forecast
Prospects = Any  # runtime.plan.prospects
Wanted = Any  # runtime.plan.prospects
Choice = Any  # runtime.plan.open_choice
Observer = Any  # runtime.runs.observation
Options = Any  # the program's own options, or None

A_TABLE_OF_ROLES = "a table of role names and actor classes"
A_TABLE_OF_COMMANDS = "a table of command names and 'module:function'"
NO_PLAN = "has no function plan()"
A_MODEL = "a pydantic model class"


class Program:
    """A module, or its object `PROGRAM`, read as a program. `name` is its name in error texts."""

    def __init__(self, offered: object, name: str) -> None:
        self._offered = offered
        self.name = name

    def __init_subclass__(cls) -> None:
        raise TypeError(
            f"{cls.__name__}: Program only reads programs. Write a class without this base, with "
            f"ROLES and plan(), and PROGRAM = {cls.__name__}()"
        )

    def __repr__(self) -> str:
        return f"<program {self.name}>"

    # -- tables

    @property
    def roles(self) -> Mapping[str, Callable[..., Any]]:
        """`ROLES`: role name -> actor class. Raises ConfigError if the module lacks it."""
        found = getattr(self._offered, "ROLES", None)
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
        """`COMMANDS`: name -> "module:function", the commands that the program adds to the command
        line."""
        found = getattr(self._offered, "COMMANDS", None)
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
        """`Options`: the model of the program's own sections of cluster.toml. None: it has no
        sections."""
        found = getattr(self._offered, "Options", None)
        if found is None:
            return None
        from pydantic import BaseModel  # takes long, and role processes do not need it

        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            raise self._wrong("Options", found, A_MODEL)
        return found

    def completions(self) -> Mapping[str, Sequence[str]]:
        """Return key of cluster.toml -> names that it may have, which shells complete."""
        found: Mapping[str, Sequence[str]] = self._call("completions", absent={})
        return found

    # -- the plan

    def plan(self, config: ClusterConfig, options: Options) -> Topology:
        """Return the actors, which of them talk to each other, and which one leads.

        A program that a cluster.toml names must have this function. The program of a script's
        topology need not.
        """
        return self._required("plan", NO_PLAN)(config, options)

    def choice(self, config: ClusterConfig, options: Options) -> Choice | None:
        """Return the choices to be made before the run starts. None: nothing is left open."""
        return self._call("choice", config, options)

    def resumed(
        self, config: ClusterConfig, options: Options, run: Path | None
    ) -> tuple[Options, list[str]]:
        """Return the options of a run that resumes from `run` (None: from the last one), and lines
        about it for the user.

        Raises ConfigError if there is nothing to resume from. `resumes` shows whether the program
        has this function.
        """
        text = "cannot resume a run: it has no resumed()"
        found: tuple[Options, list[str]] = self._required("resumed", text)(config, options, run)
        return found

    @property
    def resumes(self) -> bool:
        """Whether the program can resume a run."""
        return self._function("resumed") is not None

    def scaled(self, config: ClusterConfig, options: Options, workers: int, groups: int) -> Options:
        """Return the options of a run with these numbers of workers and groups. 0: as before.
        Raises ConfigError if that is impossible."""
        text = "cannot change the number of workers: it has no scaled()"
        return self._required("scaled", text)(config, options, workers, groups)

    # -- forecasts and checks before it runs

    def decided(self, topology: Topology) -> Iterable[str]:
        """Return the decisions that the program made by itself, one line each: worth knowing, but
        not warnings."""
        found: Iterable[str] = self._call("decided", topology, absent=())
        return found

    def finished(self, topology: Topology) -> tuple[str, Path] | None:
        """Return why nothing is left to do, and the checkpoint at the end. None: there is work to
        do."""
        found: tuple[str, Path] | None = self._call("finished", topology)
        return found

    def lacking(self, config: ClusterConfig, topology: Topology) -> Sequence[str]:
        """Return what this machine lacks for the program, one line each, as far as it is known
        before a start."""
        found: Sequence[str] = self._call("lacking", config, topology, absent=())
        return found

    def samples(
        self, config: ClusterConfig, options: Options, tell: Callable[[str], None]
    ) -> Sequence[str]:
        """Read all data of the run once, for `check --all-samples`. Calls `tell` with lines about
        them. Returns the mistakes, one line each."""
        text = "cannot check its data: it has no samples()"
        found: Sequence[str] = self._required("samples", text)(config, options, tell)
        return found

    def memory(self, topology: Topology) -> Mapping[str, int] | None:
        """Return for each actor the bytes that it holds at least. None: not known."""
        found: Mapping[str, int] | None = self._call("memory", topology)
        return found

    def forecast(self, topology: Topology) -> Forecast | None:
        """Return a forecast of memory and traffic, for `plan` and reports. None: not known."""
        return self._call("forecast", topology)

    def prospects(
        self, config: ClusterConfig, options: Options, placement: Placement, wanted: Wanted
    ) -> Prospects | None:
        """Return how long the run will take, for `plan`. None: not known."""
        return self._call("prospects", config, options, placement, wanted)

    # -- while it runs

    def preload(self) -> None:
        """Import and prepare what every process needs, once, before the processes are forked."""
        self._call("preload")

    def observer(
        self, placement: Placement, config: ClusterConfig, gauge: Callable[..., Any]
    ) -> Observer | None:
        """Return an observer that receives reports of the run while it goes on. None: no
        observer."""
        return self._call("observer", placement, config, gauge)

    # -- reading

    def _function(self, name: str) -> Callable[..., Any] | None:
        """Return the function of this name. None: the module has none.

        Raises ConfigError if it is not a function, or cannot be called as the runtime calls it.
        """
        found = getattr(self._offered, name, None)
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
        except ValueError:  # functions written in C may not show their signature
            pass
        return partial(_called, found)

    def _required(self, name: str, complaint: str) -> Callable[..., Any]:
        """Return a function that the program must have. Raises ConfigError with the complaint if it
        is missing."""
        found = self._function(name)
        if found is None:
            raise ConfigError([f"program '{self.name}' {complaint}"])
        return found

    def _call(self, name: str, *arguments: Any, absent: Any = None) -> Any:
        """Call the function and return its result, or `absent` if the module has none."""
        found = self._function(name)
        return absent if found is None else found(*arguments)

    def _wrong(self, name: str, found: object, expected: str) -> ConfigError:
        kind = type(found).__name__
        return ConfigError([f"program '{self.name}': {name} is {kind}, expected {expected}"])

    def _hint(self) -> str:
        """Return what to write if the module has a class with a `plan`."""
        for name, found in getattr(self._offered, "__dict__", {}).items():
            if isinstance(found, type) and "plan" in vars(found):
                return f"; to use its class {name}, write PROGRAM = {name}() in the module"
        return ""

    def _judge(self) -> None:
        """Raise ConfigError if the module has no `plan`, or defines an attribute of a wrong kind.

        Attributes that the module imports only when they are looked up are checked when they are
        used.
        """
        self._required("plan", NO_PLAN + self._hint())
        # an object's methods are those of its class
        offered = self._offered
        defined = vars(offered) if isinstance(offered, ModuleType) else dir(offered)
        for name, table in TABLES.items():
            if name in defined:
                getattr(self, table)
        for name in FUNCTIONS:
            if name in defined:
                self._function(name)


TABLES = {"ROLES": "roles", "COMMANDS": "commands", "Options": "options"}
# the public methods, which a module may offer as functions
FUNCTIONS = tuple(
    name
    for name, member in vars(Program).items()
    if inspect.isfunction(member) and not name.startswith("_")
)


def program_of(module: ModuleType, name: str = "", *, planned: bool = False) -> Program:
    """Return the program that a module is, or that its attribute `PROGRAM` is.

    `name`: the path of a script. `planned`: a cluster.toml names the module. So it must have a
    `plan`, and its attributes are checked at once. A script may use these names for other things.
    """
    offered = vars(module).get("PROGRAM")
    program = Program(module if offered is None else offered, name or module.__name__)
    if planned:
        program._judge()
    return program


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a program. An exception in the user's code becomes a ProgramFailed that
    names its line. Any other exception is raised as it is."""
    try:
        return function(*arguments)
    except ConvoyError:
        raise
    except Exception as error:
        if not line_of(error):
            raise
        raise ProgramFailed(told(error)) from error


def _arguments_of(name: str) -> list[str]:
    """Return the names of the arguments with which the runtime calls a function of a program, such
    as "config", "options"."""
    return list(inspect.signature(getattr(Program, name)).parameters)[1:]
