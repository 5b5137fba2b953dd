"""docs/commands.md: every command with its arguments, from their functions and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from cyclopts import App
from cyclopts.argument import Argument

from runtime.cli.main import VERSION, application
from runtime.typed_name import SCRIPT
from tests.house.folder_maps import first_sentence
from tests.house.pages import linked, table

OPENING = """# Commands

This page is generated from the commands (`python -m tests.house --write`), and a test compares
them. `convoy` and `python -m runtime` are the same command line. The program that runs, exit codes
and run directories are described in [configuration.md](configuration.md).
"""
OPTION = inspect.Parameter.KEYWORD_ONLY
SEVERAL = inspect.Parameter.VAR_POSITIONAL


def commands() -> dict[str, App]:
    """The commands of the runtime and of the built-in program, by name."""
    app = application(["--help"], SCRIPT)
    return {name: app[name] for name in app if not name.startswith("-")}


def summary() -> str:
    """A table with a row for each command: how to type it, and its effect."""
    rows = [
        (f"[`{' '.join((SCRIPT, name, *_places(app)))}`](commands.md#{name})", _does(app))
        for name, app in commands().items()
    ]
    rows.append((f"`{SCRIPT} {VERSION}`", "Show the version."))
    return table(("command", "effect"), rows)


def markdown() -> str:
    """The text of the page."""
    return "\n".join([OPENING, *(_section(name, app) for name, app in commands().items())])


def _section(name: str, app: App) -> str:
    text = inspect.getdoc(app.default_command) or ""
    words = text.partition("\n\nParameters\n")[0].split("\n\n")
    usage = " ".join((SCRIPT, name, *_places(app), *_options(app)))
    parts = [f"## {name}", f"    {usage}", *(linked(" ".join(part.split())) for part in words)]
    rows = [(f"`{_typed(each)}`", linked(help_of(name, each))) for each in _arguments(app)]
    return "\n\n".join(parts) + "\n\n" + table(("argument", "meaning"), rows)


def _does(app: App) -> str:
    return linked(f"{first_sentence(inspect.getdoc(app.default_command) or '')}.")


def _arguments(app: App) -> list[Argument]:
    found = app.assemble_argument_collection(parse_docstring=True)
    return [argument for argument in found if argument.show]


def help_of(command: str, argument: Argument) -> str:
    """The help text of an argument. Raises LookupError if it has none."""
    if said := argument.parameter.help:
        return " ".join(said.split())
    raise LookupError(
        f"command {command}: {_typed(argument)} has no help, expected a text under its name "
        "in the Parameters of the docstring"
    )


def _places(app: App) -> Iterator[str]:
    """The positional arguments."""
    for argument in _arguments(app):
        if argument.field_info.kind is not OPTION:
            name = _typed(argument)
            yield name if argument.required else f"[{name}]"


def _options(app: App) -> Iterator[str]:
    for argument in _arguments(app):
        if argument.field_info.kind is OPTION:
            yield f"[{_typed(argument)}]"


def _typed(argument: Argument) -> str:
    """An argument as a user types it: FILE, FILE ..., --json, --svg FILE."""
    kind = argument.field_info.kind
    name = argument.names[0]
    if kind is not OPTION:
        return f"{name.lstrip('-').upper()}{' ...' if kind is SEVERAL else ''}"
    names = ", ".join(argument.names)
    if argument.hint is bool:
        return names
    return f"{names} {name.lstrip('-').replace('-', '_').upper()}"
