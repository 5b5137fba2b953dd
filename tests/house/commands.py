"""docs/commands.md: every command with its arguments, from their functions and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from cyclopts import App
from cyclopts.argument import Argument

from runtime.cli.main import SCRIPT, VERSION, application
from tests.house.folder_maps import first_sentence
from tests.house.pages import linked, table

OPENING = """# Commands

This page is written from the commands themselves (`python -m tests.house --write`); a test compares.
`convoy` and `python -m runtime` are the same command line. What runs, exit codes and run directories
are in [configuration.md](configuration.md).
"""
OPTION = inspect.Parameter.KEYWORD_ONLY
SEVERAL = inspect.Parameter.VAR_POSITIONAL


def commands() -> dict[str, App]:
    """Name -> the command, of the runtime and of the built-in program."""
    app = application(["--help"], SCRIPT)
    return {name: app[name] for name in app if not name.startswith("-")}


def summary() -> str:
    """A row for each command: how it is typed, and what it does."""
    rows = [
        (f"[`{' '.join((SCRIPT, name, *_places(app)))}`](commands.md#{name})", _does(app))
        for name, app in commands().items()
    ]
    rows.append((f"`{SCRIPT} {VERSION}`", "Show the version."))
    return table(("command", "what it does"), rows)


def markdown() -> str:
    """The page."""
    return "\n".join([OPENING, *(_section(name, app) for name, app in commands().items())])


def _section(name: str, app: App) -> str:
    text = inspect.getdoc(app.default_command) or ""
    words = text.partition("\n\nParameters\n")[0].split("\n\n")
    usage = " ".join((SCRIPT, name, *_places(app), *_options(app)))
    parts = [f"## {name}", f"    {usage}", *(linked(" ".join(part.split())) for part in words)]
    rows = [(f"`{_typed(each)}`", linked(help_of(name, each))) for each in _arguments(app)]
    return "\n\n".join(parts) + "\n\n" + table(("argument", "what it is"), rows)


def _does(app: App) -> str:
    return linked(f"{first_sentence(inspect.getdoc(app.default_command) or '')}.")


def _arguments(app: App) -> list[Argument]:
    found = app.assemble_argument_collection(parse_docstring=True)
    return [argument for argument in found if argument.show]


def help_of(command: str, argument: Argument) -> str:
    """What the help says of an argument. LookupError if it says nothing."""
    if said := argument.parameter.help:
        return " ".join(said.split())
    raise LookupError(
        f"command {command}: {_typed(argument)} has no help, expected a text under its name "
        "in the Parameters of the docstring"
    )


def _places(app: App) -> Iterator[str]:
    """The arguments that are known by their place."""
    for argument in _arguments(app):
        if argument.field_info.kind is not OPTION:
            name = _typed(argument)
            yield name if argument.required else f"[{name}]"


def _options(app: App) -> Iterator[str]:
    for argument in _arguments(app):
        if argument.field_info.kind is OPTION:
            yield f"[{_typed(argument)}]"


def _typed(argument: Argument) -> str:
    """An argument as it is typed: FILE, FILE ..., --json, --svg FILE."""
    kind = argument.field_info.kind
    name = argument.names[0]
    if kind is not OPTION:
        return f"{name.lstrip('-').upper()}{' ...' if kind is SEVERAL else ''}"
    names = ", ".join(argument.names)
    if argument.hint is bool:
        return names
    return f"{names} {name.lstrip('-').replace('-', '_').upper()}"
