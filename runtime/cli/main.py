"""The command line: thin functions, one per command. Exit codes: 0 done, 1 the program failed, 2 bad configuration,
3 could not place or launch, 4 a role died, 130/143 ended by a signal.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cyclopts import App

from runtime.cli.arguments import Settings
from runtime.errors import ConfigError, ConvoyError
from runtime.report.console import RunConsole

app = App(
    name="python -m runtime", help="Train convolutional networks as a convoy of role processes.", version_flags=[]
)

BUILT_IN = "roles.planning.commands"


@app.command
def up(file: Path = Path("cluster.toml"), *, settings: Settings = ()) -> int:
    """Start the roles, train, and show what happens.

    Ctrl-C finishes what is under way, saves and stops; a second one stops at once.

    Parameters
    ----------
    file
        The cluster's description.
    """
    from runtime.cluster.launchers import Nursery

    # before all else: what it imports and what this process imports take a second each
    with Nursery.start() as nursery:
        from runtime.runs.checking import check as check_config
        from runtime.runs.up import run

        return run(check_config(file, settings, nursery), RunConsole(), nursery)


@app.command
def check(file: Path = Path("cluster.toml"), *, settings: Settings = ()) -> int:
    """Read everything, plan and place, start nothing; every mistake is one line.

    Parameters
    ----------
    file
        The cluster's description.
    """
    from runtime.runs.checking import check as check_config

    placement = check_config(file, settings).placement
    console = RunConsole(live=False)
    console.say(f"{file}: {len(placement.topology.actors)} actors in {len(placement.processes)} processes")
    for spec in placement.processes:
        cores = f" on core {', '.join(map(str, spec.cores))}" if spec.cores else ""
        actors = ", ".join(spec.actors)
        console.say(f"  {spec.name:<14} on {spec.machine}, {spec.threads} BLAS threads{cores}: {actors}")
    return 0


@app.command
def plan(file: Path = Path("cluster.toml"), *, svg: Path | None = None, settings: Settings = ()) -> int:
    """Show what `up` would start: processes, memory, the links and how much they carry. Starts nothing.

    Parameters
    ----------
    file
        The cluster's description.
    svg
        Write it as a drawing into this file, too.
    """
    from runtime.plan.svg import NOTHING, outline
    from runtime.plan.svg import svg as drawn
    from runtime.runs.checking import check as check_config

    checked = check_config(file, settings)
    tell = getattr(checked.loaded.program, "forecast", None)
    forecast = tell(checked.placement.topology) if tell is not None else NOTHING
    RunConsole(live=False).say(outline(checked.placement, forecast))
    if svg is not None:
        try:
            svg.write_text(drawn(checked.placement, forecast), "utf-8")
        except OSError as error:
            raise ConfigError([f"--svg {svg}: cannot be written: {error.strerror}"]) from None
    return 0


# the built-in program's own commands; their module is imported when one is called
for _name, _help in (
    ("time", "Time every layer of the net, forward and backward."),
    ("test", "Score a model on the test data."),
    ("convert", "Turn data sets and weights into one another."),
):
    app.command(f"{BUILT_IN}:{_name}", name=_name, help=_help)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; errors for people go to stderr without a traceback."""
    try:
        result = app(
            sys.argv[1:] if arguments is None else arguments,
            exit_on_error=False,
            print_error=True,
            result_action="return_value",
        )
    except ConvoyError as error:
        print(error, file=sys.stderr)  # noqa: T201  # what went wrong belongs on stderr
        return error.exit_code
    except Exception as error:  # cyclopts has told the person what is wrong with the command line
        if type(error).__module__.partition(".")[0] != "cyclopts":
            raise
        return 2
    return result if isinstance(result, int) else 0
