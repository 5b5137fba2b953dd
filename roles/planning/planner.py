"""The way from cluster.toml to a topology: read, check, lay out and brief the actors. Every mistake
is reported before anything starts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import ops
from roles.learning.job import Job
from roles.options import AUTO, Options
from roles.planning.auto_settings import AutoSettings, named
from roles.planning.briefing import brief
from roles.planning.diagnostics import Diagnostics
from roles.planning.host_layout import lay_out
from roles.planning.job_checks import check
from roles.planning.job_reading import read, read_job
from roles.planning.paying_machines import only_paying
from roles.planning.plan_inputs import PlanInputs, inputs_of
from roles.planning.run_names import name_of
from roles.planning.strategies import preset_called
from roles.presets.request import Preset
from runtime.config.sections import ClusterConfig
from runtime.errors import ConfigError
from runtime.plan.topology import Topology

ANY = "single"  # the preset that refuses the fewest nets and solvers


def plan(
    config: ClusterConfig,
    options: Options,
    preset: Preset | None = None,
    *,
    tell: bool = True,
    resuming: bool = False,
) -> Topology:
    """The topology that trains as `options` describe, laid out by `preset` if one is given.

    `tell`: log warnings. `resuming`: a checkpoint takes the place of first weights. Raises
    ConfigError with every mistake of the options and their files. An environment variable of the
    kernels that has a bad value is a mistake, too.
    """
    try:
        ops.check_environment()
    except ops.OpsError as error:
        raise ConfigError([str(error)]) from None
    diagnostics = Diagnostics(config.raw, options.train)
    inputs = inputs_of(config, options, preset, diagnostics, resuming=resuming)
    checked = check(inputs, read(inputs, diagnostics), diagnostics)
    topology = brief(lay_out(inputs, checked, diagnostics), inputs, checked, diagnostics)

    def again(inputs: PlanInputs) -> Topology:
        unheard = Diagnostics(config.raw, options.train)  # it repeats the warnings of the first
        return brief(lay_out(inputs, checked, unheard), inputs, checked, unheard)

    topology = only_paying(topology, inputs, again)
    if tell:
        diagnostics.tell()
    return dataclasses.replace(
        topology, title=name_of(checked.job.net_spec), facts=tuple(diagnostics.facts)
    )


def job_of(config: ClusterConfig, options: Options) -> Job:
    """The job that `options` describe, for commands that need no topology. Raises ConfigError as
    `plan` does."""
    diagnostics = Diagnostics(config.raw, options.train)
    job = read_job(inputs_of(config, with_any_preset(options), None, diagnostics), diagnostics)
    diagnostics.stop_if_wrong()
    diagnostics.tell()
    return job


def with_any_preset(options: Options) -> Options:
    """The options with some preset in place of "auto", which has nothing to tune. For questions
    whose answer does not depend on the preset."""
    if options.train.strategy.preset != AUTO:
        return options
    preset = preset_called(ANY)
    train = named(options.train, ANY, preset)
    return options.model_copy(update={"train": AutoSettings(train, preset, Path()).begun_with})
