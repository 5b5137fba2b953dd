"""The way from cluster.toml to a topology: read, check, lay out and brief the actors. Every mistake
is reported before anything starts."""

from __future__ import annotations

from roles.learning.job import Job
from roles.options import AUTO, Options
from roles.planning.briefing import brief
from roles.planning.diagnostics import Diagnostics
from roles.planning.host_layout import lay_out
from roles.planning.job_checks import check
from roles.planning.job_reading import inputs_of, read, read_job
from roles.planning.strategies import preset_called
from roles.presets.request import Preset
from runtime.config.sections import ClusterConfig
from runtime.plan.topology import Topology


def plan(
    config: ClusterConfig, options: Options, preset: Preset | None = None, *, tell: bool = True
) -> Topology:
    """The topology that trains as `options` describe, laid out by `preset` if one is given.

    `tell`: log warnings. Raises ConfigError with every mistake of the options and their files.
    """
    diagnostics = Diagnostics(config.raw)
    inputs = inputs_of(config, options, preset, diagnostics)
    checked = check(inputs, read(inputs, diagnostics), diagnostics)
    topology = brief(lay_out(inputs, checked, diagnostics), inputs, checked, diagnostics)
    if tell:
        diagnostics.tell()
    return topology


def job_of(config: ClusterConfig, options: Options) -> Job:
    """The job that `options` describe, for commands that need no topology. Raises ConfigError as
    `plan` does."""
    # the job does not depend on the preset that will be chosen
    preset = preset_called("single") if options.train.strategy.preset == AUTO else None
    diagnostics = Diagnostics(config.raw)
    job = read_job(inputs_of(config, options, preset, diagnostics), diagnostics)
    diagnostics.stop_if_wrong()
    diagnostics.tell()
    return job
