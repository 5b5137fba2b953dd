"""Detection of a run that would train nothing, because the checkpoint that it resumes is already
the end of the training."""

from __future__ import annotations

from pathlib import Path

from nets import NetError
from nets.files import checkpoint
from roles.checkpoints.best import KEY, History
from roles.learning.resume import kept_of
from runtime import Topology


def finished(topology: Topology) -> tuple[str, Path] | None:
    """The reason why nothing is left to train, with the key to change, and the checkpoint.

    None if the run trains, or if the state that it resumes is in memory only and is still to be
    saved.
    """
    (lead,) = (actor.options for actor in topology.actors if actor.name == topology.lead)
    file = Path(lead.job.resume)
    table = lead.timetable
    try:
        facts = checkpoint.metadata(file) if lead.job.resume else {}
    except NetError:  # the file was there when the run was planned: the run reports the error
        return None
    if not facts or kept_of(facts) is not None:
        return None
    if table.first >= table.last:
        why = f"{file.name} is of iteration {table.first}, and max_iter is {table.last}"
        return f"{why}: there is nothing left to train; raise train.max_iter or epochs", file
    stop = dict(History(lead.watched, table.first, facts.get(KEY, "")).stop())
    if not stop:
        return None
    best = stop["best_iteration"]
    since = stop["tests_since"]
    score = lead.watched.stop.score
    why = (
        f"{file.name}: the training ended early: '{score}' was the best at iteration "
        f"{best} (tests since: {since})"
    )
    return f"{why}; there is nothing left to train; raise train.stop.patience", file
