"""The runs that a run continues, and the curves of all of them as one."""

from __future__ import annotations

from pathlib import Path

from runtime.page.histograms import joined
from runtime.page.run_history import RunHistory, read
from runtime.page.series import Series
from runtime.records.journal_reading import is_path
from runtime.records.run_files import Damaged, Missing
from runtime.records.run_identity import identity_of
from runtime.records.runs import run_with

MOST = 100  # runs in a row


def whole(directory: Path, *, lives: bool) -> RunHistory:
    """The history of a run with the curves of the runs before it. Raises Damaged if its journal
    cannot be read."""
    story = read(directory, lives=lives)
    line = [story]
    seen = {directory.resolve()}
    while len(line) < MOST and (before := _before(line[-1])) is not None:
        if before.resolve() in seen:
            break
        seen.add(before.resolve())
        try:
            line.append(read(before, lives=False))
        except Missing:
            story.notes.append(
                f"it continues {before.name}, whose directory is gone: its curves begin here"
            )
            break
        except Damaged as error:
            story.damaged.append(f"it continues {before.name}, but its curves begin here: {error}")
            break
        story.damaged += line[-1].damaged
    earlier = line[-1]
    for later in line[-2::-1]:
        _join(earlier, later)
        earlier = later
    return story


def _before(story: RunHistory) -> Path | None:
    """The directory of the run that this one continues, by the id in its run.json. Run directories
    of earlier versions have no such id. For them it is the run with the checkpoint that this run
    began with, or the run that died or was scaled before this one."""
    said = _said_before(story)
    try:
        identity = identity_of(story.directory)
        if identity is None or not identity.continues:
            return said
        known = identity_of(said) if said is not None else None
        if known is not None and known.id == identity.continues:
            return said
        found = run_with(story.directory.resolve().parent, identity.continues)
    except OSError:
        return said
    return found.directory if found is not None else said


def _said_before(story: RunHistory) -> Path | None:
    """The directory of the run before, as the journal names it."""
    checkpoint = story.last.get("resumed", {}).get("checkpoint")
    if is_path(checkpoint):
        return Path(checkpoint).parent
    after = next(
        (story.last[name].get("after") for name in ("restart", "scaled") if name in story.last),
        None,
    )
    return story.directory.parent / Path(after).name if is_path(after) else None


def _join(earlier: RunHistory, later: RunHistory) -> None:
    """Put the curves of `earlier` before those of `later`, in `later`."""
    later.offset = earlier.offset + earlier.seconds
    later.forerunners = [*earlier.forerunners, earlier.name]
    later.confusions = later.confusions or earlier.confusions
    later.histograms = joined(earlier.histograms, later.histograms, later.begun)
    for key in earlier.series.keys() | later.series.keys():
        before = earlier.series.get(key, Series())
        before.cut(later.begun + 1)
        later.series[key] = later.series.get(key, Series()).after(before, later.offset)
