"""`plan`: print the processes of a run, its traffic and its predicted time, in words and as
drawings."""

from __future__ import annotations

import json
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
    """Show what `up` would start: the processes, their memory, the links with their traffic, and
    the predicted time. Starts nothing.

    Parameters
    ----------
    file
        The cluster's description.
    svg
        Also draw the plan into this file.
    profile
        Predict times from measured times of array work: a file that `time --profile` wrote, or the
        service-times.json of a run.
    machine
        Lay the run out on machines of this kind, such as c4.4xlarge, and predict its time there.
        Several kinds are compared. There are as many machines as [[machine]] entries, or, with one
        entry, as the run can use.
    machines
        Your own catalogue that has these kinds, and the kinds of [[machine]].
    chart
        Draw seconds per iteration over the number of groups into this file, and the time to a
        target.
    measured
        A run directory whose measured time is added to the chart; may be given several times.
    target
        Predict the time until this is reached, such as accuracy=0.985 or loss=0.3.
    learnt
        A run directory that shows how many iterations the target takes; may be given several times.
    presets
        Predict times for every preset that could run this, in addition to the configured one.
    """
    from runtime.plan.prospects import Wanted

    if machines is not None:
        # also for the kinds of [[machine]]
        settings = (*settings, f"placement.kinds={json.dumps(str(machines.absolute()))}")
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
                    f"--chart {chart}: has no effect with --presets: it is drawn over "
                    "the groups of one preset"
                )
            ]
        )
    checked = check(file, settings, starts=False, rented=bool(wanted[0].machine))
    found = _prospects(checked, wanted)
    picture = None if chart is None else _chart(found, chart)
    _tell(checked, found, svg)
    if chart is not None and picture is not None:
        _write(chart, picture, "--chart")


def _tell(checked: Checked, found: Sequence[Prospects], svg: Path | None) -> None:
    """Print the plan, and draw it if wanted."""
    from runtime.drawing.prospect_text import outline as told
    from runtime.drawing.svg import outline
    from runtime.drawing.svg import svg as drawn
    from runtime.plan.forecast import Forecast
    from runtime.plan.placement import limited, unknown
    from runtime.report.console import Teller

    forecast = checked.loaded.program.forecast(checked.placement.topology) or Forecast()
    console = Teller()
    checked.tell(console)
    console.say(outline(checked.placement, forecast))
    for describe in (limited, unknown):
        if text := describe(checked.placement, checked.loaded.config):
            console.say(f"\n{text}")
    if found:
        console.say(f"\n{told(*found)}")
    if svg is not None:
        _write(svg, drawn(checked.placement, forecast), "--svg")


def _prospects(checked: Checked, wanted: Sequence[Wanted]) -> list[Prospects]:
    """The program's predictions of time for each kind of machine. Raises ConfigError if they were
    asked for and the program has none."""
    first = wanted[0]
    config = checked.loaded.config
    _check(first, kinds=any(machine.kind for machine in config.machine))
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
        raise ConfigError([f"--target: program '{config.program}' predicts no time to a target"])
    return found


def _check(wanted: Wanted, *, kinds: bool) -> None:
    """Raise ConfigError for an option that has no effect without another one. `kinds`: the machines
    of cluster.toml have kinds."""
    named = wanted.machine or kinds
    timed = wanted.profile or named
    for said, needs, option, missing in (
        (wanted.measured, timed, "--measured", "--profile FILE or --machine NAME"),
        (wanted.machines, named, f"--machines {wanted.machines}", "--machine NAME"),
        (
            wanted.target,
            wanted.learnt,
            f"--target {wanted.target}",
            "--learnt RUN, a run that reached it",
        ),
        (wanted.learnt, wanted.target, "--learnt", "--target, such as --target accuracy=0.985"),
    ):
        if said and not needs:
            raise ConfigError([f"{option}: has no effect without {missing}"])


def _chart(found: Sequence[Prospects], file: Path) -> str:
    from runtime.drawing.chart import beside, chart

    first = found[0] if found and found[0].choices else None
    if first is None:
        text = "there are no predictions to draw: give --profile FILE or --machine NAME"
    elif len(first.choices) < 2:
        text = (
            "there is only one choice, which makes no curve: this preset, or one worker, has "
            "no groups to choose from"
        )
    elif any(choice.seconds <= 0 for one in found for choice in one.choices):
        text = "an iteration is predicted to take 0 s: the profile has no times but 0"
    elif first.target and not first.fastest:
        text = f"the time to {first.target} is not known for any number of {first.varies}"
    else:
        return beside(found) if first.target or len(found) > 1 else chart(first)
    raise ConfigError([f"--chart {file}: {text}"])


def _write(file: Path, text: str, option: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError([f"{option} {file}: cannot be written: {reason(error)}"]) from None
