"""Who holds all of a run, should somebody of it die: the answer to a question that nobody waits for
others with.

Of replicas that are alike any will do, if the run is nothing but its model: while a tuner tries
settings, part of it is what to put back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from roles.coordination.probing import Probing
from roles.coordination.schedule import Schedule
from roles.learning.resume import lead_facts
from runtime import Holders

NOBODY = "nobody else holds the whole model"
HELD = "the run was held, or what it tried could have been undone"


def holders_of(
    replicas: Sequence[str],
    schedule: Schedule,
    probing: Probing,
    *,
    batch: int,
    losses: Sequence[float],
    run: Path,
    more: Mapping[str, str],
) -> Holders:
    """Those of one coordinator's run, and what it alone knows. `batch`: images of the iterations
    under way."""
    why = "" if replicas and probing.quiet else HELD if replicas else NOBODY
    under_way = schedule.issued - schedule.completed
    place = schedule.completed, schedule.images - under_way * batch
    facts = lead_facts(place, batch, losses, schedule.tested_at, run, more)
    return Holders(actors=() if why else tuple(replicas), facts=facts, why=why)
