"""The actors that hold all of a run, asked for when another actor has died. The lead answers alone:
no other actor is asked.

All replicas are alike, so any of them will do, as long as the run is nothing but its model. While a
tuner tries settings, the model to put back is a part of the run too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from roles.coordination.probing import Probing
from roles.coordination.schedule import Schedule
from roles.learning.resume import lead_facts
from runtime import Holders

NOBODY = "no other actor holds the whole model"
STREAMS = "each worker holds only the states of its own streams"
HELD = "the run was held, or its last iterations could have been undone"


def holders_of(
    replicas: Sequence[str],
    schedule: Schedule,
    probing: Probing,
    *,
    batch: int,
    losses: Sequence[float],
    run: Path,
    more: Mapping[str, str],
    recurrent: bool,
) -> Holders:
    """The actors that hold all of one coordinator's run, and the facts that only the coordinator
    has. `batch`: images of the iterations under way. `recurrent`: the net has recurrent layers,
    whose states are a part of the run too."""
    why = NOBODY if not replicas else STREAMS if recurrent else "" if probing.quiet else HELD
    under_way = schedule.issued - schedule.completed
    place = schedule.completed, schedule.images - under_way * batch
    facts = lead_facts(place, batch, losses, schedule.tested_at, run, more)
    return Holders(actors=() if why else tuple(replicas), facts=facts, why=why)
