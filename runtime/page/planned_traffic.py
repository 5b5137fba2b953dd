"""What a run was planned to send and hold, asked of its program if the reader of the report trusts
it.

A run directory may come from somebody else, and importing a module runs it. So the name in
plan.json chooses no module: it is compared with the names that the caller trusts.
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
    """The placement, its options as its roles declare them, and the forecast; without a word of the
    program only the first. `trusted`: programs that may be imported. None where no placement is
    known."""
    placement = story.placement
    if placement is None:
        return None
    program = placement.topology.program
    if is_script(program):  # whoever reads a report runs no script for it
        story.notes.append(
            f"its program is the script {program}: what was planned to be sent is not known here"
        )
        return placement, Forecast()
    if program not in trusted:
        text = "is not imported for a report, since a run directory may come from somebody else"
        shown = bounded(printable(program), 80)
        story.notes.append(
            f"its program {shown} {text}: with --program {shown} it says what "
            "was planned to be sent"
        )
        return placement, Forecast()
    try:
        topology = checked(placement.topology)
        forecast = import_program(program).forecast(topology) or Forecast()
    except Exception as error:  # noqa: BLE001  # of another version, gone with its files, or whatever it raises
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        story.notes.append(
            f"its program {program} does not say what was planned to be sent: {said}"
        )
        return placement, Forecast()
    return dataclasses.replace(placement, topology=topology), forecast
