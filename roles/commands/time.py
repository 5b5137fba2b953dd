"""`time`: the time that each layer of a net takes, and the time of reading its data."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from nets import NetError
from nets.data import Batches, Source
from nets.tools.timing import table, time_data, time_net
from nets.tools.volumes import volumes
from roles.commands.common import job_of_file, reported, say, told
from roles.forecasting.layer_times import waiting
from roles.learning.backends import reader_threads
from roles.learning.job import Job
from roles.learning.working_nets import fix
from roles.messages import TRAIN
from runtime.cli.arguments import Settings
from runtime.errors import ConfigError


def time(
    file: Path = Path("cluster.toml"),
    *,
    iterations: int = 10,
    device: str = "",
    profile: Path | None = None,
    settings: Settings = (),
) -> int:
    """Time every layer of the net, forward and backward, and the reading of its data.

    Parameters
    ----------
    file
        The cluster's description: its net, data and batch are used.
    iterations
        Passes to measure, after one to warm up.
    device
        The device: "cpu" or "cuda:N". By default the device of the actor `single` in
        `train.devices`, or the first device there.
    profile
        Also write this file, with the times of the planned actors' array work on this machine: for
        `plan --profile` and for emulated devices.
    """
    with told():
        job = _on(device, job_of_file(file, settings))
        # the batch of one of the iteration's passes
        job = dataclasses.replace(job, batch=-(-job.batch // job.passes))
        source = reported(job.source(TRAIN))
        net = job.build(TRAIN, "all", job.shapes(TRAIN, source))
        fix(net, job)
        size = volumes(net)
        say(f"{net.spec.name}, batch {job.batch}, on {job.device}: {iterations} iterations")
        say(table(time_net(net, iterations=iterations, synchronize=waiting(job))))
        say(
            f"parameters {size.weight_bytes / 1e6:.1f} MB, activations "
            f"{size.data_bytes / 1e6:.1f} MB"
        )
        plan = net.memory_plan
        arrays = (
            f"arrays {plan.size / 1e6:.1f} MB ({plan.unshared / 1e6:.1f} MB if none shared a place)"
        )
        if plan.narrow:
            arrays += f", {plan.narrow} arrays in bfloat16"
        say(f"memory of a training pass: {arrays}, scratch {net.scratch / 1e6:.1f} MB")
        say(_of_data(job, source, iterations))
        if profile is not None:
            from roles.commands.profile import write
            from runtime.runs.checking import check

            write(
                profile,
                check(file, settings).placement,
                _on(device, job_of_file(file, settings)),
                iterations,
                everywhere=not device,
            )
    return 0


def _of_data(job: Job, source: Source, iterations: int) -> str:
    """A line with the times to read and to change the samples of a pass."""
    try:
        batches = job.batches(TRAIN, source)
        if not isinstance(batches, Batches) or job.emulated:
            return "data: not timed, since no images are read"
        found = time_data(batches, iterations=iterations)
    except NetError as error:
        return f"data: not timed: {'; '.join(error.problems)}"
    threads = reader_threads() if batches.divisible else 1
    return (
        f"data of a batch, with one thread: reading and decoding {found.reading * 1e3:.3f} ms, "
        f"transform and augmentation {found.changing * 1e3:.3f} ms; a run with one process reads "
        f"with {threads} thread{'s'[: threads != 1]}"
    )


def _on(device: str, job: Job) -> Job:
    """The job on this device, if one is given. Raises ConfigError for an unknown kind of device."""
    if device and not re.fullmatch(r"cpu|cuda:[0-9]{1,3}", device):
        raise ConfigError([f"--device: found '{device}', expected 'cpu' or 'cuda:N'"])
    return dataclasses.replace(job, device=device) if device else job
