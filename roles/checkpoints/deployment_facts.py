"""The description of a checkpoint's use (`nets.predict.deployment`). The actor that saves the
checkpoint makes it, from the facts of the data that were seen when the run was planned."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from nets import NetError
from nets.predict import Deployment, Seen
from nets.predict.deployment import KEY
from roles.learning.job import Job
from roles.messages import TEST


def described(job: Job, seen: Seen) -> Mapping[str, str]:
    """The metadata of a checkpoint that describes its use. Empty, after a warning, if the net
    cannot be used for predictions as it is."""
    try:
        spec = job.spec(job.test_phases[0]) if job.test_phases else job.net_spec.for_phase(TEST)
        return {KEY: Deployment.of(spec, seen, job.test_transform(spec)).to_text()}
    except NetError as error:
        logging.getLogger("roles").warning("checkpoints will not describe their use: %s", error)
        return {}
