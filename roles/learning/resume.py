"""Checkpoints of a training run: their contents, writing them, and starting from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nets import NetError, is_folder, whitened
from nets.files import checkpoint
from nets.files.binary import sweep_temporaries
from nets.files.histories import SOLVER
from nets.files.weights import match, shares
from nets.sharding.sharded_net import Shard
from ops import Array
from roles.learning.checkpoint_slices import cut_state
from roles.learning.histograms import Histograms
from roles.learning.job import Job
from roles.learning.parameter_store import ParameterStore
from runtime import Json

SAVED = ("checkpoint-*.safetensors", "best.safetensors")  # patterns of the files that a run saves


def checkpoint_path(directory: Path, iteration: int) -> Path:
    """The path of an iteration's checkpoint in a run directory."""
    return directory / f"checkpoint-{iteration:07d}.safetensors"


NOTHING: Mapping[str, str] = MappingProxyType({})
KEPT = "kept"  # the key of Kept in the metadata
Place = tuple[int, int]  # a place in a run: the iterations and the images trained so far


def writing(
    path: Path,
    arrays: dict[str, Array],
    place: Place,
    job: Job,
    losses: Sequence[float],
    more: Mapping[str, str] = NOTHING,
) -> Iterator[None]:
    """Write a checkpoint, piece by piece (`checkpoint.saving`).

    `arrays`: parameters and histories of every layer that is not frozen, and the state next to the
    model. The job's frozen layers are added to them. `place` and
    `losses`: the place from which to resume, and the losses that the next report is made of.
    `more`: further metadata.
    """
    whole = arrays | frozen_arrays(job)
    return checkpoint.saving(path, whole, {**more, **facts_of(place, job, losses)})


def frozen_arrays(job: Job) -> dict[str, Array]:
    """The parameters of the job's frozen layers, by their names in a checkpoint."""
    return {
        f"{layer}.{at}": blob.astype(job.dtype)
        for layer, blobs in job.frozen_blobs.items()
        for at, blob in enumerate(blobs)
    }


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
    """The facts on a checkpoint that was not written by a run's lead: the run has died, and actor
    `by` held its model in memory.

    `run`: its directory. `tested`: the iteration whose model was tested last; -1: none.
    """

    by: str
    run: str
    tested: int

    def due(self, iteration: int, every: int, last: int) -> bool:
        """True if the model of this iteration, which is complete, was still to be tested."""
        return self.tested != iteration and (
            iteration >= last or bool(every and iteration % every == 0)
        )


def kept_of(facts: Mapping[str, str]) -> Kept | None:
    """The facts in a checkpoint's metadata. None if it was written as usual, or the facts cannot be
    read."""
    try:
        return Kept(**json.loads(facts[KEPT])) if KEPT in facts else None
    except (ValueError, TypeError, RecursionError):
        return None


def keep(store: ParameterStore, job: Job, done: int, by: str, facts: Json) -> int:
    """Make a checkpoint in memory, for another run, and return its file descriptor.

    `facts` are those of `lead_facts`; this model may be some iterations ahead of them. Raises
    OSError.
    """
    ahead = done - facts["iteration"]
    place = done, facts["images"] + ahead * facts["batch"]
    kept = {KEPT: json.dumps({"by": by, "run": facts["run"], "tested": facts["tested"]})}
    return checkpoint.in_memory(
        store.state() | frozen_arrays(job),
        {**facts["more"], **kept, **facts_of(place, job, facts["losses"])},
    )


def lead_facts(
    place: Place,
    batch: int,
    losses: Sequence[float],
    tested: int,
    run: Path,
    more: Mapping[str, str],
) -> dict[str, Any]:
    """The facts that only the lead knows, as plain data.

    `place`, `losses` and `more` are as in `writing`. `batch`: the images of each iteration after
    `place`. `tested`: the iteration whose model was tested last. `run`: the run's directory.
    """
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
    """The losses that a checkpoint's run had not reported yet; [] if it does not have them."""
    try:
        return [float(loss) for loss in json.loads(facts.get("losses", "[]"))]
    except (ValueError, TypeError, RecursionError):
        return []


def sweep(runs: Path) -> None:
    """Remove the unfinished checkpoints of killed runs from their directories. Those of living runs
    stay."""
    for directory in runs.glob("*/"):
        for names in SAVED:
            sweep_temporaries(directory, names)


def place_of(path: str) -> Place:
    """The place in the run of a checkpoint's file, as from `place_in`.

    Raises NetError if the file is not a checkpoint, or is a folder, which is not searched here.
    """
    if is_folder(Path(path)):
        raise NetError(
            f"{path}: it is a folder: name a checkpoint in it, or give the run to `up --resume`"
        )
    return place_in(path, checkpoint.verify(Path(path)))


def place_in(path: str, facts: Mapping[str, str]) -> Place:
    """The iterations and images in a checkpoint with these metadata. -1 images in an older
    checkpoint, which does not have them. Raises NetError if it is not a checkpoint of a training
    run."""
    return _number(path, facts, "iteration", 9), _number(
        path, facts, "images", 18
    ) if "images" in facts else -1


def _number(path: str, facts: Mapping[str, str], name: str, digits: int) -> int:
    said = facts.get(name, "")
    if not (said.isascii() and said.isdigit() and len(said) <= digits):
        raise NetError(f"{path}: found no valid {name} in it: not a checkpoint of a training run")
    return int(said)


def restored(store: ParameterStore, job: Job, shard: Shard | None = None) -> ParameterStore:
    """Fill the store from the job's checkpoint if the job resumes one, or with first weights if the
    job names files of them, or with the job's whitening filters. Its updates make the job's
    histograms.

    A file of weights may lack some layers; the planner has checked that it has at least one layer
    of the net. Files hold whole parameters; a store of a `shard` takes its parts of them.
    """
    for layer in store.params.keys() & job.whitening.keys():
        first, *others = store.read(layer)
        store.start_from({layer: (whitened(first.shape, job.whitening[layer]), *others)})
    store.histograms = Histograms(job.histograms) if job.histograms else None
    if job.weights:
        whole = shard.whole_params if shard else store.params
        weights = job.first_weights().weights
        mine = {layer: params for layer, params in whole.items() if layer in weights}
        blobs = match(weights, mine, ", ".join(job.weights)).blobs
        store.start_from(
            {layer: shard.parts_of(layer, of) for layer, of in blobs.items()} if shard else blobs
        )
    if job.resume:
        arrays, facts = checkpoint.load(Path(job.resume))
        store.restore(cut_state(arrays, shard) if shard else arrays, int(facts["iteration"]))
    return store
