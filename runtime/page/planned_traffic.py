"""The traffic and memory planned for a run, from its program if the reader of the report trusts it.

A run directory may come from another person, and importing a module runs its code. So the name in
plan.json is only compared with the names that the caller trusts; it never chooses the module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from runtime.page.run_history import RunHistory
from runtime.plan.forecast import Forecast
from runtime.plan.program import checked, import_program, is_script
from runtime.plan.topology import Placement
from runtime.terminal_text import bounded, printable


def outlook(story: RunHistory, trusted: Collection[str]) -> tuple[Placement, Forecast] | None:
    """The placement, with its options as the roles declare them, and the forecast. If the program
    is not in `trusted`, or fails, the placement is as it was read, and the forecast is empty. None
    if the placement is not known."""
    placement = story.placement
    if placement is None:
        return None
    program = placement.topology.program
    if is_script(program):  # reading a report must not run a script
        story.notes.append(
            f"its program is the script {program}, which a report does not run: "
            "the planned traffic is not known"
        )
        return placement, Forecast()
    if program not in trusted:
        text = "is not imported for a report, since a run directory may come from another person"
        shown = bounded(printable(program), 80)
        story.notes.append(
            f"its program {shown} {text}: add --program {shown} to see the planned traffic"
        )
        return placement, Forecast()
    try:
        topology = checked(placement.topology)
        forecast = import_program(program).forecast(topology) or Forecast()
    except Exception as error:  # noqa: BLE001  # another version, missing files, or any error of the program
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        story.notes.append(f"its program {program} does not report the planned traffic: {said}")
        return placement, Forecast()
    return dataclasses.replace(placement, topology=topology), forecast
