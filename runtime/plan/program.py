"""The program of a topology, as the processes of its actors find it: an importable module, or the
script that made the topology.

A script's own module is `__main__`, which no other process can import. Other processes load it by
its path, under the name SCRIPT, as `multiprocessing` does. A script must therefore keep the code
that starts a run under `if __name__ == "__main__":`.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from runtime import extensions
from runtime.actor_options import typed
from runtime.actors.actor import Actor
from runtime.errors import ConfigError, LaunchError
from runtime.messages.message import SCRIPT, Message
from runtime.plan.machine_files import Files
from runtime.plan.peers import refuse_unlinked, wrong_peers
from runtime.plan.topology import ActorSpec, Topology
from runtime.program_interface import Program, program_of
from runtime.regular import is_file
from runtime.suggest import hint, near_hint

if TYPE_CHECKING:
    from runtime.config.sections import ClusterConfig

Role = Callable[..., Actor]

GROUP = "convoy.roles"  # entry points
MAIN = "__main__"
GUARD = 'keep that under `if __name__ == "__main__":`'

_loading: list[str] = []  # scripts that are being loaded for their roles
# scripts whose loading failed: the first error explains more than a second one
_failed: dict[str, BaseException] = {}


def main_program() -> str:
    """Return the name of the program `__main__` for other processes: a module's name, or the path
    of its file.

    Raises ConfigError if it has neither, as in a notebook.
    """
    main = sys.modules[MAIN]
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name)
    if file is None or not is_file(Path(file)):
        text = (
            "the topology's program is __main__, which has no file here: its roles cannot "
            "reach other processes; "
        )
        text += "write them into a module, or run the actors in this process with processes='here'"
        raise ConfigError([f"topology: {text}"])
    return str(Path(file).resolve())


def is_script(program: str) -> bool:
    """Whether the program is given as the path of a file."""
    return os.sep in program


def import_program(program: str) -> Program:
    """Import the program by its name or, for a script, by its path. Exceptions of the import are
    not caught."""
    return program_of(module_of(program), program if is_script(program) else "")


def module_of(program: str) -> ModuleType:
    """Import a module by its name, or a script by its path. Exceptions of the import are not
    caught."""
    if not is_script(program):
        return importlib.import_module(program)
    known = sys.modules.get(SCRIPT)
    if known is not None and known.__file__ == program:
        return known
    if program in _failed:
        raise _failed[program]
    return _loaded(program)


def program_here(program: str) -> Program | None:
    """Return the program if this process has already imported it or runs it as its script, or else
    None."""
    with suppress(ConfigError):
        if program == main_program():
            return program_of(sys.modules[MAIN], program)
    module = sys.modules.get(program)
    return None if module is None else program_of(module)


def _loaded(path: str) -> ModuleType:
    loader = SourceFileLoader(SCRIPT, path)
    spec = ModuleSpec(SCRIPT, loader, origin=path)
    spec.has_location = True
    module = sys.modules[SCRIPT] = importlib.util.module_from_spec(spec)
    _loading.append(path)
    try:
        loader.exec_module(module)
    except BaseException as error:  # noqa: BLE001  # raised again, the same one each time
        del sys.modules[SCRIPT]
        ended = LaunchError(f"{path}: ends when its roles are loaded: {GUARD}")
        _failed[path] = ended if isinstance(error, SystemExit) else error
        raise _failed[path] from None
    finally:
        _loading.pop()
    return module


def stop_if_loading() -> None:
    """Raise LaunchError if a script that is being loaded for its roles starts a run."""
    if _loading:
        raise LaunchError(f"{_loading[-1]}: starts a run when its roles are loaded: {GUARD}")


def role_of(roles: Mapping[str, Role], spec: ActorSpec) -> Role:
    """Return the class of an actor: one of the program's roles, or an entry point of the group
    `convoy.roles`.

    Raises ConfigError if neither has the role.
    """
    found = roles.get(spec.role) or extensions.find(GROUP, spec.role)
    if callable(found):
        return found
    known = sorted([*roles, *extensions.names(GROUP)])
    text = f"the program has no role '{spec.role}'{near_hint(spec.role, known)}"
    raise ConfigError([f"actor '{spec.name}': {text}; its roles are {', '.join(known)}"])


def options_of(role: Role, spec: ActorSpec) -> Any:
    """Return an actor's options as its role declares them. Raises ConfigError with the actor, the
    role and the key."""
    kind = getattr(role, "Options", None)
    try:
        if kind is not None:
            return typed(kind, spec.options)
        _bind(inspect.signature(role), spec.options)
    except (TypeError, ValueError) as error:
        raise ConfigError([f"actor '{spec.name}' (role '{spec.role}'): {error}"]) from None
    return spec.options


def _bind(signature: inspect.Signature, options: Mapping[str, Any]) -> None:
    """Check that a role can be called with these keywords. Raises TypeError with the key."""
    taken = signature.parameters.values()
    names = [parameter.name for parameter in taken]
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken)
    for key in options:
        if key not in names and not takes_any:
            raise TypeError(f"{key}: unknown key{hint(key, names)}")
    signature.bind(**options)


def vocabulary_of(
    roles: Mapping[str, Role], topology: Topology
) -> dict[str, Collection[type[Message]]]:
    """Return actor -> the messages that it handles. Actors made by a function are left out, since
    any message may be sent to them."""
    found = {spec.name: understood_by(roles, spec) for spec in topology.actors}
    return {name: kinds for name, kinds in found.items() if kinds is not None}


def understood_by(roles: Mapping[str, Role], spec: ActorSpec) -> Collection[type[Message]] | None:
    """Return the messages that an actor handles. None if a function makes it: any message may be
    sent to it."""
    role = role_of(roles, spec)
    return role.handlers if isinstance(role, type) and issubclass(role, Actor) else None


def described_child(spec: object, links: Sequence[str]) -> ActorSpec:
    """Return `spec` if it and `links` can describe an actor that another one starts. Raises
    ConfigError."""
    if not isinstance(spec, ActorSpec):
        kind = type(spec).__name__
        raise ConfigError([f"found {kind}, expected ActorSpec(name, role, ...)"])
    if isinstance(links, str):
        raise ConfigError([f"links: found '{links}', expected a list of names"])
    if spec.process:
        text = f"process: found '{spec.process}', but it gets a process of its own"
        raise ConfigError([f"actor '{spec.name}': {text}: leave `process` out"])
    return spec


def child_of(
    roles: Mapping[str, Role], parent: str, spec: object, links: Sequence[str]
) -> ActorSpec:
    """Return the description of an actor that `parent` starts while the run goes on, with options
    as its role declares them. Raises ConfigError if it is not complete and correct in itself."""
    described = described_child(spec, links)
    role = role_of(roles, described)
    child = dataclasses.replace(described, options=options_of(role, described))
    refuse_unlinked(role, child, {parent, *links})
    return child


def made_of(roles: Mapping[str, Role], spec: ActorSpec, files: Files | None = None) -> Actor:
    """Make a new actor with a separate copy of its options.

    Options with a method `at` are adapted to a machine with these `files`. Raises ConfigError as
    `role_of` and `options_of` do.
    """
    role = role_of(roles, spec)
    options = options_of(role, spec)
    if files is not None and (at := getattr(options, "at", None)) is not None:
        options = at(files)
    return role(**options) if getattr(role, "Options", None) is None else role(options)


def actor_of(program: Program, spec: ActorSpec, files: Files | None = None) -> Actor:
    """Make a new actor of the program. Raises ConfigError as `Program.roles` and `made_of` do."""
    return made_of(program.roles, spec, files)


def planned(program: Program, config: ClusterConfig, options: Any) -> Topology:
    """Return the topology that the program plans, with all options as its roles declare them.
    Raises ConfigError as `checked` does, and if the plan is not a Topology."""
    topology = program.plan(config, options)
    if not isinstance(topology, Topology):
        text = f"plan returned {type(topology).__name__}, expected a runtime.Topology"
        raise ConfigError([f"program '{program.name}': {text}"])
    return checked(topology)


def checked(topology: Topology) -> Topology:
    """Return the topology with all options as its program's roles declare them. Raises ConfigError
    with every mistake in them, or if the program cannot be imported."""
    try:
        roles = import_program(topology.program).roles
    except ImportError as error:
        raise ConfigError(
            [(f"topology: program '{topology.program}' cannot be imported: {error}")]
        ) from None
    actors: list[ActorSpec] = []
    problems: list[str] = []
    # many actors may share one object, which can name all of them
    made: dict[tuple[str, int], Any] = {}
    for spec in topology.actors:
        try:
            key = spec.role, id(spec.options)
            if key not in made:
                made[key] = options_of(role_of(roles, spec), spec)
            actors.append(dataclasses.replace(spec, options=made[key]))
        except ConfigError as error:
            problems += error.problems
    if not problems:
        topology = dataclasses.replace(topology, actors=tuple(actors))
        by_actor = {spec.name: role_of(roles, spec) for spec in actors}
        problems = wrong_peers(topology, by_actor)
    if problems:
        raise ConfigError(problems)
    return topology
