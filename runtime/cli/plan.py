"""`plan`: what would run, how much it would carry and how long it would take, in words and as drawings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from runtime.cli.arguments import Settings
from runtime.errors import ConfigError

if TYPE_CHECKING:
    from runtime.plan.prospects import Prospects, Wanted
    from runtime.runs.checking import Checked

Runs = Annotated[tuple[Path, ...], Parameter(negative=())]


def plan(
    file: Path = Path("cluster.toml"),
    *,
    svg: Path | None = None,
    profile: Path | None = None,
    machine: str = "",
    machines: Path | None = None,
    chart: Path | None = None,
    measured: Runs = (),
    settings: Settings = (),
) -> int:
    """Show what `up` would start: processes, memory, the links and how much they carry; and how long it would take.
    Starts nothing.

    Parameters
    ----------
    file
        The cluster's description.
    svg
        Write it as a drawing into this file, too.
    profile
        Predict times from how long array work takes: a file that `time --profile` wrote, or a run's
        service-times.json.
    machine
        Predict times for rented machines of this kind, such as c4.4xlarge.
    machines
        A catalogue of your own that has this kind.
    chart
        Draw seconds per iteration over the number of groups into this file.
    measured
        A run directory whose measured time is drawn there, too; may be given several times.
    """
    from runtime.plan.prospects import Wanted
    from runtime.runs.checking import check

    checked = check(file, settings)
    found = _prospects(checked, Wanted(profile, machine, machines, measured))
    picture = None if chart is None else _chart(found, chart)
    _tell(checked, found, svg)
    if chart is not None and picture is not None:
        _write(chart, picture, "--chart")
    return 0


def _tell(checked: Checked, found: Prospects | None, svg: Path | None) -> None:
    """In words, and as a drawing."""
    from runtime.plan.forecast import Forecast
    from runtime.plan.prospects import outline as told
    from runtime.plan.svg import outline
    from runtime.plan.svg import svg as drawn
    from runtime.report.console import RunConsole

    tell = getattr(checked.loaded.program, "forecast", None)
    forecast = tell(checked.placement.topology) if tell is not None else Forecast()
    console = RunConsole(live=False)
    checked.tell(console)
    console.say(outline(checked.placement, forecast))
    if found is not None:
        console.say(f"\n{told(found)}")
    if svg is not None:
        _write(svg, drawn(checked.placement, forecast), "--svg")


def _prospects(checked: Checked, wanted: Wanted) -> Prospects | None:
    """What the program says of time. ConfigError if it says nothing and was asked."""
    if wanted.measured and not (wanted.profile or wanted.machine):
        raise ConfigError(["--measured: says nothing without --profile FILE or --machine NAME"])
    if wanted.machines is not None and not wanted.machine:
        raise ConfigError([f"--machines {wanted.machines}: says nothing without --machine NAME"])
    tell = getattr(checked.loaded.program, "prospects", None)
    if tell is not None:
        found: Prospects = tell(checked.loaded.config, checked.loaded.options, checked.placement, wanted)
        return found
    if wanted.profile or wanted.machine:
        raise ConfigError([f"program '{checked.loaded.config.program}' predicts no time: it has no prospects()"])
    return None


def _chart(found: Prospects | None, file: Path) -> str:
    from runtime.plan.chart import chart

    if found is None or not found.choices:
        text = "there are no predictions to draw: give --profile FILE or --machine NAME"
    elif len(found.choices) < 2:
        text = "there is one choice only, and no curve: this preset, or one worker, has no groups to choose from"
    elif any(choice.seconds <= 0 for choice in found.choices):
        text = "an iteration is predicted to take no time at all: the profile has no times but 0"
    else:
        return chart(found)
    raise ConfigError([f"--chart {file}: {text}"])


def _write(file: Path, text: str, option: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError([f"{option} {file}: cannot be written: {error.strerror}"]) from None
