"""The files and data that an actor with a job reads: a name and an identity for each.

Equal content has the same identity on every machine. The runtime compares identities between
machines before a run begins: with another net, other samples or another checkpoint on one machine,
the run would still train, but would train something else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from nets.data import Source, identity
from roles.learning.job import Job

# bytes read at either end of a file; the first ones hold a checkpoint's header, with the SHA-256 of
# its content
EDGE = 1 << 16


class ReadsJob:
    """Part of an actor with a job. `_sources` are the data sources that it has opened, by phase."""

    _job: Job
    _sources: Mapping[str, Source] = {}

    def reads(self) -> dict[str, str]:
        """The name and identity of everything that the actor reads. Raises OSError or DataError."""
        job = self._job
        if job.emulated:
            return {}
        specs = {f"the net in {phase}": job.spec(phase).layers for phase in job.phases}
        found = {
            name: _checksum(*(_bytes(layer.proto) for layer in layers))
            for name, layers in specs.items()
        }
        found["the solver"] = _checksum(_bytes(job.solver_spec.proto))
        files = {
            "train.resume": job.resume,
            # numbered, since files of several folders may have one name
            **{
                f"train.weights {number} {Path(path).name}": path
                for number, path in enumerate(job.weights, 1)
            },
        }
        found |= {name: of_file(Path(path)) for name, path in files.items() if path}
        return found | {
            f"data of {phase}": identity(source) for phase, source in self._sources.items()
        }


def of_file(path: Path) -> str:
    """The size of a file, and a checksum of its first and its last 64 KiB."""
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(EDGE)
        file.seek(max(0, size - EDGE))
        return f"{size} bytes, {_checksum(first, file.read(EDGE))}"


def _bytes(proto: object) -> bytes:
    found: bytes = proto.SerializeToString(deterministic=True)  # type: ignore[attr-defined]
    return found


def _checksum(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return f"checksum {digest.hexdigest()}"
