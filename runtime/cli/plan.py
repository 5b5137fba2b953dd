"""`plan`: what would run and how much it would carry, in words and as a drawing."""

from __future__ import annotations

from pathlib import Path

from runtime.cli.arguments import Settings
from runtime.errors import ConfigError


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
    from runtime.report.console import RunConsole
    from runtime.runs.checking import check

    checked = check(file, settings)
    tell = getattr(checked.loaded.program, "forecast", None)
    forecast = tell(checked.placement.topology) if tell is not None else NOTHING
    console = RunConsole(live=False)
    for warning in checked.warnings:
        console.warn(warning)
    console.say(outline(checked.placement, forecast))
    if svg is not None:
        try:
            svg.write_text(drawn(checked.placement, forecast), "utf-8")
        except OSError as error:
            raise ConfigError([f"--svg {svg}: cannot be written: {error.strerror}"]) from None
    return 0
