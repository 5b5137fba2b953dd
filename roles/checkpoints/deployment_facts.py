"""What a checkpoint says of its use (`nets.predict.deployment`): made by who saves it, of what was
seen of the data when the run was planned."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from nets import NetError
from nets.data import Transform
from nets.predict import Deployment, Seen
from nets.predict.deployment import KEY
from roles.learning.job import Job
from roles.messages import TEST


def described(job: Job, seen: Seen) -> Mapping[str, str]:
    """The metadata of a checkpoint: nothing, and a warning, if the net cannot be used as it is."""
    try:
        spec = job.spec(job.test_phases[0]) if job.test_phases else job.net_spec.for_phase(TEST)
        return {KEY: Deployment.of(spec, seen, Transform.of_net(spec, TEST)).to_text()}
    except NetError as error:
        logging.getLogger("roles").warning("checkpoints will not say how they are used: %s", error)
        return {}
