"""Checkpoints of a training run: what is in the file, writing it, starting from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nets import NetError, is_folder
from nets.files import checkpoint
from nets.files.binary import sweep_temporaries
from nets.files.histories import SOLVER
from nets.files.weights import match, read_each, shares
from nets.sharding.sharded_net import Shard
from ops import Array
from roles.learning.checkpoint_slices import cut_state
from roles.learning.job import Job
from roles.learning.parameter_store import ParameterStore
from runtime import Json

SAVED = ("checkpoint-*.safetensors", "best.safetensors")  # what a run saves, as patterns


def checkpoint_path(directory: Path, iteration: int) -> Path:
    """Where the checkpoint of an iteration stands in a run directory."""
    return directory / f"checkpoint-{iteration:07d}.safetensors"


NOTHING: Mapping[str, str] = MappingProxyType({})
KEPT = "kept"  # in the metadata, see Kept
Place = tuple[int, int]  # in a run: iterations, and images, that were trained on


def writing(
    path: Path,
    arrays: dict[str, Array],
    place: Place,
    job: Job,
    losses: Sequence[float],
    more: Mapping[str, str] = NOTHING,
) -> Iterator[None]:
    """Write a checkpoint, piece by piece (`checkpoint.saving`): parameters and histories of every
    layer, what was beside them, and from where to go on: the iteration, the images, the losses that
    the next report is made of; and `more` metadata."""
    return checkpoint.saving(path, arrays, {**more, **facts_of(place, job, losses)})


def facts_of(place: Place, job: Job, losses: Sequence[float]) -> dict[str, str]:
    """The metadata of a checkpoint."""
    iteration, images = map(str, place)
    facts = {
        "iteration": iteration,
        "images": images,
        "net": job.net_spec.name,
        "seed": str(job.seed),
    }
    facts[SOLVER] = job.solver_spec.type
    return (
        facts | {"batch": str(job.batch), "losses": json.dumps(list(losses))} | shares(job.shared)
    )


@dataclass(frozen=True)
class Kept:
    """What a checkpoint says that nobody has written: a run has died, and `by` held its model in
    memory. Its directory; the iteration whose model was tested last, -1: none."""

    by: str
    run: str
    tested: int

    def due(self, iteration: int, every: int, last: int) -> bool:
        """Was the model of this iteration, up to which all is done, still to be tested?"""
        return self.tested != iteration and (
            iteration >= last or bool(every and iteration % every == 0)
        )


def kept_of(facts: Mapping[str, str]) -> Kept | None:
    """What it says; None: it was written as any, or says what we do not write."""
    try:
        return Kept(**json.loads(facts[KEPT])) if KEPT in facts else None
    except (ValueError, TypeError, RecursionError):
        return None


def keep(store: ParameterStore, job: Job, done: int, by: str, facts: Json) -> int:
    """A checkpoint in memory, for another run: its descriptor. `facts` are those of `lead_facts`,
    of which this model is perhaps some iterations ahead. OSError."""
    ahead = done - facts["iteration"]
    place = done, facts["images"] + ahead * facts["batch"]
    kept = {KEPT: json.dumps({"by": by, "run": facts["run"], "tested": facts["tested"]})}
    return checkpoint.in_memory(
        store.state(), {**facts["more"], **kept, **facts_of(place, job, facts["losses"])}
    )


def lead_facts(
    place: Place,
    batch: int,
    losses: Sequence[float],
    tested: int,
    run: Path,
    more: Mapping[str, str],
) -> dict[str, Any]:
    """What only the lead knows, as plain data: `place` and `losses` as in `writing`, the images of
    the iterations after it, the iteration whose model was tested last, the run's directory, `more`
    metadata."""
    iteration, images = place
    facts = {
        "iteration": iteration,
        "images": images,
        "batch": batch,
        "losses": list(losses),
        "tested": tested,
    }
    return facts | {"run": str(run), "more": dict(more)}


def losses_of(facts: Mapping[str, str]) -> list[float]:
    """Those that a checkpoint's run had not yet reported; none, if it does not say."""
    try:
        return [float(loss) for loss in json.loads(facts.get("losses", "[]"))]
    except (ValueError, TypeError, RecursionError):
        return []


def sweep(runs: Path) -> None:
    """Remove what runs that were killed while they wrote a checkpoint have left in their
    directories; those of living runs stay."""
    for directory in runs.glob("*/"):
        for names in SAVED:
            sweep_temporaries(directory, names)


def place_of(path: str) -> Place:
    """`place_in` of a file. NetError if it is none, in words for a folder, which is not searched
    here."""
    if is_folder(Path(path)):
        raise NetError(
            f"{path}: it is a folder: name a checkpoint in it, or the run behind `up --resume`"
        )
    return place_in(path, checkpoint.verify(Path(path)))


def place_in(path: str, facts: Mapping[str, str]) -> Place:
    """The iterations and images in a checkpoint with these metadata; -1 images: an older one, which
    does not say. NetError if it is none of a training run."""
    return _number(path, facts, "iteration", 9), _number(
        path, facts, "images", 18
    ) if "images" in facts else -1


def _number(path: str, facts: Mapping[str, str], name: str, digits: int) -> int:
    said = facts.get(name, "")
    if not (said.isascii() and said.isdigit() and len(said) <= digits):
        raise NetError(f"{path}: it does not say its {name}: not a checkpoint of a training run")
    return int(said)


def restored(store: ParameterStore, job: Job, shard: Shard | None = None) -> ParameterStore:
    """The store, filled from the job's checkpoint if it resumes one, or with its first weights if
    it names a file.

    A file of weights may have other layers only: the planner saw that some layer of the net is in
    it. Files hold whole parameters; a store of a `shard` takes its parts of them.
    """
    if job.weights:
        whole = shard.whole_params if shard else store.params
        weights = read_each(job.weights, job.shared)
        mine = {layer: params for layer, params in whole.items() if layer in weights}
        blobs = match(weights, mine, ", ".join(job.weights)).blobs
        store.start_from(
            {layer: shard.parts_of(layer, of) for layer, of in blobs.items()} if shard else blobs
        )
    if job.resume:
        arrays, facts = checkpoint.load(Path(job.resume))
        store.restore(cut_state(arrays, shard) if shard else arrays, int(facts["iteration"]))
    return store
