"""What a run was planned to send and hold, asked of its program, which is imported if it can be found by its name."""

from __future__ import annotations

import dataclasses

from runtime.page.story import Story
from runtime.plan.forecast import Forecast
from runtime.plan.program import checked, import_program, is_script
from runtime.plan.topology import Placement


def outlook(story: Story) -> tuple[Placement, Forecast] | None:
    """The placement, its options as its roles declare them, and the forecast; without a word of the program only the
    first. None where no placement is known."""
    placement = story.placement
    if placement is None:
        return None
    program = placement.topology.program
    if is_script(program):  # whoever reads a report runs no script for it
        story.notes.append(f"its program is the script {program}: what was planned to be sent is not known here")
        return placement, Forecast()
    try:
        topology = checked(placement.topology)
        tell = getattr(import_program(program), "forecast", None)
        forecast = tell(topology) if tell is not None else Forecast()
    except Exception as error:  # noqa: BLE001  # of another version, gone with its files, or whatever it raises
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        story.notes.append(f"its program {program} does not say what was planned to be sent: {said}")
        return placement, Forecast()
    return dataclasses.replace(placement, topology=topology), forecast
