"""`plan`: what would run, how much it would carry and how long it would take, in words and as
drawings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from runtime.cli.arguments import Settings, Switch
from runtime.errors import ConfigError
from runtime.reasons import reason

if TYPE_CHECKING:
    from runtime.plan.prospects import Prospects, Wanted
    from runtime.runs.checking import Checked

Runs = Annotated[tuple[Path, ...], Parameter(negative=())]
Names = Annotated[tuple[str, ...], Parameter(negative=())]


def plan(
    file: Path = Path("cluster.toml"),
    *,
    svg: Path | None = None,
    profile: Path | None = None,
    machine: Names = (),
    machines: Path | None = None,
    chart: Path | None = None,
    measured: Runs = (),
    target: str = "",
    learnt: Runs = (),
    presets: Switch = False,
    settings: Settings = (),
) -> int:
    """Show what `up` would start: processes, memory, the links and how much they carry; and how
    long it would take. Starts nothing.

    Parameters
    ----------
    file
        The cluster's description.
    svg
        Write it as a drawing into this file, too.
    profile
        Predict times from how long array work takes: what `time --profile` wrote, or a run's
        service-times.json.
    machine
        Predict times for rented machines of this kind, such as c4.4xlarge; of several kinds,
        compare them.
    machines
        A catalogue of your own that has these kinds.
    chart
        Draw seconds per iteration over the number of groups into this file, and what a target
        takes.
    measured
        A run directory whose measured time is drawn there, too; may be given several times.
    target
        Tell how long it takes until this is reached, such as accuracy=0.985 or loss=0.3.
    learnt
        A run directory that tells how many iterations that takes; may be given several times.
    presets
        Predict times for every preset that could run this, not for the configured one only.
    """
    from runtime.plan.prospects import Wanted

    kinds = dict.fromkeys(machine or ("",))
    wanted = [Wanted(profile, kind, machines, measured, learnt, target, presets) for kind in kinds]
    _plan(file, settings, wanted, svg, chart)
    return 0


def _plan(
    file: Path, settings: Settings, wanted: Sequence[Wanted], svg: Path | None, chart: Path | None
) -> None:
    from runtime.runs.checking import check

    if chart is not None and wanted[0].presets:
        raise ConfigError(
            [
                (
                    f"--chart {chart}: says nothing with --presets: it is drawn over "
                    "the groups of one preset"
                )
            ]
        )
    checked = check(file, settings, starts=False)
    found = _prospects(checked, wanted)
    picture = None if chart is None else _chart(found, chart)
    _tell(checked, found, svg)
    if chart is not None and picture is not None:
        _write(chart, picture, "--chart")


def _tell(checked: Checked, found: Sequence[Prospects], svg: Path | None) -> None:
    """In words, and as a drawing."""
    from runtime.drawing.prospect_text import outline as told
    from runtime.drawing.svg import outline
    from runtime.drawing.svg import svg as drawn
    from runtime.plan.forecast import Forecast
    from runtime.plan.placement import unknown
    from runtime.report.console import Teller

    forecast = checked.loaded.program.forecast(checked.placement.topology) or Forecast()
    console = Teller()
    checked.tell(console)
    console.say(outline(checked.placement, forecast))
    if text := unknown(checked.placement, checked.loaded.config):
        console.say(f"\n{text}")
    if found:
        console.say(f"\n{told(*found)}")
    if svg is not None:
        _write(svg, drawn(checked.placement, forecast), "--svg")


def _prospects(checked: Checked, wanted: Sequence[Wanted]) -> list[Prospects]:
    """What the program says of time, for each kind of machine. ConfigError if it says nothing and
    was asked."""
    first = wanted[0]
    _check(first)
    config = checked.loaded.config
    options = checked.loaded.options
    told = (
        checked.loaded.program.prospects(config, options, checked.placement, one) for one in wanted
    )
    found = [one for one in told if one is not None]
    if not found:
        if first.profile or first.machine or first.target or first.presets:
            text = "predicts no time: it has no prospects()"
            raise ConfigError([f"program '{config.program}' {text}"])
        return []
    asked = "--target" if first.target else "--presets"
    if (first.target or first.presets) and not found[0].choices:
        raise ConfigError(
            [(f"{asked}: there are no predictions: give --profile FILE or --machine NAME")]
        )
    if first.target and not found[0].target:
        raise ConfigError([f"--target: program '{config.program}' tells nothing of one"])
    return found


def _check(wanted: Wanted) -> None:
    """ConfigError if an option says nothing without another."""
    timed = wanted.profile or wanted.machine
    for said, needs, option, missing in (
        (wanted.measured, timed, "--measured", "--profile FILE or --machine NAME"),
        (wanted.machines, wanted.machine, f"--machines {wanted.machines}", "--machine NAME"),
        (
            wanted.target,
            wanted.learnt,
            f"--target {wanted.target}",
            "--learnt RUN, a run that reached it",
        ),
        (wanted.learnt, wanted.target, "--learnt", "--target, such as --target accuracy=0.985"),
    ):
        if said and not needs:
            raise ConfigError([f"{option}: says nothing without {missing}"])


def _chart(found: Sequence[Prospects], file: Path) -> str:
    from runtime.drawing.chart import beside, chart

    first = found[0] if found and found[0].choices else None
    if first is None:
        text = "there are no predictions to draw: give --profile FILE or --machine NAME"
    elif len(first.choices) < 2:
        text = (
            "there is one choice only, and no curve: this preset, or one worker, has no "
            "groups to choose from"
        )
    elif any(choice.seconds <= 0 for one in found for choice in one.choices):
        text = "an iteration is predicted to take no time at all: the profile has no times but 0"
    elif first.target and not first.fastest:
        text = f"of no number of {first.varies} is it known how long {first.target} takes"
    else:
        return beside(found) if first.target or len(found) > 1 else chart(first)
    raise ConfigError([f"--chart {file}: {text}"])


def _write(file: Path, text: str, option: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError([f"{option} {file}: cannot be written: {reason(error)}"]) from None
